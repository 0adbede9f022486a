//! Backpressure over all containers: which tasks are behind, and whom that holds.
//!
//! Several stmgrs may see one task behind: its own, and those that have tuples for it. Starts are counted by whoever
//! made them, so they add up. The times overlap: what counts is that of the stmgr which saw the task behind for
//! longest.

use egret_dataplane::ids::{ContainerId, TaskId};
use egret_dataplane::message::{BackpressureStatus, BackpressureTotals, HeldSpout, SlowTask, TaskPressure};
use egret_dataplane::plan::{PackingPlan, Topology};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Everything that stmgrs have reported of it.
#[derive(Debug, Default)]
pub(crate) struct Pressures {
    seen: BTreeMap<(ContainerId, TaskId), Seen>,
    held: BTreeMap<ContainerId, Vec<TaskId>>,
}

/// What the stmgrs of one container have seen of one task.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub(crate) struct Seen {
    starts_before: u64,
    behind_us_before: u64,
    now: Option<TaskPressure>,
}

/// What a tmaster's successor goes on from.
pub(crate) type SavedPressures = Vec<(ContainerId, TaskId, Seen)>;

impl Pressures {
    /// Takes in what a container's stmgr reports: all tasks of which it has ever seen something. Whether anything was
    /// counted.
    pub(crate) fn update(
        &mut self,
        container: ContainerId,
        reported: Vec<TaskPressure>,
        held: Vec<TaskId>,
    ) -> bool {
        self.held.insert(container, held);
        let mut changed = false;
        let of_container = self.seen.iter_mut().filter(|((at, _), _)| *at == container);
        let is_reported = |task| reported.iter().any(|pressure| pressure.task == task);
        of_container.filter(|((_, task), _)| !is_reported(*task)).for_each(|(_, seen)| seen.calm());
        for pressure in reported {
            let seen = self.seen.entry((container, pressure.task)).or_default();
            changed |= seen.now.replace(pressure) != Some(pressure);
        }
        changed
    }

    /// A new process runs the container's stmgr: it counts from zero.
    pub(crate) fn stmgr_replaced(&mut self, container: ContainerId) {
        for (_, seen) in self.seen.iter_mut().filter(|((at, _), _)| *at == container) {
            (seen.starts_before, seen.behind_us_before) = seen.sum();
            seen.now = None;
        }
    }

    /// The container's stmgr has gone, and holds nobody any more.
    pub(crate) fn stmgr_gone(&mut self, container: ContainerId) {
        self.held.remove(&container);
        let seen = self.seen.iter_mut().filter(|((at, _), _)| *at == container);
        seen.for_each(|(_, seen)| seen.calm());
    }

    /// Totals of each task.
    fn tasks(&self) -> BTreeMap<TaskId, (u64, u64)> {
        let mut tasks = BTreeMap::<TaskId, (u64, u64)>::new();
        for ((_, task), seen) in &self.seen {
            let (starts, behind_us) = seen.sum();
            let total = tasks.entry(*task).or_default();
            *total = (total.0 + starts, total.1.max(behind_us));
        }
        tasks
    }

    /// Totals of the tasks that `which` likes.
    pub(crate) fn totals(&self, which: impl Fn(TaskId) -> bool) -> BackpressureTotals {
        let tasks = self.tasks().into_iter().filter(|(task, _)| which(*task));
        let (starts, longest_us) =
            tasks.fold((0, 0), |sum: (u64, u64), (_, task)| (sum.0 + task.0, sum.1.max(task.1)));
        BackpressureTotals { starts, time_s: Duration::from_micros(longest_us).as_secs_f64() }
    }

    /// How it stands now.
    pub(crate) fn status(&self, topology: &Topology, packing: &PackingPlan) -> BackpressureStatus {
        let BackpressureTotals { starts, time_s } = self.totals(|_| true);
        let mut behind = BTreeMap::<TaskId, (u64, bool)>::new();
        for pressure in self.seen.values().filter_map(|seen| seen.now.as_ref()) {
            if let Some(for_ms) = pressure.behind_for_ms {
                let entry = behind.entry(pressure.task).or_default();
                *entry = (entry.0.max(for_ms), entry.1 | pressure.holds);
            }
        }
        let slow = behind.into_iter().filter_map(|(task, (for_ms, holds))| {
            let (component, _) = topology.component_of(task)?;
            Some(SlowTask {
                task,
                component: topology.components[usize::from(component.0)].id.clone(),
                container: packing.container_of(task)?,
                for_s: for_ms as f64 / 1e3,
                holds: if holds { self.held_above(task, topology) } else { Vec::new() },
            })
        });
        let mut tasks: Vec<_> = slow.collect();
        tasks.sort_by(|a, b| b.for_s.total_cmp(&a.for_s));
        BackpressureStatus { starts, time_s, tasks }
    }

