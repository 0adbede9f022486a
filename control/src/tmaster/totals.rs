//! Counters of a whole topology, summed over all the processes that ever ran a task or a container's stmgr.
//!
//! Processes count from zero, so a restart would make sums fall. Each count is therefore kept as what ended
//! processes counted (`before`) plus what the present one says (`now`).

use egret_dataplane::ids::{ContainerId, TaskId};
use egret_dataplane::message::{
    ComponentTotals, Heartbeat, ProcessRole, ProcessStatus, RoleCpu, SpoutTotals, TaskCounters,
};
use egret_dataplane::plan::{Role, Topology};
use std::collections::BTreeMap;

/// Everything the tmaster adds up.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    tasks: BTreeMap<TaskId, Count>,
    containers: BTreeMap<ContainerId, Container>,
    /// CPU seconds by process, as sampled from outside; pids are not reused within the life of a topology in
    /// practice, and a smaller sample of the same pid starts a new count.
    cpu: BTreeMap<(ProcessRole, u32), f64>,
}

#[derive(Debug, Default)]
struct Count {
    before: TaskCounters,
    now: TaskCounters,
}

#[derive(Debug, Default)]
struct Container {
    processes: Vec<ProcessStatus>,
    dropped_before: BTreeMap<String, u64>,
    dropped_now: BTreeMap<String, u64>,
    copied_before: u64,
    copied_now: u64,
}

impl Totals {
    /// Takes in what a container's stmgr reports.
    pub(crate) fn heartbeat(&mut self, container: ContainerId, heartbeat: Heartbeat) {
        for counters in heartbeat.tasks {
            self.tasks.entry(counters.task).or_default().update(counters);
        }
        let entry = self.containers.entry(container).or_default();
        entry.processes = heartbeat.processes;
        entry.dropped_now = heartbeat.dropped.into_iter().collect();
        entry.copied_now = heartbeat.copied_bytes;
    }

    /// A new process runs the container's stmgr: it counts from zero.
    pub(crate) fn stmgr_replaced(&mut self, container: ContainerId) {
        let entry = self.containers.entry(container).or_default();
        for (cause, count) in std::mem::take(&mut entry.dropped_now) {
            *entry.dropped_before.entry(cause).or_default() += count;
        }
        entry.copied_before += std::mem::take(&mut entry.copied_now);
    }

    /// The container's stmgr has gone; its instances may live on.
    pub(crate) fn stmgr_gone(&mut self, container: ContainerId) {
        if let Some(entry) = self.containers.get_mut(&container) {
            entry.processes.retain(|p| p.role != ProcessRole::Stmgr);
        }
    }

    /// A sample of the CPU time that a process has used since it started.
    pub(crate) fn cpu_sample(&mut self, role: ProcessRole, pid: u32, seconds: f64) {
        let sample = self.cpu.entry((role, pid)).or_default();
        *sample = sample.max(seconds);
    }

    /// All processes that stmgrs know of, by container.
    pub(crate) fn processes(&self) -> impl Iterator<Item = &ProcessStatus> {
        self.containers.values().flat_map(|c| &c.processes)
    }

    /// Drops over all containers, by cause.
    pub(crate) fn dropped(&self) -> Vec<(String, u64)> {
        let mut sum = BTreeMap::<&String, u64>::new();
        for container in self.containers.values() {
            for (cause, count) in container.dropped_before.iter().chain(&container.dropped_now) {
                *sum.entry(cause).or_default() += count;
            }
        }
        sum.into_iter().filter(|(_, count)| *count > 0).map(|(cause, count)| (cause.clone(), count)).collect()
    }

    /// Bytes copied over all containers.
    pub(crate) fn copied_bytes(&self) -> u64 {
        self.containers.values().map(|c| c.copied_before + c.copied_now).sum()
    }

    /// Tuple copies sent and not executed. While tuples flow this includes the ones on their way.
    pub(crate) fn unexecuted(&self) -> u64 {
        let (mut sent, mut executed) = (0u64, 0u64);
        for count in self.tasks.values() {
            let sum = count.sum();
            sent += sum.sent;
            executed += sum.executed;
        }
        sent.saturating_sub(executed)
    }

