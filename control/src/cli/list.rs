//! `egret list`: the topologies of the cluster.

use super::failure::Outcome;
use super::follow::last_status;
use super::link::Link;
use super::output::table;
use super::progress::state_word;
use super::{Context, start};
use crate::layout::WorkDir;
use crate::scheduler;
use crate::state::{Execution, ExecutionMode, State};
use serde::Serialize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long a tmaster may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

#[derive(Serialize)]
struct Row {
    topology: String,
    state: &'static str,
    id: Option<String>,
    mode: Option<ExecutionMode>,
    containers: usize,
    tasks: u32,
    submitted_unix_s: Option<u64>,
}

/// Runs the command.
pub(crate) fn run(context: &Context) -> Outcome {
    let state = context.state()?;
    let names = state.topologies()?;
    let rows: Vec<Row> = names.iter().map(|name| look(&state, name)).collect();
    context.output.result(&rows, || {
        if rows.is_empty() {
            context.output.note(format!("no topologies in cluster `{}`", context.global.cluster()));
            return String::new();
        }
        let cells = rows.iter().map(|row| {
            vec![
                row.topology.clone(),
                row.state.to_owned(),
                row.mode.map_or("-", mode_word).to_owned(),
                row.containers.to_string(),
                row.tasks.to_string(),
                row.submitted_unix_s.map_or_else(|| "-".to_owned(), age),
            ]
        });
        table(&["TOPOLOGY", "STATE", "STARTED BY", "CONTAINERS", "TASKS", "AGE"], cells)
    })
}

/// One that is being removed at this moment, or is damaged, still has a row.
fn look(state: &State, name: &str) -> Row {
    let execution = state.execution(name).ok().flatten();
    Row {
        topology: name.to_owned(),
        state: execution.as_ref().map_or("damaged", |execution| present_state(state, name, execution)),
        containers: state.packing_plan(name).ok().flatten().map_or(0, |plan| plan.containers.len()),
        tasks: state.topology(name).ok().flatten().map_or(0, |topology| topology.task_count()),
        id: execution.as_ref().map(|e| e.id.clone()),
        mode: execution.as_ref().map(|e| e.mode),
        submitted_unix_s: execution.as_ref().map(|e| e.submitted_unix_s),
    }
}

/// What the tmaster says, or what is known without one.
fn present_state(state: &State, name: &str, execution: &Execution) -> &'static str {
    let status = Link::new(state, name, execution).ok().and_then(|mut link| link.status(ANSWER_LIMIT));
    status.map_or_else(|| without_tmaster(state, name, execution), |status| state_word(status.state))
}

/// The state of a topology whose tmaster does not answer: `recovering` when it had made a plan, so that tuples may flow
/// until the next one is there.
pub(crate) fn without_tmaster(state: &State, name: &str, execution: &Execution) -> &'static str {
    let record =
        state.scheduler_record(name).ok().flatten().unwrap_or_else(|| start::bare_record(&execution.id));
    let alive = scheduler::open(&record.scheduler).and_then(|scheduler| scheduler.is_alive(&record));
    if !alive.unwrap_or(true) {
        return "dead";
    }
    if let Some(last) = last_status(&WorkDir::at(&execution.work_dir)) {
        return state_word(last.state);
    }
    let has_run = state.physical_plan(name).is_ok_and(|plan| plan.is_some());
    if has_run { "recovering" } else { "starting" }
}

pub(crate) fn mode_word(mode: ExecutionMode) -> &'static str {
    match mode {
        ExecutionMode::Run => "run",
        ExecutionMode::Submit => "submit",
    }
}

/// How long ago that was, in the largest unit that fits.
pub(crate) fn age(unix_s: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let seconds = now.saturating_sub(unix_s);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}
