//! The executor of a container: starts its processes, restarts what dies, keeps their logs, and cleans up.
//!
//! * `supervisor`: what to do when, without doing it.
//! * `driver`: the loop that does it; `child` is one child of it, `commands` how it is started.
//! * `outside`: signals, and the children of children.
//! * `session`: the executor's own setting up and cleaning up; `starts`: what it remembers of the executors before it.
//! * `wards`: the executors of other containers that this one starts again when they die.
//!
//! No child outlives its executor: the kernel kills it with the executor, and what user code started is found as an
//! orphan of this process.

mod child;
mod commands;
mod driver;
mod failure;
mod outside;
mod session;
mod spawn;
mod starts;
mod supervisor;
mod wards;

pub use failure::Failure;
pub(crate) use spawn::spawn_bound;
pub use starts::Starts;

use egret_dataplane::ids::ContainerId;
use egret_dataplane::plan::{Component, PackingPlan, Program, Topology};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// What an executor is told on its command line.
#[derive(Clone, Debug)]
pub struct ExecutorOptions {
    /// The state that holds the topology.
    pub state_url: String,
    /// The topology's name.
    pub topology: String,
    /// The container it is for.
    pub container: ContainerId,
}

/// Runs the executor until its container has ended: 0 when the topology is over or the executor was told to end, 1 when
/// it gave up, which [`Failure`] explains. To be called on the main thread, as the kernel ends the children with the
/// thread that started them.
///
/// # Errors
/// When the container cannot be set up.
pub fn run(options: ExecutorOptions) -> anyhow::Result<ExitCode> {
    session::Session::begin(&options)?.run()
}

/// The present executable, also when its file was replaced or removed meanwhile.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn own_program() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    Ok(if program.exists() { program } else { PathBuf::from("/proc/self/exe") })
}

/// Whether a task of this container reads standard input: a `file-lines` spout with the path `-`.
#[must_use]
pub fn reads_stdin(topology: &Topology, packing: &PackingPlan, container: ContainerId) -> bool {
    let Some(plan) = packing.container(container) else { return false };
    let reader = |c: &Component| topology.program == Program::Builtin && component_reads_stdin(c);
    let mut readers = topology.components.iter().filter(|c| reader(c));
    readers.any(|c| plan.tasks.iter().any(|t| t.component == c.id))
}

/// Whether this component reads standard input.
#[must_use]
pub fn component_reads_stdin(component: &Component) -> bool {
    if component.kind != "file-lines" {
        return false;
    }
    let Ok(args) = serde_json::from_str::<serde_json::Value>(&component.args) else { return false };
    match args.get("path") {
        Some(serde_json::Value::String(path)) => path == "-",
        Some(serde_json::Value::Array(paths)) => paths.iter().any(|p| p == "-"),
        _ => false,
    }
}
