//! One picture of a topology: what happened between two samples.

use super::super::output::{table, thousands};
use super::super::progress;
use egret_dataplane::message::{TaskCounters, TaskMetrics, TopologyMetrics, TopologyStatus};
use std::time::Instant;

/// What was known at a moment.
pub(super) struct Sample {
    pub(super) at: Instant,
    pub(super) status: Box<TopologyStatus>,
    pub(super) metrics: Box<TopologyMetrics>,
}

/// The titles of a row.
pub(super) const TITLES: [&str; 9] =
    ["TASK", "COMPONENT", "CONTAINER", "EMITTED/S", "EXECUTED/S", "ACKED/S", "FAILED/S", "PENDING", "CPU %"];

/// A picture.
pub(super) struct Frame {
    /// The topology as a whole.
    pub(super) summary: String,
    /// A row for each task, in the order of [`TITLES`].
    pub(super) rows: Vec<Vec<String>>,
}

impl Frame {
    pub(super) fn between(before: &Sample, now: &Sample) -> Self {
        let seconds = now.at.saturating_duration_since(before.at).as_secs_f64().max(1e-3);
        let emitted = |sample: &Sample| sample.status.components.iter().map(|c| c.emitted).sum::<u64>();
        let rate = emitted(now).saturating_sub(emitted(before)) as f64 / seconds;
        let rows = now.metrics.tasks.iter().map(|task| {
            let same = |other: &&TaskMetrics| other.counters.task == task.counters.task;
            let earlier = before.metrics.tasks.iter().find(same).map(|t| t.counters).unwrap_or_default();
            row(task, &earlier, seconds)
        });
        Self { summary: progress::describe(&now.status, emitted(now), rate), rows: rows.collect() }
    }

    /// The picture where there is no terminal.
    pub(super) fn text(&self) -> String {
        format!("{}\n{}", self.summary, table(&TITLES, self.rows.iter().cloned()))
    }
}

fn row(task: &TaskMetrics, earlier: &TaskCounters, seconds: f64) -> Vec<String> {
    let now = &task.counters;
    let per_second =
        |now: u64, earlier: u64| thousands((now.saturating_sub(earlier) as f64 / seconds).round() as u64);
    let cpu = now.cpu_us.saturating_sub(earlier.cpu_us) as f64 / 1e4 / seconds;
    vec![
        now.task.to_string(),
        task.component.clone(),
        task.container.to_string(),
        per_second(now.emitted, earlier.emitted),
        per_second(now.executed, earlier.executed),
        per_second(now.acked, earlier.acked),
        per_second(now.failed + now.timed_out, earlier.failed + earlier.timed_out),
        thousands(now.pending),
        format!("{cpu:.0}"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use egret_dataplane::ids::{ContainerId, TaskId};

    #[test]
    fn a_row_shows_rates() {
        let counters = |emitted, failed, timed_out, cpu_us| TaskCounters {
            task: TaskId(3),
            emitted,
            failed,
            timed_out,
            cpu_us,
            pending: 1234,
            ..TaskCounters::default()
        };
        let (component, container) = ("split".to_owned(), ContainerId(2));
        let task =
            TaskMetrics { component, container, counters: counters(5_000, 4, 4, 1_500_000), user: vec![] };
        let row = row(&task, &counters(1_000, 2, 0, 500_000), 2.0);
        assert_eq!(row, ["3", "split", "2", "2,000", "0", "0", "3", "1,234", "50"]);
        assert_eq!(row.len(), TITLES.len());
    }
}