    /// One entry for each component, in the topology's order.
    pub(crate) fn components(&self, topology: &Topology) -> Vec<ComponentTotals> {
        let mut all: Vec<ComponentTotals> = topology
            .components
            .iter()
            .map(|c| ComponentTotals { id: c.id.clone(), ..ComponentTotals::default() })
            .collect();
        for (task, count) in &self.tasks {
            let Some((component, _)) = topology.component_of(*task) else { continue };
            let (totals, sum) = (&mut all[usize::from(component.0)], count.sum());
            totals.emitted += sum.emitted;
            totals.executed += sum.executed;
            totals.acked += sum.acked;
            totals.failed += sum.failed;
            totals.timed_out += sum.timed_out;
        }
        all
    }

    /// What the spouts have seen of their trees.
    pub(crate) fn spouts(&self, topology: &Topology) -> SpoutTotals {
        let components = self.components(topology);
        let spouts = topology.components.iter().zip(components).filter(|(c, _)| c.role == Role::Spout);
        spouts.fold(SpoutTotals::default(), |sum, (_, totals)| SpoutTotals {
            acked: sum.acked + totals.acked,
            failed: sum.failed + totals.failed + totals.timed_out,
        })
    }

    /// CPU seconds by role; instances report theirs, the others are sampled.
    pub(crate) fn cpu(&self) -> Vec<RoleCpu> {
        let mut by_role = BTreeMap::<ProcessRole, f64>::new();
        for ((role, _), seconds) in &self.cpu {
            *by_role.entry(*role).or_default() += seconds;
        }
        let instances: u64 = self.tasks.values().map(|c| c.sum().cpu_us).sum();
        by_role.insert(ProcessRole::Instance, instances as f64 / 1e6);
        by_role.into_iter().map(|(role, seconds)| RoleCpu { role, seconds }).collect()
    }
}

impl Count {
    /// A new process is told by its incarnation, or by any count that fell: an executor that was itself restarted
    /// begins its incarnations anew.
    fn update(&mut self, new: TaskCounters) {
        let old = &self.now;
        let fell = new.emitted < old.emitted
            || new.sent < old.sent
            || new.executed < old.executed
            || new.cpu_us < old.cpu_us;
        if new.incarnation != old.incarnation || fell {
            self.before = self.sum();
        }
        self.now = new;
    }

    fn sum(&self) -> TaskCounters {
        let (a, b) = (&self.before, &self.now);
        TaskCounters {
            task: b.task,
            incarnation: b.incarnation,
            emitted: a.emitted + b.emitted,
            sent: a.sent + b.sent,
            executed: a.executed + b.executed,
            acked: a.acked + b.acked,
            failed: a.failed + b.failed,
            timed_out: a.timed_out + b.timed_out,
            cpu_us: a.cpu_us + b.cpu_us,
            pending: b.pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use egret_dataplane::ids::Incarnation;

    fn counters(incarnation: u32, sent: u64) -> TaskCounters {
        TaskCounters {
            task: TaskId(1),
            incarnation: Incarnation(incarnation),
            sent,
            ..TaskCounters::default()
        }
    }

    #[test]
    fn counts_go_on_over_incarnations_and_over_resets() {
        let mut count = Count::default();
        for (incarnation, sent, sum) in [(1, 5, 5), (1, 9, 9), (2, 1, 10), (2, 3, 12), (2, 2, 14), (1, 2, 16)]
        {
            count.update(counters(incarnation, sent));
            assert_eq!(count.sum().sent, sum, "incarnation {incarnation} says {sent}");
        }
    }

    #[test]
    fn drops_and_copies_go_on_when_a_stmgr_is_replaced() {
        let mut totals = Totals::default();
        let beat = |n| Heartbeat {
            dropped: vec![("instance_died".to_owned(), n)],
            copied_bytes: 10 * n,
            ..Heartbeat::default()
        };
        totals.heartbeat(ContainerId(1), beat(4));
        totals.heartbeat(ContainerId(1), beat(6));
        totals.stmgr_replaced(ContainerId(1));
        totals.heartbeat(ContainerId(1), beat(1));
        totals.heartbeat(ContainerId(2), beat(2));
        assert_eq!(totals.dropped(), [("instance_died".to_owned(), 9)]);
        assert_eq!(totals.copied_bytes(), 90);
    }
}
