//! How tuples lie in blocks.
//!
//! * [`batch`]: the header of a block and the tuples after it; the builder that writes them in place and the reader
//!   that trusts nothing.
//! * [`destination`]: a task or a broadcast, as one number.
//!
//! What an archive holds is not known here: a tuple is a run of bytes.

pub mod batch;
pub mod destination;

pub use batch::{BLOCK_OVERHEAD, BatchBuilder, BatchHeader, BatchReader, Malformed, NoRoom, Tuples};
pub use destination::Destination;
