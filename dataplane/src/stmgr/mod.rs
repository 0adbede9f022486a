//! The stream manager: relays blocks between the instances of its container and the stmgrs of the others.
//!
//! The decisions are plain state machines, without sockets, rings, clocks or threads:
//!
//! * [`route`]: where a block goes; [`trees`]: whose tuple trees its tuples may belong to; [`sizes`]: how many blocks there are, and whose.
//! * [`core`]: what descriptors and frames do; on top of [`blocks`] (who holds which), [`ends`] (which tasks have
//!   ended), `credit` (flow control between stmgrs), [`watermarks`] and [`pressure`] (which tasks are behind, and who
//!   holds spouts for them), [`counters`] and [`fault`] (what nobody may do).
//! * [`registration`]: who has registered with whom, under which plan, in which state.
//!
//! The drivers carry them out: [`run`] is the loop, over `connections`: `local` (the instances), `peers` (the other stmgrs) and
//! `tmaster`.

mod audit;
mod bits;
pub mod blocks;
mod connections;
pub mod core;
pub mod counters;
mod credit;
mod driver;
#[cfg(test)]
mod driver_tests;
pub mod ends;
pub mod fault;
mod local;
mod options;
mod peers;
pub mod pressure;
pub mod registration;
pub mod route;
mod sinks;
pub mod sizes;
mod tmaster;
pub mod trees;
pub mod watermarks;

pub use driver::run;
pub use options::{ExitReason, SOCKET_NAME, StmgrError, StmgrOptions};
