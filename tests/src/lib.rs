//! Support for the tests that start processes: a cluster of its own for each test, commands with deadlines, and a look
//! at what they leave behind.
//!
//! * [`Cluster`]: a private `EGRET_HOME`; runs the multi-call binary; kills everything of it when dropped.
//! * [`Command`], [`Running`], [`Finished`]: one command, while it runs and after.
//! * [`wait_for`], [`try_for`]: the only place that sleeps; everything that waits for a state waits here, with a deadline.
//! * [`Leftovers`]: processes, memory, sockets and files that belong to a cluster.
//! * [`outcome`]: a case of a test program, run to its end.
//! * [`records`]: what the components of the test program wrote down.
//! * [`clock`], [`random`]: time that processes share, and random numbers that a seed repeats.
//! * [`sim`]: the simulator: random topologies and faults in one thread, and what must hold.
//! * [`text`]: a text made from real files, and its words counted by another program.
//!
//! Everything here panics where a test would have to fail.
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod clock;
mod cluster;
mod command;
mod gate;
mod leftovers;
pub mod outcome;
pub mod random;
pub mod records;
pub mod sim;
pub mod text;
mod wait;

pub use cluster::Cluster;
pub use command::{Command, Finished, Running};
pub use leftovers::{Leftovers, Process};
pub use wait::{DEADLINE, let_time_pass, try_for, wait_for};

/// A [`Cluster`] whose commands are run by this package's own copy of the multi-call binary. A macro, since Cargo
/// tells the path of a binary only to the tests of its package.
#[macro_export]
macro_rules! cluster {
    () => {
        $crate::Cluster::new(env!("CARGO_BIN_EXE_egret-under-test"))
    };
}
