//! `egret submit`: a topology in the background; returns once every task runs, or nothing is left of it.

use super::args::Source;
use super::failure::{Failure, Kind, Outcome};
use super::follow::{self, Ending, Until};
use super::interrupts::Interrupts;
use super::progress::{Progress, state_word};
use super::start::Started;
use super::{Context, load, start};
use crate::state::ExecutionMode;
use egret_dataplane::message::{TopologyState, TopologyStatus};
use serde_json::json;
use std::time::Duration;

/// Runs the command.
pub(crate) fn run(context: &Context, source: &Source, timeout_s: u64) -> Outcome {
    let topology = load::topology(context, source)?;
    let mut interrupts = Interrupts::install()?;
    let mut started = start::start(context, topology, ExecutionMode::Submit)?;
    let mut progress = Progress::new(context.output);
    let until = Until::Running(Duration::from_secs(timeout_s));
    let ending = follow::follow(&mut started, &mut interrupts, &mut progress, &until);
    progress.finish();
    let name = started.topology.name.clone();
    match ending {
        Ending::Reached(status) => show(context, &started, &status),
        Ending::Final(status) if status.state == TopologyState::Completed => {
            // Its processes remove its state on their way out; they should not be seen after this command.
            follow::await_executors(&mut started);
            show(context, &started, &status)
        }
        Ending::Final(status) => {
            let state = state_word(status.state);
            undo(context, &started, &Failure::failed(format!("{name} was {state} before every task ran")))
        }
        Ending::Failed(reason) => {
            undo(context, &started, &Failure::failed(format!("{name} did not start: {reason}")))
        }
        Ending::Interrupted => undo(
            context,
            &started,
            &Failure::new(Kind::Interrupted, format!("{name} was not started: interrupted")),
        ),
    }
}

fn show(context: &Context, started: &Started, status: &TopologyStatus) -> Outcome {
    let (name, state) = (&started.topology.name, state_word(status.state));
    let document = json!({
        "topology": name, "state": state, "id": started.execution.id,
        "work_dir": started.execution.work_dir,
    });
    context.output.result(&document, || {
        let tasks = started.topology.task_count();
        let containers = started.executors.len() - 1;
        let next = match status.state {
            TopologyState::Completed => format!("`egret logs {name}` shows its logs"),
            _ => format!("`egret status {name}` shows how it does, `egret kill {name}` ends it"),
        };
        format!("{name} is {state}: {tasks} tasks in {containers} containers; {next}")
    })
}

/// Removes what was started, and says where the logs of the attempt are.
fn undo(context: &Context, started: &Started, failure: &Failure) -> Outcome {
    let removed = started.remove(context.output);
    let logs = format!("its logs are in {}", started.execution.work_dir.display());
    let left = removed.err().map(|error| format!("\nand it could not be removed: {}", error.message));
    let message = format!("{}; {logs}{}", failure.message, left.unwrap_or_default());
    Err(Failure::new(failure.kind, message))
}
