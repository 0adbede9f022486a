//! The built-in components: one file each, and the registry by which a YAML topology names them.
//!
//! A [`ComponentType`] says what a type accepts and emits; all of that is checked before anything starts. A program
//! that links the library uses the spouts and bolts themselves.

mod args;
mod count;
mod dictionary;
mod file_lines;
mod file_sink;
mod files;
mod flaky;
mod identity;
mod key_table;
mod line_place;
mod lines;
mod null_sink;
mod numbers;
mod pace;
mod progress;
mod random_words;
mod schema;
mod sequence;
mod sleep;
mod split_words;
#[cfg(test)]
mod testing;
mod top;
mod types;

pub use args::{ArgKind, ArgProblem, ArgSpec, Args, At};
pub use count::Count;
pub use file_lines::{FileLines, Line};
pub use file_sink::{FileSink, SinkError};
pub use files::LinesError;
pub use flaky::Flaky;
pub use identity::Identity;
pub use null_sink::NullSink;
pub use progress::PositionError;
pub use random_words::RandomWords;
pub use schema::InputSchema;
pub use sequence::{Number, NumberAndPayload, Sequence};
pub use sleep::Sleep;
pub use split_words::{SplitWords, Word};
pub use top::Top;
pub use types::{ComponentType, TYPES, blueprint, find, names, reads_stdin, writes_stdout};
