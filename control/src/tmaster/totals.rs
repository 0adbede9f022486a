//! Counters of a whole topology, summed over all the processes that ever ran a task or a container's stmgr.
//!
//! Processes count from zero, so a restart would make sums fall. Each count is therefore kept as what ended
//! processes counted (`before`) plus what the present one says (`now`).

use super::latency::{Latencies, SavedLatency};
use super::pressure::{Pressures, SavedPressures};
use super::user_counters::UserTotals;
use egret_dataplane::ids::{ComponentIndex, ContainerId, Incarnation, TaskId};
use egret_dataplane::message::{
    BackpressureStatus, ComponentTotals, Heartbeat, Latency, ProcessRole, ProcessStatus, RoleCpu,
    RoleRestarts, SpoutTotals, TaskCounters, TaskMetrics, UserCounters,
};
use egret_dataplane::plan::{PackingPlan, Role, Topology};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything the tmaster adds up.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    tasks: BTreeMap<TaskId, Count>,
    containers: BTreeMap<ContainerId, Container>,
    /// CPU seconds by process, as sampled from outside; pids are not reused within the life of a topology in
    /// practice, and a smaller sample of the same pid starts a new count.
    cpu: BTreeMap<(ProcessRole, u32), f64>,
    latencies: Latencies,
    user: UserTotals,
    pressures: Pressures,
    /// How often each process was started: its highest incarnation so far.
    starts: BTreeMap<(ProcessRole, ContainerId, Option<TaskId>), Incarnation>,
    /// Something was counted that a former `save` lacks.
    changed: bool,
}

/// Everything that a tmaster's successor needs to count on.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub(crate) struct SavedTotals {
    tasks: Vec<Count>,
    containers: Vec<(ContainerId, Container)>,
    cpu: Vec<(ProcessRole, u32, f64)>,
    latencies: Vec<SavedLatency>,
    #[serde(default)]
    user: UserTotals,
    starts: Vec<(ProcessRole, ContainerId, Option<TaskId>, Incarnation)>,
    pressures: SavedPressures,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default)]
struct Count {
    before: TaskCounters,
    now: TaskCounters,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default)]
struct Container {
    #[serde(skip)]
    processes: Vec<ProcessStatus>,
    dropped_before: BTreeMap<String, u64>,
    dropped_now: BTreeMap<String, u64>,
    copied_before: u64,
    copied_now: u64,
    #[serde(default)]
    closed_before: u64,
    #[serde(default)]
    closed_now: u64,
}

impl Totals {
    /// Takes in what a container's stmgr reports.
    pub(crate) fn heartbeat(&mut self, container: ContainerId, heartbeat: Heartbeat) {
        for counters in heartbeat.tasks {
            self.changed |= self.tasks.entry(counters.task).or_default().update(counters);
        }
        heartbeat.processes.iter().for_each(|process| self.seen(process));
        self.changed |= self.pressures.update(container, heartbeat.pressure, heartbeat.held);
        let entry = self.containers.entry(container).or_default();
        entry.processes = heartbeat.processes;
        entry.dropped_now = heartbeat.dropped.into_iter().collect();
        entry.copied_now = heartbeat.copied_bytes;
        entry.closed_now = heartbeat.closed_for_fault;
    }

