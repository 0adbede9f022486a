//! The topology master: waits for every stmgr, makes the physical plan, says when tuples may flow, and knows how
//! the topology is doing.
//!
//! It sees no tuple. Everything it decides is in [`core`], a pure state machine over `totals`, the counters,
//! `user_counters`, those of user code, `latency`, the histograms, and `pressure`, who is behind. `memory` is what it
//! leaves to the tmaster after it; `driver` brings it the clock and the state manager, and `server` the connections.

pub mod core;
mod cpu;
mod driver;
mod latency;
mod memory;
mod pressure;
mod server;
mod totals;
mod user_counters;

pub use driver::{TmasterOptions, run, run_in};
