//! Support for the process-level tests.
