//! The process that runs a task.
//!
//! ```text
//!              Unix socket                   data-out ring
//!   stmgr ◄───────────────► gateway thread   ┌─────────────► stmgr
//!                             │      ▲       │
//!                     mailbox │      │ reports (metrics-out)
//!                             ▼      │       │
//!                           task thread ─────┘
//!                                ▲
//!                                └── data-in ring ◄───────── stmgr
//! ```
//!
//! * [`mod@env`]: what the executor says; `registration`: how the stmgr takes an instance.
//! * `gateway`: every conversation with the outside; it starts and ends the task thread.
//! * `task`: the task thread; `spout` and `bolt` are its two loops; `pace` says when to flush.
//! * `rate`: how much a task may emit.
//! * `roots`: the ledger of a spout's task, and what is received for it.
//! * `mailbox`, `queues`, `reports`: the three ways between the threads and the stmgr.
//! * `program`: `egret::main` and the instance role of built-in topologies.

mod bolt;
pub mod env;
mod gateway;
mod guard;
mod mailbox;
mod pace;
mod program;
mod queues;
mod rate;
mod registration;
mod reports;
mod roots;
mod spout;
mod task;

pub(crate) use guard::{install_virtual_hook, take_virtual_panics};
pub use program::{describe_blueprint, main, read_description, run_builtin};

use crate::topology::{CustomGrouping, Factory};
use egret_dataplane::ids::{Incarnation, TaskId};
use egret_dataplane::plan::Topology;
use std::path::PathBuf;

/// Finds the code of a task's component, or says why this program has none for it.
pub(crate) type Load =
    Box<dyn FnOnce(&Topology, TaskId) -> Result<(Factory, Vec<CustomGrouping>), String> + Send>;

/// Runs an instance of a task; the exit code of its process.
pub(crate) fn run_instance(
    topology: String,
    task: TaskId,
    incarnation: Incarnation,
    container_dir: PathBuf,
    load: Load,
) -> u8 {
    let env = env::InstanceEnv { topology, task, incarnation, container_dir };
    gateway::run(env, load).unwrap_or_else(|error| {
        tracing::error!("the gateway failed: {error}");
        exit::FAILED
    })
}

/// Exit codes of an instance.
pub(crate) mod exit {
    /// The topology is over.
    pub(crate) const DONE: u8 = 0;
    /// User code failed; the executor starts the task again.
    pub(crate) const FAILED: u8 = 1;
    /// The stmgr does not want this instance.
    pub(crate) const REFUSED: u8 = 3;
    /// A signal asked it to end.
    pub(crate) const TERMINATED: u8 = 143;
}
