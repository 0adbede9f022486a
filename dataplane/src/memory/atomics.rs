//! The atomics of rings and parkers; `tests/loom` compiles those files with loom's instead.

pub(super) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
