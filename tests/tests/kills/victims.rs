//! What can be killed.

use egret_tests::random::Random;
use egret_tests::{Cluster, DEADLINE, Process, wait_for};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// Which kind of victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Instance,
    Stmgr,
    /// An executor with all its processes.
    Container,
}

/// Processes that are killed together.
#[derive(Clone, Debug)]
pub(crate) struct Victim {
    pub(crate) kind: Kind,
    pub(crate) container: u32,
    processes: Vec<Process>,
}

impl Victim {
    /// Kills its processes in random order.
    pub(crate) fn kill(&self, random: &mut Random) {
        let mut processes = self.processes.clone();
        random.shuffle(&mut processes);
        processes.iter().for_each(Process::kill);
    }
}

impl fmt::Display for Victim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Instance => "an instance of",
            Kind::Stmgr => "the stmgr of",
            Kind::Container => "all of",
        };
        let pids: Vec<_> = self.processes.iter().map(|process| process.pid.to_string()).collect();
        write!(f, "{kind} container {} (pid {})", self.container, pids.join(", "))
    }
}

/// Chooses one of what lives now: in two of four cases an instance, in one a stmgr, in one a container.
pub(crate) fn victims(cluster: &Cluster, random: &mut Random) -> Victim {
    let kind = *random.choose(&[Kind::Instance, Kind::Instance, Kind::Stmgr, Kind::Container]);
    let candidates = wait_for("something to kill", DEADLINE, || {
        let found = alive(cluster, kind);
        (!found.is_empty()).then_some(found)
    });
    random.choose(&candidates).clone()
}

fn alive(cluster: &Cluster, kind: Kind) -> Vec<Victim> {
    let mut containers: BTreeMap<u32, Vec<Process>> = BTreeMap::new();
    for process in cluster.processes() {
        if let Some(container) = container_of(&process) {
            containers.entry(container).or_default().push(process);
        }
    }
    let mut found = Vec::new();
    for (container, mut processes) in containers {
        processes.sort_by_key(|process| process.pid);
        let one = |process: Process| Victim { kind, container, processes: vec![process] };
        match kind {
            Kind::Instance => found.extend(processes.into_iter().filter(is_instance).map(one)),
            Kind::Stmgr => found.extend(processes.into_iter().filter(|p| is(p, "stmgr")).map(one)),
            Kind::Container if processes.iter().any(|p| is(p, "executor")) => {
                found.push(Victim { kind, container, processes });
            }
            Kind::Container => {}
        }
    }
    found
}

fn is(process: &Process, role: &str) -> bool {
    process.args.get(1).is_some_and(|arg| arg == role)
}

fn is_instance(process: &Process) -> bool {
    process.variable("EGRET_ROLE").as_deref() == Some("instance")
}

/// The container that a process of a topology belongs to; the commands of the test belong to none.
fn container_of(process: &Process) -> Option<u32> {
    if is_instance(process) {
        let dir = process.variable("EGRET_CONTAINER_DIR")?;
        return Path::new(&dir).file_name()?.to_str()?.strip_prefix("container-")?.parse().ok();
    }
    let position = process.args.iter().position(|arg| arg == "--container");
    match position {
        Some(at) => process.args.get(at + 1)?.parse().ok(),
        None => is(process, "tmaster").then_some(0),
    }
}
