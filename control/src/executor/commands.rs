//! The command line and environment of each process of a container.

use crate::executor::{ExecutorOptions, component_reads_stdin, own_program};
use crate::layout::{ContainerDir, ProcessName, RUNNER_PID_ENV, TOPOLOGY_ID_ENV};
use egret_dataplane::ids::{ContainerId, Incarnation};
use egret_dataplane::plan::{PackingPlan, Program, Topology};
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

/// The environment variable that tells a process its role.
const ROLE_ENV: &str = "EGRET_ROLE";

/// What turns a process's name into a command; a trait, so that the loop can be tested with other programs.
pub(super) trait Commands {
    /// The command for the `incarnation`th process of this name.
    fn command(&self, name: &ProcessName, incarnation: Incarnation) -> io::Result<Command>;

    /// Where its standard output goes, if not into its log.
    fn stdout(&self, _: &ProcessName) -> io::Result<Option<OwnedFd>> {
        Ok(None)
    }
}

/// The commands of a real container.
pub(super) struct ContainerCommands<'a> {
    pub(super) options: &'a ExecutorOptions,
    pub(super) topology: &'a Topology,
    pub(super) execution_id: &'a str,
    pub(super) dir: &'a ContainerDir,
    /// Whether this executor was given the standard input of `egret run`.
    pub(super) stdin: bool,
    /// The standard output of `egret run`, for the instances that write to it.
    pub(super) stdout: Option<OwnedFd>,
}

impl Commands for ContainerCommands<'_> {
    fn command(&self, name: &ProcessName, incarnation: Incarnation) -> io::Result<Command> {
        let mut command = match name {
            ProcessName::Instance(..) => self.instance(name, incarnation)?,
            _ => self.daemon(name, incarnation)?,
        };
        command.env(TOPOLOGY_ID_ENV, self.execution_id).env_remove(RUNNER_PID_ENV);
        Ok(command)
    }

    /// What a user's program prints is shown like that of any program; of a built-in component, what it was told to
    /// write there.
    fn stdout(&self, name: &ProcessName) -> io::Result<Option<OwnedFd>> {
        let (ProcessName::Instance(_, component), Some(stdout)) = (name, &self.stdout) else {
            return Ok(None);
        };
        let mut components = self.topology.components.iter();
        let told = components.any(|c| c.id == *component && egret::components::writes_stdout(c));
        if self.topology.program == Program::Builtin && !told {
            return Ok(None);
        }
        stdout.try_clone().map(Some)
    }
}

impl ContainerCommands<'_> {
    fn daemon(&self, name: &ProcessName, incarnation: Incarnation) -> io::Result<Command> {
        let mut command = Command::new(own_program()?);
        command.arg(name.to_string());
        command.args(["--state", &self.options.state_url, "--topology", &self.topology.name]);
        if *name == ProcessName::Stmgr {
            command.args(["--container", &self.options.container.to_string()]);
        }
        command.args(["--incarnation", &incarnation.to_string()]);
        command.env_remove(ROLE_ENV).stdin(Stdio::null());
        Ok(command)
    }

    fn instance(&self, name: &ProcessName, incarnation: Incarnation) -> io::Result<Command> {
        let ProcessName::Instance(task, component) = name else { unreachable!("asked for an instance") };
        let mut command = match &self.topology.program {
            Program::Builtin => {
                let mut command = Command::new(own_program()?);
                command.arg("instance");
                command
            }
            Program::Linked(program) => {
                let mut command = Command::new(&program.path);
                command.args(&program.args);
                command
            }
        };
        command.env(ROLE_ENV, "instance").env("EGRET_TOPOLOGY", &self.topology.name);
        command.env("EGRET_TASK", task.to_string()).env("EGRET_INCARNATION", incarnation.to_string());
        command.env("EGRET_CONTAINER_DIR", self.dir.path());
        let reads = |c: &&egret_dataplane::plan::Component| c.id == *component && component_reads_stdin(c);
        let inherits = self.stdin && self.topology.components.iter().any(|c| reads(&c));
        command.stdin(if inherits { Stdio::inherit() } else { Stdio::null() });
        Ok(command)
    }
}

/// The processes of a container, in the order of their start; `None` when the plan has no such container.
pub(super) fn processes(packing: &PackingPlan, container: ContainerId) -> Option<Vec<ProcessName>> {
    if container == ContainerId(0) {
        return Some(vec![ProcessName::Tmaster]);
    }
    let plan = packing.container(container)?;
    let instances = plan.tasks.iter().map(|t| ProcessName::Instance(t.task, t.component.clone()));
    Some(std::iter::once(ProcessName::Stmgr).chain(instances).collect())
}
