//! The live line of a running topology, on a terminal only, and the reports that pass above it.

use super::counts::{culprit, duration};
use super::output::{Output, complain, thousands};
use egret_dataplane::message::{Report, Severity, TopologyState, TopologyStatus};
use indicatif::{ProgressBar, ProgressStyle};
use std::time::{Duration, Instant};

/// How often the rate is measured anew.
const RATE_WINDOW: Duration = Duration::from_secs(1);

/// What is shown while a topology runs.
pub(crate) struct Progress {
    output: Output,
    line: Option<ProgressBar>,
    shown: Vec<Report>,
    rate: Rate,
}

/// Tuples a second, over the last window.
struct Rate {
    since: Instant,
    emitted: u64,
    per_second: f64,
}

impl Progress {
    pub(crate) fn new(output: Output) -> Self {
        let line = output.is_live().then(|| {
            let line = ProgressBar::new_spinner();
            // No spinner: a line that moves only when something has changed costs nothing.
            line.set_style(
                ProgressStyle::with_template("{wide_msg}")
                    .unwrap_or_else(|_| ProgressStyle::default_spinner()),
            );
            line
        });
        let rate = Rate { since: Instant::now(), emitted: 0, per_second: 0.0 };
        Self { output, line, shown: Vec::new(), rate }
    }

    /// Whether there is a line to keep moving.
    pub(crate) fn is_live(&self) -> bool {
        self.line.is_some()
    }

    /// Shows where the topology stands, and reports that are new.
    pub(crate) fn update(&mut self, status: &TopologyStatus) {
        for same in new_reports(&self.shown, &status.reports).chunk_by(|a, b| a == b) {
            let times = if same.len() == 1 { String::new() } else { format!(" ({} times)", same.len()) };
            self.say(&format!("{}{times}", report_line(&same[0])));
        }
        self.shown.clone_from(&status.reports);
        let emitted = status.components.iter().map(|c| c.emitted).sum();
        self.rate.measure(emitted);
        if let Some(line) = &self.line {
            line.set_message(describe(status, emitted, self.rate.per_second));
        }
    }

    /// Prints a line above the live one.
    pub(crate) fn say(&self, text: &str) {
        match &self.line {
            Some(line) => line.suspend(|| complain(text)),
            None => complain(text),
        }
    }

    /// Prints a line above the live one, unless it should be quiet.
    pub(crate) fn note(&self, text: &str) {
        match &self.line {
            Some(line) => line.suspend(|| self.output.note(text)),
            None => self.output.note(text),
        }
    }

    /// Takes the live line away.
    pub(crate) fn finish(&self) {
        if let Some(line) = &self.line {
            line.finish_and_clear();
        }
    }
}

impl Rate {
    fn measure(&mut self, emitted: u64) {
        let passed = self.since.elapsed();
        if passed >= RATE_WINDOW {
            self.per_second = emitted.saturating_sub(self.emitted) as f64 / passed.as_secs_f64();
            (self.since, self.emitted) = (Instant::now(), emitted);
        }
    }
}

/// The topology as a whole, in a line.
pub(crate) fn describe(status: &TopologyStatus, emitted: u64, per_second: f64) -> String {
    let spouts = &status.spouts;
    let mut line = format!(
        "{} {} {:.0} s · {} tuples · {}/s · pending {} · backpressure {}",
        status.topology,
        state_word(status.state),
        status.elapsed_s,
        thousands(emitted),
        thousands(per_second as u64),
        thousands(spouts.pending),
        culprit(&status.backpressure),
    );
    let counts = [
        ("acked", spouts.acked),
        ("failed", spouts.failed.saturating_sub(spouts.timed_out)),
        ("timed out", spouts.timed_out),
    ];
    for (word, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        line.push_str(&format!(" · {word} {}", thousands(count)));
    }
    if let (Some(p50), Some(p99)) = (spouts.complete_latency_us.p50, spouts.complete_latency_us.p99) {
        line.push_str(&format!(" · latency {} (p99 {})", duration(p50), duration(p99)));
    }
    line
}

/// The state as people and JSON read it.
pub(crate) fn state_word(state: TopologyState) -> &'static str {
    match state {
        TopologyState::Starting => "starting",
        TopologyState::Running => "running",
        TopologyState::Draining => "draining",
        TopologyState::Completed => "completed",
        TopologyState::Interrupted => "interrupted",
        TopologyState::Failed => "failed",
        TopologyState::Killed => "killed",
    }
}

/// One line for a report.
pub(crate) fn report_line(report: &Report) -> String {
    let severity = match report.severity {
        Severity::Warning => "warning",
        Severity::Error => "error",
        Severity::Fatal => "fatal",
        Severity::Incomplete => "incomplete",
    };
    format!("{severity}: {} (task {}): {}", report.component, report.task, report.message)
}

/// The reports at the end of `now` that `before` does not end with; the tmaster keeps the newest only.
fn new_reports<'a>(before: &[Report], now: &'a [Report]) -> &'a [Report] {
    let overlap = (0..=now.len().min(before.len())).rev();
    let known = overlap.into_iter().find(|&n| before.ends_with(&now[..n])).unwrap_or_default();
    &now[known..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use egret_dataplane::ids::TaskId;
    use egret_dataplane::message::{BackpressureStatus, SpoutTotals};

    fn reports(messages: &[&str]) -> Vec<Report> {
        let report = |message: &&str| Report {
            component: "split".to_owned(),
            task: TaskId(3),
            severity: Severity::Error,
            message: (*message).to_owned(),
        };
        messages.iter().map(report).collect()
    }

    #[test]
    fn each_report_is_shown_once_though_only_the_newest_are_kept() {
        let cases: [(&[&str], &[&str], usize); 5] = [
            (&[], &["a"], 1),
            (&["a"], &["a"], 0),
            (&["a", "b"], &["a", "b", "c"], 1),
            (&["a", "b", "c"], &["b", "c", "d"], 1),
            (&["a", "b"], &["x", "y"], 2),
        ];
        for (before, now, new) in cases {
            assert_eq!(new_reports(&reports(before), &reports(now)).len(), new, "{before:?} {now:?}");
        }
    }

    #[test]
    fn the_line_tells_of_trees_once_there_are_any() {
        let mut status = TopologyStatus {
            topology: "t".to_owned(),
            state: TopologyState::Running,
            epoch: egret_dataplane::ids::Epoch(1),
            elapsed_s: 5.0,
            processes: Vec::new(),
            components: Vec::new(),
            spouts: SpoutTotals::default(),
            cpu_s: Vec::new(),
            restarts: Vec::new(),
            lost: 0,
            dropped: Vec::new(),
            copied_bytes: 0,
            closed_for_fault: 0,
            backpressure: BackpressureStatus::default(),
            reports: Vec::new(),
        };
        let plain = "t running 5 s · 1,000 tuples · 200/s · pending 0 · backpressure none";
        assert_eq!(describe(&status, 1000, 200.0), plain);
        status.spouts = SpoutTotals { acked: 990, failed: 3, timed_out: 2, pending: 7, ..status.spouts };
        let latency = &mut status.spouts.complete_latency_us;
        (latency.p50, latency.p99) = (Some(80), Some(1200));
        let tracked = "t running 5 s · 1,000 tuples · 200/s · pending 7 · backpressure none · acked 990 · failed 1 · \
                       timed out 2 · latency 80 µs (p99 1.2 ms)";
        assert_eq!(describe(&status, 1000, 200.0), tracked);
    }

    #[test]
    fn a_report_names_component_and_task() {
        assert_eq!(report_line(&reports(&["no such file"])[0]), "error: split (task 3): no such file");
    }
}
