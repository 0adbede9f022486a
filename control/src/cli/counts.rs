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

/// A line for each task that is behind and whom that holds; or, while none is, for each component that was.
pub(crate) fn backpressure_lines(
    backpressure: &BackpressureStatus,
    components: &[ComponentTotals],
) -> String {
    let now = backpressure.tasks.iter().map(|slow| {
        let effect = if slow.holds.is_empty() {
            "what emits to it waits".to_owned()
        } else {
            format!("holds {}", held(&slow.holds))
        };
        let SlowTask { task, container, for_s, component, .. } = slow;
        format!(
            "backpressure: {component} (task {task}, container {container}) has been behind for {for_s:.1} s; {effect}\n"
        )
    });
    let were = components.iter().filter(|c| backpressure.tasks.is_empty() && c.backpressure.time_s > 0.0);
    let past = were.map(|component| {
        let (id, times) = (&component.id, thousands(component.backpressure.starts));
        let time_s = component.backpressure.time_s;
        format!("backpressure: none now; {id} was behind for {time_s:.1} s, spouts were held {times} times\n")
    });
    now.chain(past).collect()
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
    use egret_dataplane::message::BackpressureTotals;

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
        let component = |id: &str, starts, time_s| ComponentTotals {
            id: id.to_owned(),
            backpressure: BackpressureTotals { starts, time_s },
            ..ComponentTotals::default()
        };
        let components = [component("numbers", 0, 0.0), component("slow", 3, 15.0)];
        assert_eq!(
            backpressure_lines(&status, &components),
            "backpressure: slow (task 7, container 2) has been behind for 12.3 s; holds numbers (tasks 1, 2), words (task 3)\n\
             backpressure: slow (task 8, container 2) has been behind for 12.3 s; what emits to it waits\n"
        );
        assert_eq!(culprit(&status), "slow (task 7) 12 s and 1 more");
        status.tasks.clear();
        let past = "backpressure: none now; slow was behind for 15.0 s, spouts were held 3 times\n";
        assert_eq!(backpressure_lines(&status, &components), past);
        assert_eq!(culprit(&status), "none");
        assert_eq!(backpressure_lines(&status, &components[..1]), "");
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
