//! `egret kill`: ends a topology in good order, or by force, and removes its state. Its logs stay.

use super::failure::{Failure, Outcome};
use super::link::Link;
use super::{Context, check_name, start};
use crate::scheduler::{self, Scheduler, SchedulerRecord, sweep};
use crate::state::{Execution, State, StateError};
use egret_dataplane::message::{Message, Request};
use serde_json::json;
use std::time::{Duration, Instant};

/// How long processes may still take when their tmaster has ended: it waits for every stmgr that it knows, so then only
/// those are left that had not come so far, and nobody else will tell them.
const WITHOUT_TMASTER: Duration = Duration::from_secs(1);

/// Runs the command.
pub(crate) fn run(context: &Context, name: &str, timeout_s: u64) -> Outcome {
    check_name(context, name)?;
    let state = context.state()?;
    let absent = || Failure::absent(name, context.global.cluster());
    if !exists(&state, name)? {
        return Err(absent());
    }
    let _lock = start::lock(context.output, &state, name)?;
    // Somebody may have removed it while this waited.
    if !exists(&state, name)? {
        return Err(absent());
    }
    let forced = match state.execution(name) {
        Ok(Some(execution)) => end(&state, name, &execution, Duration::from_secs(timeout_s))?,
        // Its start was cut short before it had any process; or its entry is gone, and nobody else can find them.
        Ok(None) | Err(StateError::Damaged { .. }) => end_strays(context, &state, name)?,
        Err(error) => return Err(error.into()),
    };
    let document = json!({"topology": name, "state": "killed", "forced": forced});
    context.output.result(&document, || {
        let how = if forced { ", by force: it did not end by itself" } else { "" };
        format!("{name} is killed{how}")
    })
}

/// Also sees an entry that is damaged, so that it can be removed.
fn exists(state: &State, name: &str) -> Result<bool, Failure> {
    Ok(state.topologies()?.iter().any(|n| n == name))
}

/// Ends an execution, and says whether it had to be forced.
fn end(state: &State, name: &str, execution: &Execution, patience: Duration) -> Result<bool, Failure> {
    let record = match state.scheduler_record(name) {
        Ok(Some(record)) => record,
        // The execution's id finds its processes, and the damaged entry goes with the others.
        Ok(None) | Err(StateError::Damaged { .. }) => start::bare_record(&execution.id),
        Err(error) => return Err(error.into()),
    };
    let scheduler = scheduler::open(&record.scheduler).map_err(Failure::failed)?;
    let asked = ask_to_stop(state, name, execution);
    let has_tmaster = || matches!(state.tmaster_location(name), Ok(Some(_)));
    let patience = if asked { patience } else { Duration::ZERO };
    let ended = wait_for_end(scheduler.as_ref(), &record, patience, has_tmaster)?;
    start::remove(state, scheduler.as_ref(), name, execution, &record)?;
    Ok(!ended)
}

/// Ends whatever was started for a topology whose execution is not known, and says whether there was anything.
fn end_strays(context: &Context, state: &State, name: &str) -> Result<bool, Failure> {
    let ids = sweep::executions_of(state.url(), name).map_err(Failure::failed)?;
    for id in &ids {
        let record = start::bare_record(id);
        let scheduler = scheduler::open(&record.scheduler).map_err(Failure::failed)?;
        scheduler.kill(&record, start::KILL_PATIENCE).map_err(Failure::failed)?;
        let work_dir = context.home()?.work_dir(name, id);
        if work_dir.path().exists() {
            work_dir.remove_all_but_logs().map_err(Failure::failed)?;
        }
    }
    state.remove(name)?;
    Ok(!ids.is_empty())
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

/// Whether it ended, or would end if it were asked once more, before it had to be forced.
fn wait_for_end(
    scheduler: &dyn Scheduler,
    record: &SchedulerRecord,
    patience: Duration,
    has_tmaster: impl Fn() -> bool,
) -> Result<bool, Failure> {
    // One that is too far away to be told is none.
    let deadline = Instant::now().checked_add(patience);
    let mut tmaster_seen = Instant::now();
    while scheduler.is_alive(record).map_err(Failure::failed)? {
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Ok(false);
        }
        if has_tmaster() {
            tmaster_seen = Instant::now();
        } else if tmaster_seen.elapsed() >= WITHOUT_TMASTER {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(true)
}
