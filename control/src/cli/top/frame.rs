//! One picture of a topology: what happened between two samples.

use super::super::output::{table, thousands};
use super::super::progress;
use egret_dataplane::ids::TaskId;
use egret_dataplane::message::{
    BackpressureStatus, SlowTask, TaskCounters, TaskMetrics, TopologyMetrics, TopologyStatus,
};
use std::time::Instant;

/// What was known at a moment.
pub(super) struct Sample {
    pub(super) at: Instant,
    pub(super) status: Box<TopologyStatus>,
    pub(super) metrics: Box<TopologyMetrics>,
}

/// The titles of a row.
pub(super) const TITLES: [&str; 10] = [
    "TASK",
    "COMPONENT",
    "CONTAINER",
    "EMITTED/S",
    "EXECUTED/S",
    "ACKED/S",
    "FAILED/S",
    "PENDING",
    "CPU %",
    "BACKPRESSURE",
];

/// Spaces between two columns.
pub(super) const COLUMN_SPACING: u16 = 2;
/// The columns that a narrow terminal does without, the first to go first.
const FIRST_TO_GO: [usize; 7] = [2, 6, 5, 7, 8, 3, 9];

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
            let mut row = row(task, &earlier, seconds);
            row.push(pressure(&now.status.backpressure, task.counters.task));
            row
        });
        Self { summary: progress::describe(&now.status, emitted(now), rate), rows: rows.collect() }
    }

    /// The columns that have room on a terminal of this width, each with its own.
    pub(super) fn columns(&self, room: u16) -> Vec<(usize, u16)> {
        let width = |column: usize| {
            let longest = self.rows.iter().map(|row| row[column].chars().count()).max();
            longest.unwrap_or_default().max(TITLES[column].len()) as u16
        };
        let mut columns: Vec<_> = (0..TITLES.len()).map(|column| (column, width(column))).collect();
        for dispensable in FIRST_TO_GO {
            let needed: u16 = columns.iter().map(|(_, width)| width + COLUMN_SPACING).sum();
            if needed <= room + COLUMN_SPACING {
                break;
            }
            columns.retain(|(column, _)| *column != dispensable);
        }
        columns
    }

    /// The picture where there is no terminal.
    pub(super) fn text(&self) -> String {
        format!("{}\n{}", self.summary, table(&TITLES, self.rows.iter().cloned()))
    }
}

/// `behind 12 s`, `held for 7`, or nothing.
fn pressure(backpressure: &BackpressureStatus, task: TaskId) -> String {
    if let Some(slow) = backpressure.tasks.iter().find(|slow| slow.task == task) {
        return format!("behind {:.0} s", slow.for_s);
    }
    let holds = |slow: &&SlowTask| slow.holds.iter().any(|spout| spout.task == task);
    let holders: Vec<_> = backpressure.tasks.iter().filter(holds).map(|slow| slow.task.to_string()).collect();
    if holders.is_empty() { String::new() } else { format!("held for {}", holders.join(", ")) }
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
    use egret_dataplane::ids::ContainerId;
    use egret_dataplane::message::{BackpressureTotals, HeldSpout};

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
        let task = TaskMetrics {
            component,
            container,
            counters: counters(5_000, 4, 4, 1_500_000),
            user: vec![],
            backpressure: BackpressureTotals::default(),
        };
        let row = row(&task, &counters(1_000, 2, 0, 500_000), 2.0);
        assert_eq!(row, ["3", "split", "2", "2,000", "0", "0", "3", "1,234", "50"]);
        assert_eq!(row.len() + 1, TITLES.len());
    }

    #[test]
    fn a_narrow_terminal_has_fewer_columns_and_none_is_cut() {
        let row = ["12", "split", "2", "1,234,567", "1,234,567", "0", "0", "0", "100", ""];
        let frame = Frame { summary: String::new(), rows: vec![row.map(str::to_owned).to_vec()] };
        let shown = |room| frame.columns(room).iter().map(|(column, _)| TITLES[*column]).collect::<Vec<_>>();
        assert_eq!(shown(200), TITLES);
        assert_eq!(shown(98), TITLES);
        assert_eq!(shown(97).len(), TITLES.len() - 1);
        assert_eq!(shown(60), ["TASK", "COMPONENT", "EMITTED/S", "EXECUTED/S", "CPU %", "BACKPRESSURE"]);
        assert_eq!(shown(1), ["TASK", "COMPONENT", "EXECUTED/S"]);
    }

    #[test]
    fn who_is_behind_and_whom_that_holds_is_in_their_rows() {
        let spout = HeldSpout { task: TaskId(1), component: "numbers".to_owned() };
        let slow = |task, for_s, holds| SlowTask {
            task: TaskId(task),
            component: "slow".to_owned(),
            container: ContainerId(1),
            for_s,
            holds,
        };
        let tasks = vec![slow(7, 12.3, vec![spout.clone()]), slow(8, 0.7, vec![spout])];
        let status = BackpressureStatus { tasks, ..BackpressureStatus::default() };
        let shown = [7, 8, 1, 2].map(|task| pressure(&status, TaskId(task)));
        assert_eq!(shown, ["behind 12 s", "behind 1 s", "held for 7, 8", ""]);
    }
}
