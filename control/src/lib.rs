//! Egret's control plane: everything around the dataplane that starts, watches and ends topologies.
//!
//! * [`cli`]: the `egret` command, one file a command.
//! * [`tmaster`]: the topology master.
//! * [`packing`]: which task runs in which container.
//! * [`scheduler`]: who starts the executors; [`executor`]: who keeps a container's processes running.
//! * [`state`]: what all of them know of a topology; [`layout`]: where its files are.
//!
//! Nothing here sees a tuple.

mod backoff;
pub mod cli;
pub mod executor;
pub mod layout;
pub mod logs;
pub mod packing;
pub mod scheduler;
pub mod state;
pub mod tmaster;

use std::process::ExitCode;

/// The whole `egret` command, for this process's arguments: every binary that calls it is the multi-call binary.
#[must_use]
pub fn main() -> ExitCode {
    cli::main(std::env::args_os())
}
