//! Counters, latencies and backpressure as people read them.

use super::output::thousands;
use egret_dataplane::message::{
    BackpressureStatus, CompleteLatency, ComponentTotals, HeldSpout, SlowTask, TaskCounters,
};

/// The titles of [`counts`].
pub(crate) const COUNTS: [&str; 6] = ["EMITTED", "EXECUTED", "ACKED", "FAILED", "TIMED OUT", "PENDING"];

/// The counters of a component, in a table's columns.
pub(crate) fn counts(totals: &ComponentTotals) -> Vec<String> {
    let counts =
        [totals.emitted, totals.executed, totals.acked, totals.failed, totals.timed_out, totals.pending];
    counts.map(thousands).to_vec()
}

/// The counters of a task, likewise.
pub(crate) fn task_counts(task: &TaskCounters) -> Vec<String> {
    let counts = [task.emitted, task.executed, task.acked, task.failed, task.timed_out, task.pending];
    counts.map(thousands).to_vec()
}

/// One line for latencies, once a tree is complete.
pub(crate) fn latency_line(latency: &CompleteLatency) -> Option<String> {
    let quantiles = [
        ("p50", latency.p50),
        ("p90", latency.p90),
        ("p99", latency.p99),
        ("p99.9", latency.p999),
        ("max", latency.max),
    ];
    let shown: Option<Vec<_>> =
        quantiles.into_iter().map(|(name, us)| Some(format!("{name} {}", duration(us?)))).collect();
    Some(format!("complete latency: {}", shown?.join(", ")))
}

/// A number of microseconds in the unit that suits it.
pub(crate) fn duration(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        _ => format!("{:.1} s", us as f64 / 1e6),
    }
}

/// A line for each task that is behind and whom that holds, and one for what was.
pub(crate) fn backpressure_lines(backpressure: &BackpressureStatus) -> String {
    let mut lines = String::new();
    for slow in &backpressure.tasks {
        let effect = if slow.holds.is_empty() {
            "what emits to it waits".to_owned()
        } else {
            format!("holds {}", held(&slow.holds))
        };
        let SlowTask { task, container, for_s, component, .. } = slow;
        lines.push_str(&format!(
            "backpressure: {component} (task {task}, container {container}) has been behind for {for_s:.1} s; {effect}\n"
        ));
    }
    if lines.is_empty() && backpressure.time_s > 0.0 {
        lines = format!("backpressure: none now; {}\n", backpressure_sum(backpressure));
    }
    lines
}

/// How much backpressure there was.
pub(crate) fn backpressure_sum(backpressure: &BackpressureStatus) -> String {
    format!(
        "spouts were held {} times, a task was behind for {:.1} s",
        backpressure.starts, backpressure.time_s
    )
}

/// The culprit in a few words, or `none`.
pub(crate) fn culprit(backpressure: &BackpressureStatus) -> String {
    let Some(slow) = backpressure.tasks.first() else { return "none".to_owned() };
    let more = backpressure.tasks.len() - 1;
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let SlowTask { task, for_s, component, .. } = slow;
    format!("{component} (task {task}) {for_s:.0} s{more}")
}

/// Spouts by component: `numbers (tasks 1, 2), words (task 3)`.
fn held(spouts: &[HeldSpout]) -> String {
    let groups = spouts.chunk_by(|a, b| a.component == b.component).map(|group| {
        let tasks: Vec<_> = group.iter().map(|spout| spout.task.to_string()).collect();
        let word = if tasks.len() == 1 { "task" } else { "tasks" };
        format!("{} ({word} {})", group[0].component, tasks.join(", "))
    });
    groups.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use egret_dataplane::ids::{ContainerId, TaskId};

    #[test]
    fn the_slow_task_is_named_with_whom_it_holds() {
        let spout = |component: &str, task| HeldSpout { task: TaskId(task), component: component.to_owned() };
        let holds = vec![spout("numbers", 1), spout("numbers", 2), spout("words", 3)];
        let slow = SlowTask {
            task: TaskId(7),
            component: "slow".to_owned(),
            container: ContainerId(2),
            for_s: 12.34,
            holds,
        };
        let waited_for = SlowTask { task: TaskId(8), holds: vec![], ..slow.clone() };
        let mut status = BackpressureStatus { starts: 3, time_s: 15.0, tasks: vec![slow, waited_for] };
        assert_eq!(
            backpressure_lines(&status),
            "backpressure: slow (task 7, container 2) has been behind for 12.3 s; holds numbers (tasks 1, 2), words (task 3)\n\
             backpressure: slow (task 8, container 2) has been behind for 12.3 s; what emits to it waits\n"
        );
        assert_eq!(culprit(&status), "slow (task 7) 12 s and 1 more");
        status.tasks.clear();
        let past = "backpressure: none now; spouts were held 3 times, a task was behind for 15.0 s\n";
        assert_eq!(backpressure_lines(&status), past);
        assert_eq!(culprit(&status), "none");
        assert_eq!(backpressure_lines(&BackpressureStatus::default()), "");
    }

    #[test]
    fn latencies_are_shown_in_the_unit_that_suits_them() {
        assert_eq!(latency_line(&CompleteLatency::default()), None);
        let (p50, p90, p99) = (Some(7), Some(999), Some(1_500));
        let latency = CompleteLatency { p50, p90, p99, p999: Some(999_000), max: Some(2_000_000) };
        let line = "complete latency: p50 7 µs, p90 999 µs, p99 1.5 ms, p99.9 999.0 ms, max 2.0 s";
        assert_eq!(latency_line(&latency).unwrap(), line);
    }
}
