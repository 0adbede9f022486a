//! What the tasks of a local cluster have counted and reported.

use egret_dataplane::ids::{Incarnation, TaskId};
use egret_dataplane::message::{Heartbeat, Report, TaskCounters};
use egret_dataplane::plan::Topology;
use std::collections::BTreeMap;

/// By process, the newest of each.
#[derive(Debug, Default)]
pub(super) struct Counts {
    tasks: BTreeMap<(TaskId, Incarnation), TaskCounters>,
    reports: Vec<Report>,
}

/// What the tasks of a component have done so far, over all their processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Tuples emitted, each once however many tasks get it.
    pub emitted: u64,
    /// Tuples given to the bolt.
    pub executed: u64,
    /// Tuples acked (bolt) or trees completed (spout).
    pub acked: u64,
    /// Tuples or trees failed.
    pub failed: u64,
    /// Trees timed out.
    pub timed_out: u64,
}

impl Counts {
    pub(super) fn heartbeat(&mut self, heartbeat: Heartbeat) {
        self.tasks.extend(heartbeat.tasks.into_iter().map(|task| ((task.task, task.incarnation), task)));
    }

    pub(super) fn report(&mut self, report: Report) {
        self.reports.push(report);
    }

    pub(super) fn reports(&self) -> &[Report] {
        &self.reports
    }

    pub(super) fn of(&self, topology: &Topology, component: &str) -> Counted {
        let Some(index) = topology.component(component) else { return Counted::default() };
        let tasks = topology.tasks(index);
        let of_it = self.tasks.values().filter(|counted| tasks.contains(&counted.task.0));
        of_it.fold(Counted::default(), |sum, counted| Counted {
            emitted: sum.emitted + counted.emitted,
            executed: sum.executed + counted.executed,
            acked: sum.acked + counted.acked,
            failed: sum.failed + counted.failed,
            timed_out: sum.timed_out + counted.timed_out,
        })
    }
}
