//! `egret kill`: ends a topology in good order, or by force, and removes its state. Its logs stay.

use super::failure::{Failure, Outcome};
use super::link::Link;
use super::{Context, check_name, start};
use crate::scheduler::{self, Scheduler, SchedulerRecord};
use crate::state::{Execution, State};
use egret_dataplane::message::{Message, Request};
use serde_json::json;
use std::time::{Duration, Instant};

/// Runs the command.
pub(crate) fn run(context: &Context, name: &str, timeout_s: u64) -> Outcome {
    check_name(context, name)?;
    let state = context.state()?;
    let absent = || Failure::absent(name, context.global.cluster());
    if !exists(&state, name)? {
        return Err(absent());
    }
    let _lock = start::lock(&state, name)?;
    // Somebody may have removed it while this waited.
    if !exists(&state, name)? {
        return Err(absent());
    }
    let forced = match state.execution(name)? {
        Some(execution) => end(&state, name, &execution, Duration::from_secs(timeout_s))?,
        // Its start was cut short before it had any process.
        None => {
            state.remove(name)?;
            false
        }
    };
    let document = json!({"topology": name, "state": "killed", "forced": forced});
    context.output.result(&document, || {
        let how = if forced { ", by force: it did not end by itself in time" } else { "" };
        format!("{name} is killed{how}")
    })
}

/// Also sees an entry that is damaged, so that it can be removed.
fn exists(state: &State, name: &str) -> Result<bool, Failure> {
    Ok(state.topologies()?.iter().any(|n| n == name))
}

/// Ends an execution, and says whether it had to be forced.
fn end(state: &State, name: &str, execution: &Execution, patience: Duration) -> Result<bool, Failure> {
    let record = state.scheduler_record(name)?.unwrap_or_else(|| start::bare_record(&execution.id));
    let scheduler = scheduler::open(&record.scheduler).map_err(Failure::failed)?;
    let asked = ask_to_stop(state, name, execution);
    let ended = wait_for_end(scheduler.as_ref(), &record, if asked { patience } else { Duration::ZERO })?;
    start::remove(state, scheduler.as_ref(), name, execution, &record)?;
    Ok(!ended)
}

/// Tells the tmaster, if there is one; says whether it took note.
fn ask_to_stop(state: &State, name: &str, execution: &Execution) -> bool {
    let Ok(mut link) = Link::new(state, name, execution) else { return false };
    if link.status(Duration::from_secs(2)).is_none() {
        return false;
    }
    link.say(&Message::Request(Request::Stop));
    let deadline = Instant::now() + Duration::from_secs(2);
    while Instant::now() < deadline {
        if link.hear(Duration::from_millis(50)) == Some(Message::Done) {
            return true;
        }
    }
    false
}

fn wait_for_end(
    scheduler: &dyn Scheduler,
    record: &SchedulerRecord,
    patience: Duration,
) -> Result<bool, Failure> {
    let deadline = Instant::now() + patience;
    loop {
        if !scheduler.is_alive(record).map_err(Failure::failed)? {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
