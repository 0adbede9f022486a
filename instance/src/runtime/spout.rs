//! The loop of a spout's task.

use super::guard::guard;
use super::task::Task;
use crate::topology::{Next, SpoutRunner};
use egret_dataplane::message::RunState;
use std::time::{Duration, Instant};

/// What a spout that has nothing waits for the first time; doubled with each time in a row.
const IDLE_FIRST: Duration = Duration::from_millis(1);
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
            task.wait_for_command();
            continue;
        }
        let run = task.state == RunState::Running;
        if run != active {
            switch(task, spout, run)?;
            active = run;
        }
        match task.state {
            RunState::Running => emit(task, spout, &mut idle)?,
            RunState::Draining => task.end(spout.emitter()),
            RunState::Paused | RunState::Stopped => {
                task.flush(spout.emitter());
                task.wait_for_command();
            }
        }
    }
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
            pause(task, spout, *idle);
            *idle = (*idle * 2).min(IDLE_MAX);
        }
        Next::Wait(time) => {
            *idle = IDLE_FIRST;
            pause(task, spout, time);
        }
        Next::Exhausted => task.end(spout.emitter()),
    }
    Ok(())
}

fn pause(task: &mut Task, spout: &mut dyn SpoutRunner, time: Duration) {
    task.flush(spout.emitter());
    task.queues.0.borrow_mut().pause(time);
    task.pace.waited(Instant::now());
}