    /// Takes in how long a spout's trees took.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn latency(&mut self, latency: &Latency) -> Result<(), String> {
        self.changed = true;
        self.latencies.update(latency)
    }

    /// Takes in what the user code of a task has counted.
    pub(crate) fn user_counters(&mut self, said: UserCounters) {
        self.changed = true;
        self.user.update(said);
    }

    /// Something else has changed that is saved along with what is counted.
    pub(crate) fn touch(&mut self) {
        self.changed = true;
    }

    /// Notes that there is, or was, such a process.
    pub(crate) fn seen(&mut self, process: &ProcessStatus) {
        let key = (process.role, process.container, process.task);
        let highest = self.starts.entry(key).or_default();
        self.changed |= *highest < process.incarnation;
        *highest = process.incarnation.max(*highest);
    }

    /// The newest stmgr that a container has had.
    pub(crate) fn newest_stmgr(&self, container: ContainerId) -> Incarnation {
        self.starts.get(&(ProcessRole::Stmgr, container, None)).copied().unwrap_or_default()
    }

    /// Restarts by role.
    pub(crate) fn restarts(&self) -> Vec<RoleRestarts> {
        let mut by_role = BTreeMap::<ProcessRole, u64>::new();
        for ((role, ..), starts) in &self.starts {
            *by_role.entry(*role).or_default() += u64::from(starts.0.saturating_sub(1));
        }
        by_role.into_iter().map(|(role, restarts)| RoleRestarts { role, restarts }).collect()
    }

    /// A new process runs the container's stmgr: it counts from zero.
    pub(crate) fn stmgr_replaced(&mut self, container: ContainerId) {
        self.pressures.stmgr_replaced(container);
        let entry = self.containers.entry(container).or_default();
        for (cause, count) in std::mem::take(&mut entry.dropped_now) {
            *entry.dropped_before.entry(cause).or_default() += count;
        }
        entry.copied_before += std::mem::take(&mut entry.copied_now);
        entry.closed_before += std::mem::take(&mut entry.closed_now);
    }

    /// The container's stmgr has gone; its instances may live on.
    pub(crate) fn stmgr_gone(&mut self, container: ContainerId) {
        self.pressures.stmgr_gone(container);
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

    /// Connections that stmgrs closed for a fault of the other end.
    pub(crate) fn closed_for_fault(&self) -> u64 {
        self.containers.values().map(|c| c.closed_before + c.closed_now).sum()
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
            totals.pending += sum.pending;
        }
        for (index, totals) in all.iter_mut().enumerate() {
            let tasks = topology.tasks(ComponentIndex(index as u16));
            totals.backpressure = self.pressures.totals(|task| tasks.contains(&task.0));
        }
        all
    }

    /// One entry for each task of the packing plan.
    pub(crate) fn metrics(&self, topology: &Topology, packing: &PackingPlan) -> Vec<TaskMetrics> {
        let task = |container: ContainerId, task: TaskId| {
            let (component, _) = topology.component_of(task)?;
            let counters = self.tasks.get(&task).map(Count::sum).unwrap_or_default();
            Some(TaskMetrics {
                component: topology.components[usize::from(component.0)].id.clone(),
                container,
                counters: TaskCounters { task, ..counters },
                user: self.user.of(task),
                backpressure: self.pressures.totals(|other| other == task),
            })
        };
        let places = packing.containers.iter().flat_map(|c| c.tasks.iter().map(|t| (c.id, t.task)));
        let mut all: Vec<TaskMetrics> = places.filter_map(|(c, t)| task(c, t)).collect();
        all.sort_by_key(|metrics| metrics.counters.task);
        all
    }

    /// Who is behind, and whom that holds.
    pub(crate) fn backpressure(&self, topology: &Topology, packing: &PackingPlan) -> BackpressureStatus {
        self.pressures.status(topology, packing)
    }

    /// What the spouts have seen of their trees.
    pub(crate) fn spouts(&self, topology: &Topology) -> SpoutTotals {
        let components = self.components(topology);
        let spouts = topology.components.iter().zip(components).filter(|(c, _)| c.role == Role::Spout);
        let nothing =
            SpoutTotals { complete_latency_us: self.latencies.quantiles(), ..SpoutTotals::default() };
        spouts.fold(nothing, |sum, (_, totals)| SpoutTotals {
            acked: sum.acked + totals.acked,
            failed: sum.failed + totals.failed + totals.timed_out,
            timed_out: sum.timed_out + totals.timed_out,
            pending: sum.pending + totals.pending,
            ..sum
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

impl Totals {
    /// What has been counted, for the tmaster after this one; `None` when the last time is good enough.
    pub(crate) fn save_if_changed(&mut self) -> Option<SavedTotals> {
        std::mem::take(&mut self.changed).then(|| SavedTotals {
            tasks: self.tasks.values().cloned().collect(),
            containers: self.containers.iter().map(|(id, container)| (*id, container.clone())).collect(),
            cpu: self.cpu.iter().map(|((role, pid), seconds)| (*role, *pid, *seconds)).collect(),
            latencies: self.latencies.save(),
            user: self.user.clone(),
            pressures: self.pressures.save(),
            starts: self.starts.iter().map(|((r, c, t), starts)| (*r, *c, *t, *starts)).collect(),
        })
    }

    /// Goes on from what another tmaster has counted. Living processes say again what they have counted since.
    pub(crate) fn restore(saved: SavedTotals) -> Self {
        Self {
            tasks: saved.tasks.into_iter().map(|count| (count.now.task, count)).collect(),
            containers: saved.containers.into_iter().collect(),
            cpu: saved.cpu.into_iter().map(|(role, pid, seconds)| ((role, pid), seconds)).collect(),
            latencies: Latencies::restore(&saved.latencies),
            user: saved.user,
            pressures: Pressures::restore(saved.pressures),
            starts: saved.starts.into_iter().map(|(r, c, t, starts)| ((r, c, t), starts)).collect(),
            changed: false,
        }
    }
}

impl Count {
    /// A new process is told by its incarnation, or by counts that fell while none rose: a container whose folder was lost
    /// begins its incarnations anew. Says whether anything but CPU time has changed.
    ///
    /// A process that has a new stmgr counts on in memory that is blank at first: what it has not said yet there has not
    /// fallen.
    fn update(&mut self, mut new: TaskCounters) -> bool {
        let old = &self.now;
        let counts = |c: &TaskCounters| [c.emitted, c.sent, c.executed];
        if new.incarnation == old.incarnation {
            if counts(&new) == [0; 3] {
                self.now.cpu_us = old.cpu_us.max(new.cpu_us);
                return false;
            }
            let pairs = counts(&new).into_iter().zip(counts(old));
            let (mut rose, mut fell) = (false, false);
            pairs.for_each(|(new, old)| (rose, fell) = (rose | (new > old), fell | (new < old)));
            if fell && !rose {
                self.before = self.sum();
            } else {
                new.cpu_us = new.cpu_us.max(old.cpu_us);
            }
        } else {
            self.before = self.sum();
        }
        let changed = TaskCounters { cpu_us: self.now.cpu_us, ..new } != self.now;
        self.now = new;
        changed
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
            // A gauge: what died with a process is in flight no more.
            pending: b.pending,
            cpu_us: a.cpu_us + b.cpu_us,
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
    fn a_task_that_lives_on_under_a_new_stmgr_is_counted_once() {
        let mut count = Count::default();
        let says = |executed, cpu_us| TaskCounters { executed, cpu_us, ..counters(1, 2 * executed) };
        for (executed, cpu_us, sum) in [(5, 9, 5), (0, 0, 5), (0, 3, 5), (6, 0, 6), (8, 12, 8)] {
            count.update(says(executed, cpu_us));
            assert_eq!((count.sum().executed, count.sum().sent), (sum, 2 * sum), "it says {executed}");
        }
        assert_eq!(count.sum().cpu_us, 12);
    }

    #[test]
    fn what_is_in_flight_is_no_sum_over_incarnations() {
        let mut count = Count::default();
        count.update(TaskCounters { pending: 7, acked: 3, ..counters(1, 5) });
        count.update(TaskCounters { pending: 2, acked: 1, ..counters(2, 1) });
        assert_eq!((count.sum().pending, count.sum().acked), (2, 4));
    }

    #[test]
    fn restarts_are_counted_by_role_also_of_processes_that_are_gone() {
        let mut totals = Totals::default();
        let process = |role, task: Option<u32>, incarnation| ProcessStatus {
            role,
            container: ContainerId(1),
            task: task.map(TaskId),
            component: None,
            pid: 1,
            incarnation: Incarnation(incarnation),
        };
        totals.seen(&process(ProcessRole::Instance, Some(1), 3));
        totals.seen(&process(ProcessRole::Instance, Some(2), 2));
        totals.seen(&process(ProcessRole::Instance, Some(1), 1));
        totals.seen(&process(ProcessRole::Stmgr, None, 1));
        let restarts: Vec<_> = totals.restarts().into_iter().map(|r| (r.role, r.restarts)).collect();
        assert_eq!(restarts, [(ProcessRole::Stmgr, 0), (ProcessRole::Instance, 3)]);
    }

    #[test]
    fn what_is_saved_goes_on_once_and_is_saved_when_it_has_changed() {
        let mut totals = Totals::default();
        let beat = |sent, cpu_us| Heartbeat {
            tasks: vec![TaskCounters { cpu_us, ..counters(1, sent) }],
            ..Heartbeat::default()
        };
        totals.heartbeat(ContainerId(1), beat(5, 1));
        let saved = serde_json::to_string(&totals.save_if_changed().unwrap()).unwrap();
        totals.heartbeat(ContainerId(1), beat(5, 2));
        assert!(totals.save_if_changed().is_none(), "CPU time alone is not worth it");
        let mut next = Totals::restore(serde_json::from_str(&saved).unwrap());
        next.heartbeat(ContainerId(1), beat(8, 3));
        assert_eq!(next.unexecuted(), 8);
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
