//! The dataplane of Egret: how tuples get from the instance that emits them to the instance that executes them.
//!
//! Rooms, from the bottom up: [`ids`] and [`plan`] say who is where; [`memory`] holds the shared blocks and
//! rings; [`frame`] lays tuples out in blocks; [`message`] is the control protocol; [`net`] moves frames between
//! hosts; [`stmgr`] is the stream manager that relays blocks between all of them.
//!
//! Nothing here knows what a spout or a bolt does with a tuple, and nothing here reads a state manager.

pub mod affinity;
pub mod frame;
pub mod host;
pub mod ids;
pub mod memory;
pub mod message;
pub mod mutants;
pub mod net;
pub mod plan;
pub mod simulation;
pub mod stmgr;