    /// The spouts above `task` that are held.
    fn held_above(&self, task: TaskId, topology: &Topology) -> Vec<HeldSpout> {
        let Some((component, _)) = topology.component_of(task) else { return Vec::new() };
        let mut above = BTreeSet::from([component]);
        let mut next = vec![component];
        while let Some(component) = next.pop() {
            next.extend(topology.upstream(component).into_iter().filter(|&from| above.insert(from)));
        }
        let held: BTreeSet<_> = self.held.values().flatten().copied().collect();
        let spouts = held.into_iter().filter_map(|task| {
            let (spout, _) = topology.component_of(task)?;
            let component = topology.components[usize::from(spout.0)].id.clone();
            above.contains(&spout).then_some(HeldSpout { task, component })
        });
        spouts.collect()
    }

    /// What has been counted, for the tmaster after this one.
    pub(crate) fn save(&self) -> SavedPressures {
        self.seen.iter().map(|((container, task), seen)| (*container, *task, seen.clone())).collect()
    }

    /// Goes on from what another tmaster has counted. Living stmgrs say again what they see.
    pub(crate) fn restore(saved: SavedPressures) -> Self {
        let seen = saved.into_iter().map(|(container, task, mut seen)| {
            seen.calm();
            ((container, task), seen)
        });
        Self { seen: seen.collect(), held: BTreeMap::new() }
    }
}

impl Seen {
    /// Starts, and microseconds behind.
    fn sum(&self) -> (u64, u64) {
        let (starts, behind_us) = self.now.map_or((0, 0), |now| (now.starts, now.behind_us));
        (self.starts_before + starts, self.behind_us_before + behind_us)
    }

    /// Nobody says any more that the task is behind.
    fn calm(&mut self) {
        if let Some(now) = &mut self.now {
            (now.behind_for_ms, now.holds) = (None, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pressure(starts: u64, behind_s: u64) -> TaskPressure {
        let (task, behind_us) = (TaskId(3), behind_s * 1_000_000);
        TaskPressure { task, starts, behind_us, behind_for_ms: Some(500), holds: true }
    }

    fn sum(pressures: &Pressures) -> (u64, f64) {
        let totals = pressures.totals(|_| true);
        (totals.starts, totals.time_s)
    }

    #[test]
    fn starts_add_up_and_times_overlap() {
        let mut pressures = Pressures::default();
        pressures.update(ContainerId(1), vec![pressure(2, 5)], vec![]);
        pressures.update(ContainerId(2), vec![pressure(1, 7)], vec![]);
        assert_eq!(sum(&pressures), (3, 7.0));
        pressures.update(ContainerId(1), vec![pressure(4, 9)], vec![]);
        assert_eq!(sum(&pressures), (5, 9.0));
        assert_eq!(pressures.totals(|task| task != TaskId(3)), BackpressureTotals::default());
    }

    /// It was behind for no time at all.
    #[test]
    fn a_task_that_is_reported_no_more_is_not_behind() {
        let behind = |pressures: &Pressures| {
            let now = pressures.seen.values().filter_map(|seen| seen.now);
            now.filter(|pressure| pressure.behind_for_ms.is_some() || pressure.holds).count()
        };
        let mut pressures = Pressures::default();
        for container in [1, 2].map(ContainerId) {
            pressures.update(container, vec![pressure(1, 0)], vec![]);
        }
        pressures.update(ContainerId(1), vec![], vec![]);
        assert_eq!((behind(&pressures), sum(&pressures).0), (1, 2));
        pressures.update(ContainerId(2), vec![], vec![]);
        assert_eq!((behind(&pressures), sum(&pressures).0), (0, 2));
    }

    #[test]
    fn totals_go_on_over_a_new_stmgr_and_a_new_tmaster() {
        let mut pressures = Pressures::default();
        assert!(pressures.update(ContainerId(1), vec![pressure(2, 5)], vec![]));
        assert!(!pressures.update(ContainerId(1), vec![pressure(2, 5)], vec![]), "nothing new");
        pressures.stmgr_replaced(ContainerId(1));
        pressures.update(ContainerId(1), vec![pressure(1, 1)], vec![]);
        assert_eq!(sum(&pressures), (3, 6.0));
        let saved = serde_json::to_string(&pressures.save()).unwrap();
        let mut next = Pressures::restore(serde_json::from_str(&saved).unwrap());
        assert_eq!(sum(&next), (3, 6.0));
        // The same stmgr counts on.
        next.update(ContainerId(1), vec![pressure(2, 3)], vec![]);
        assert_eq!(sum(&next), (4, 8.0));
    }
}
