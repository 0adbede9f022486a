//! The ledger of a spout task: which of its tuple trees are in flight, and what becomes of each.
//!
//! A *root* is a tuple that the spout emitted with an id. The ledger keeps one number for it, the xor of the edges of all
//! tuples of its tree that are emitted and not acked yet (the acker of Storm). Whoever emits or acks xors an edge in,
//! in any order; at 0 the tree is complete. A tree that fails, or takes longer than the timeout, is closed at once.
//!
//! * [`table`]: the roots in flight: no hashing, no collision, nothing that a stale ack could meet;
//! * [`Front`]: the latest of them;
//! * `page`: 64 of them, those that are treated alike together;
//! * `ended`: the trees whose end is not told yet;
//! * [`timeouts`]: when to look for trees that took too long;
//! * [`window`]: how many trees may be in flight, so that they do not time out in queues;
//! * [`latency`]: how long complete trees took.
//!
//! Nothing here has a clock, a thread or randomness: the time comes in, in microseconds since whenever.

mod ended;
mod front;
pub mod latency;
mod page;
pub mod table;
pub mod timeouts;
pub mod window;

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;

pub use ended::Ended;
pub use front::Front;
pub use latency::CompleteLatency;
pub use table::{Ledger, Limits, Outcome};

/// A ledger in the hands of a spout's collector, which opens trees, and of whatever receives its acks.
pub type SharedLedger = std::rc::Rc<std::cell::RefCell<Ledger>>;
