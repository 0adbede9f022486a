//! The executor of a container: starts its processes, restarts what dies, keeps their logs, and cleans up.

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

/// Runs the executor until its container has ended.
///
/// # Errors
/// When the container cannot be set up.
pub fn run(options: ExecutorOptions) -> anyhow::Result<ExitCode> {
    anyhow::bail!("executor of container {} is not built yet", options.container)
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
