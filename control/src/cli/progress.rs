//! The live line of a running topology, on a terminal only, and the reports that pass above it.

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
        for report in new_reports(&self.shown, &status.reports) {
            self.say(&report_line(report));
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

fn describe(status: &TopologyStatus, emitted: u64, per_second: f64) -> String {
    // Without acks no root is ever pending, and nothing throttles spouts yet.
    let (pending, backpressure) = (0, "none");
    format!(
        "{} {} {:.0} s · {} tuples · {}/s · pending {pending} · backpressure {backpressure}",
        status.topology,
        state_word(status.state),
        status.elapsed_s,
        thousands(emitted),
        thousands(per_second as u64),
    )
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
    fn a_report_names_component_and_task() {
        assert_eq!(report_line(&reports(&["no such file"])[0]), "error: split (task 3): no such file");
    }
}
