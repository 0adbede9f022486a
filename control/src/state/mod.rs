//! The state managers and the typed state of topologies above them.
//!
//! * [`manager`]: what a state manager can do: a small tree of byte strings, some of them *ephemeral*.
//! * [`mod@file`]: the state manager below a folder, `file:PATH`.
//! * [`typed`]: [`State`], the entries of a topology by their types.
//! * `conformance`: the tests that every state manager passes.

#[cfg(test)]
mod conformance;
pub mod file;
pub mod manager;
pub mod typed;

mod codec;

pub use manager::{Ephemeral, Held, NAME_MAX_BYTES, StateError, StateManager};
pub use typed::{Execution, ExecutionMode, State, TmasterLocation};
