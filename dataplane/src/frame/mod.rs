//! How tuples and acks lie in blocks.
//!
//! * [`header`]: what every block begins with.
//! * [`batch`]: tuples; the builder that writes them in place and the reader that trusts nothing.
//! * [`root`]: the trees that a tuple belongs to, and the edges of those trees.
//! * [`ack`]: acks and fails on their way to a spout; a builder and a reader of the same sort.
//! * [`destination`]: a task or a broadcast, as one number.
//! * [`purpose`]: why a block goes to its destination.
//!
//! What an archive holds is not known here: a tuple is a run of bytes.

pub mod ack;
pub mod batch;
pub mod destination;
pub mod header;
mod parts;
pub mod purpose;
pub mod root;

pub use ack::{AckBuilder, AckHeader, AckKind, AckReader, AckRecord, PAGE, bits};
pub use batch::{BLOCK_OVERHEAD, BatchBuilder, BatchHeader, BatchReader, Near, NoRoom, TupleAt, Tuples};
pub use destination::Destination;
pub use header::{BlockKind, Malformed};
pub use purpose::Purpose;
pub use root::{FRESH, Owner, ROOT_BYTES, Root, Roots, edge};
