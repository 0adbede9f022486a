//! The built-in components: one file each, and the registry by which a YAML topology names them.
//!
//! A [`ComponentType`] says what a type accepts and emits; all of that is checked before anything starts.

mod args;
mod schema;
mod types;

pub use args::{ArgKind, ArgProblem, ArgSpec, Args, At};
pub use schema::InputSchema;
pub use types::{ComponentType, TYPES, find, names};
