//! The topology master: waits for every stmgr, makes the physical plan, says when tuples may flow, and knows how
//! the topology is doing.
//!
//! It sees no tuple. Everything it decides is in [`core`], a pure state machine; [`driver`] brings it the
//! connections, the clock and the state manager.

pub mod core;
mod totals;
