//! The stream manager: relays blocks between the instances of its container and the stmgrs of the others.
//!
//! The decisions are plain state machines, without sockets, rings, clocks or threads:
//!
//! * [`route`]: where a block goes; [`sizes`]: how many blocks there are, and whose.
//! * [`core`]: what descriptors and frames do; on top of [`blocks`] (who holds which), [`ends`] (which tasks have
//!   ended), `credit` (flow control between stmgrs), [`counters`] and [`fault`] (what nobody may do).

mod bits;
pub mod blocks;
pub mod core;
pub mod counters;
mod credit;
pub mod ends;
pub mod fault;
pub mod route;
pub mod sizes;
