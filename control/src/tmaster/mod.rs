//! The topology master: waits for every stmgr, makes the physical plan, says when tuples may flow, and knows how
//! the topology is doing.
//!
//! It sees no tuple. Everything it decides is in [`core`], a pure state machine over `totals`, the counters;
//! `driver` brings it the clock and the state manager, and `server` the connections.

pub mod core;
mod cpu;
mod driver;
mod server;
mod totals;

pub use driver::{TmasterOptions, run};
