//! `egret run`: a topology in the foreground. Whatever happens, nothing is left of it but its results.

use super::args::Source;
use super::counts::{COUNTS, backpressure_lines, counts, latency_line};
use super::failure::{Failure, Kind, Outcome};
use super::follow::{self, Ending, Until};
use super::interrupts::Interrupts;
use super::output::{Output, complain, table, thousands};
use super::progress::Progress;
use super::{Context, load, start};
use crate::state::ExecutionMode;
use egret_dataplane::message::{
    BackpressureTotals, ComponentTotals, ProcessRole, SpoutTotals, TopologyState, TopologyStatus,
};
use egret_dataplane::plan::Topology;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Instant;

/// Runs the command.
pub(crate) fn run(context: &Context, source: &Source) -> Outcome {
    let topology = load::topology(context, source)?;
    let mut interrupts = Interrupts::install()?;
    let begun = Instant::now();
    let mut started = start::start(context, topology, ExecutionMode::Run)?;
    let mut progress = Progress::new(context.output);
    let ending = follow::follow(&mut started, &mut interrupts, &mut progress, &Until::Ended);
    if matches!(ending, Ending::Final(_)) {
        follow::await_executors(&mut started);
    }
    let removed = started.remove(context.output);
    progress.finish();
    let summary = Summary::new(&started.topology, &ending, begun.elapsed().as_secs_f64());
    summary.show(context.output, &ending)?;
    let judged = judge(ending);
    // The summary is the one document, so this is none.
    removed.map_err(|failure| {
        complain(&format!("error: {}", failure.message));
        Failure::shown(failure.kind)
    })?;
    judged
}

/// What the topology's end means for the command, after it was said.
fn judge(ending: Ending) -> Outcome {
    match ending {
        Ending::Interrupted => Err(Failure::shown(Kind::Interrupted)),
        Ending::Failed(reason) => {
            complain(&format!("error: {reason}"));
            Err(Failure::shown(Kind::Failed))
        }
        Ending::Reached(status) | Ending::Final(status) => judge_status(&status),
    }
}

/// The exit status that a last status means.
fn judge_status(status: &TopologyStatus) -> Outcome {
    match status.state {
        TopologyState::Completed => Ok(()),
        TopologyState::Interrupted => Err(Failure::shown(Kind::Interrupted)),
        TopologyState::Killed => {
            complain(&format!("error: {} was killed from elsewhere", status.topology));
            Err(Failure::shown(Kind::Failed))
        }
        _ => {
            complain(&format!("error: {} failed", status.topology));
            Err(Failure::shown(Kind::Failed))
        }
    }
}

/// What `egret run --json` prints; its keys are part of the interface.
#[derive(Serialize)]
struct Summary {
    topology: String,
    state: &'static str,
    elapsed_s: f64,
    components: BTreeMap<String, Counts>,
    spouts: SpoutTotals,
    backpressure: BackpressureTotals,
    cpu_s: BTreeMap<ProcessRole, f64>,
    /// How often processes were started again.
    restarts: BTreeMap<ProcessRole, u64>,
    lost: u64,
    copied_bytes: u64,
    /// The components in the topology's order, for the table.
    #[serde(skip)]
    order: Vec<ComponentTotals>,
}

#[derive(Serialize)]
struct Counts {
    emitted: u64,
    executed: u64,
    acked: u64,
    failed: u64,
    timed_out: u64,
    pending: u64,
    /// Of its tasks, as those that were behind.
    backpressure: BackpressureTotals,
}

impl Summary {
    fn new(topology: &Topology, ending: &Ending, wall_s: f64) -> Self {
        let status = ending.status();
        let nothing = |id: &String| ComponentTotals { id: id.clone(), ..ComponentTotals::default() };
        let order = status.map_or_else(
            || topology.components.iter().map(|c| nothing(&c.id)).collect(),
            |status| status.components.clone(),
        );
        let spouts = status.map_or_else(SpoutTotals::default, |status| status.spouts.clone());
        Self {
            topology: topology.name.clone(),
            state: word(ending),
            elapsed_s: status.map_or(wall_s, |status| status.elapsed_s),
            components: order.iter().map(|c| (c.id.clone(), Counts::from(c))).collect(),
            spouts,
            backpressure: status.map_or_else(BackpressureTotals::default, |status| BackpressureTotals {
                starts: status.backpressure.starts,
                time_s: status.backpressure.time_s,
            }),
            cpu_s: status.iter().flat_map(|s| &s.cpu_s).map(|cpu| (cpu.role, cpu.seconds)).collect(),
            restarts: status.iter().flat_map(|s| &s.restarts).map(|r| (r.role, r.restarts)).collect(),
            lost: status.map_or(0, |status| status.lost),
            copied_bytes: status.map_or(0, |status| status.copied_bytes),
            order,
        }
    }

    fn show(&self, output: Output, ending: &Ending) -> Outcome {
        output.result(self, || self.text(ending))
    }

    fn text(&self, ending: &Ending) -> String {
        let head = format!("{} {} after {:.1} s", self.topology, self.state, self.elapsed_s);
        let Some(status) = ending.status() else { return head };
        let rows = self.order.iter().map(|c| [vec![c.id.clone()], counts(c)].concat());
        let titles = [&["COMPONENT"][..], &COUNTS].concat();
        let cpu: Vec<_> =
            self.cpu_s.iter().map(|(role, seconds)| format!("{} {seconds:.2} s", role_word(*role))).collect();
        let dropped: Vec<_> = status.dropped.iter().map(|(cause, n)| format!("{cause} {n}")).collect();
        let causes = if dropped.is_empty() { String::new() } else { format!(" ({})", dropped.join(", ")) };
        let latency =
            latency_line(&self.spouts.complete_latency_us).map_or_else(String::new, |line| line + "\n");
        let restarts: Vec<_> = self.restarts.iter().filter(|(_, n)| **n > 0).collect();
        let restarts: Vec<_> =
            restarts.iter().map(|(role, n)| format!("{} {n}", role_word(**role))).collect();
        let restarts = if restarts.is_empty() {
            String::new()
        } else {
            format!(" · restarts: {}", restarts.join(", "))
        };
        let backpressure = backpressure_lines(&status.backpressure, &status.components);
        format!(
            "{head}\n{}{latency}{backpressure}lost {}{causes}{restarts} · cpu: {}",
            table(&titles, rows),
            thousands(self.lost),
            cpu.join(", ")
        )
    }
}

impl From<&ComponentTotals> for Counts {
    fn from(totals: &ComponentTotals) -> Self {
        Self {
            emitted: totals.emitted,
            executed: totals.executed,
            acked: totals.acked,
            failed: totals.failed,
            timed_out: totals.timed_out,
            pending: totals.pending,
            backpressure: totals.backpressure,
        }
    }
}

fn word(ending: &Ending) -> &'static str {
    match ending {
        Ending::Interrupted => "interrupted",
        Ending::Failed(_) => "failed",
        Ending::Reached(status) | Ending::Final(status) => match status.state {
            TopologyState::Completed => "completed",
            TopologyState::Interrupted => "interrupted",
            _ => "failed",
        },
    }
}

/// A role as people and JSON read it.
pub(crate) fn role_word(role: ProcessRole) -> &'static str {
    match role {
        ProcessRole::Executor => "executor",
        ProcessRole::Tmaster => "tmaster",
        ProcessRole::Stmgr => "stmgr",
        ProcessRole::Instance => "instance",
    }
}
