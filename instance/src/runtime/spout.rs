//! The loop of a spout's task.

use super::guard::guard;
use super::task::Task;
use crate::topology::{Next, SpoutRunner};
use egret_dataplane::host;
use egret_dataplane::message::RunState;
use std::time::Duration;

/// What a spout that has nothing waits for the first time; doubled with each time in a row.
const IDLE_FIRST: Duration = Duration::from_millis(1);
/// A pause so short may leave tuples in an open block, while the stmgr has not got to those before.
const SHORT_PAUSE: Duration = Duration::from_micros(100);
/// The longest pause that a spout can ask for, a century: later than this there is no time.
const LONGEST_PAUSE: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// The most that an idle spout waits: 16 idle spouts wake up 250 times a second in all.
const IDLE_MAX: Duration = Duration::from_millis(64);

/// Runs a spout until the topology is over. `Err` is the exit code.
pub(super) fn run(task: &mut Task, mut spout: Box<dyn SpoutRunner>) -> Result<(), u8> {
    let ran = run_open(task, spout.as_mut());
    let closed = guard(|| {
        spout.close();
        Ok(())
    });
    if let Err(error) = closed {
        task.warn(&format!("close: {error}"));
    }
    ran
}

fn run_open(task: &mut Task, spout: &mut dyn SpoutRunner) -> Result<(), u8> {
    if !task.ended {
        guard(|| spout.open(&task.context)).map_err(|e| task.fatal(&format!("open: {e}")))?;
    }
    let mut active = false;
    let mut idle = IDLE_FIRST;
    loop {
        task.commands(spout.emitter())?;
        if task.ended {
            task.rest(None);
            continue;
        }
        let run = task.state == RunState::Running;
        if run != active {
            switch(task, spout, run)?;
            active = run;
        }
        match task.state {
            RunState::Running if task.is_held() => {
                deliver(task, spout)?;
                task.flush(spout.emitter());
                task.rest_while_held();
            }
            RunState::Running => emit(task, spout, &mut idle)?,
            RunState::Draining => drain(task, spout)?,
            RunState::Paused | RunState::Stopped => {
                deliver(task, spout)?;
                task.flush(spout.emitter());
                task.rest(None);
            }
        }
    }
}

/// Gives the ids of ended trees back; whether the spout may have something to replay.
fn deliver(task: &mut Task, spout: &mut dyn SpoutRunner) -> Result<bool, u8> {
    loop {
        match guard(|| Ok(spout.deliver())) {
            Ok(failed) => return Ok(failed),
            // The id that it panicked at is gone, the others are not.
            Err(error) => task.on_error(spout.emitter(), &error)?,
        }
    }
}

/// No new tuples: what is in flight completes or fails, then the task ends.
fn drain(task: &mut Task, spout: &mut dyn SpoutRunner) -> Result<(), u8> {
    deliver(task, spout)?;
    if task.in_flight() == 0 {
        task.end(spout.emitter());
    } else {
        task.flush(spout.emitter());
        task.rest(None);
    }
    Ok(())
}

fn switch(task: &mut Task, spout: &mut dyn SpoutRunner, activate: bool) -> Result<(), u8> {
    let switched = guard(|| {
        if activate {
            spout.activate()
        } else {
            spout.deactivate()
        }
        Ok(())
    });
    switched.or_else(|error| task.on_error(spout.emitter(), &error))
}

fn emit(task: &mut Task, spout: &mut dyn SpoutRunner, idle: &mut Duration) -> Result<(), u8> {
    deliver(task, spout)?;
    if task.is_full() {
        task.flush(spout.emitter());
        task.rest(None);
        return Ok(());
    }
    let turns = task.pace.turns();
    let next = match guard(|| spout.next_tuples(turns)) {
        Ok(next) => next,
        Err(error) => {
            task.on_error(spout.emitter(), &error)?;
            Next::Idle
        }
    };
    match next {
        Next::Emitted => {
            *idle = IDLE_FIRST;
            task.after_turns(spout.emitter());
        }
        Next::Idle => {
            pause(task, spout, *idle)?;
            *idle = (*idle * 2).min(IDLE_MAX);
        }
        Next::Wait(time) => {
            *idle = IDLE_FIRST;
            pause(task, spout, time)?;
        }
        Next::Exhausted => exhausted(task, spout)?,
    }
    Ok(())
}

/// Nothing for some time. Trees that end meanwhile are told to the spout, and a failed one ends the pause.
fn pause(task: &mut Task, spout: &mut dyn SpoutRunner, time: Duration) -> Result<(), u8> {
    let now = host::now();
    task.flush_before_pause(spout.emitter(), now, time <= SHORT_PAUSE);
    let until = now + time.min(LONGEST_PAUSE);
    loop {
        let left = until.saturating_duration_since(host::now());
        task.rest(Some(left));
        if deliver(task, spout)? || task.is_commanded() || host::now() >= until {
            return Ok(());
        }
        task.publish(spout.emitter());
    }
}

/// Nothing ever again, unless a tree fails: then the spout is asked once more. The task ends with its last tree.
fn exhausted(task: &mut Task, spout: &mut dyn SpoutRunner) -> Result<(), u8> {
    task.flush(spout.emitter());
    loop {
        if deliver(task, spout)? || task.is_commanded() {
            return Ok(());
        }
        if task.in_flight() == 0 {
            task.end(spout.emitter());
            return Ok(());
        }
        task.publish(spout.emitter());
        task.rest(None);
    }
}
