//! Counters and latencies as people read them.

use super::output::thousands;
use egret_dataplane::message::{CompleteLatency, ComponentTotals, TaskCounters};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_shown_in_the_unit_that_suits_them() {
        assert_eq!(latency_line(&CompleteLatency::default()), None);
        let (p50, p90, p99) = (Some(7), Some(999), Some(1_500));
        let latency = CompleteLatency { p50, p90, p99, p999: Some(999_000), max: Some(2_000_000) };
        let line = "complete latency: p50 7 µs, p90 999 µs, p99 1.5 ms, p99.9 999.0 ms, max 2.0 s";
        assert_eq!(latency_line(&latency).unwrap(), line);
    }
}
