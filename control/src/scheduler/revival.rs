//! Starting the executor of a container again.
//!
//! Whoever notices a death may call [`revive`]; several may at once. The topology's lock makes them take turns, and keeps
//! all of them away from a topology that is just being started or killed. Two executors cannot have one container in
//! any case: each locks the container's pid file first.

use super::{ExecutorRecord, LaunchRequest, LaunchedExecutor, Scheduler, SchedulerError};
use crate::layout::{ExecutorPresence, WorkDir};
use crate::state::{State, StateError};
use egret_dataplane::ids::ContainerId;
use std::io;
use std::time::Duration;

/// What became of an attempt.
#[derive(Debug)]
#[must_use]
pub enum Revival {
    /// A new executor was started.
    Started(LaunchedExecutor),
    /// There is one: somebody else was faster.
    Alive,
    /// Somebody else is starting, reviving or ending the topology; to be tried again.
    Busy,
    /// The topology has ended: there is nothing to revive.
    Over,
}

/// Why an executor could not be started again.
#[derive(thiserror::Error, Debug)]
pub enum ReviveError {
    /// The state.
    #[error(transparent)]
    State(#[from] StateError),
    /// The scheduler.
    #[error(transparent)]
    Scheduler(#[from] SchedulerError),
    /// The container's folder.
    #[error("cannot look at the folder of container {container}: {error}")]
    Folder {
        /// The container.
        container: ContainerId,
        /// What the operating system said.
        error: io::Error,
    },
}

/// Starts the executor of a container whose former one has died, unless that is no longer called for.
///
/// # Errors
/// [`ReviveError`]; it can be tried again.
pub fn revive(
    state: &State,
    scheduler: &dyn Scheduler,
    request: &LaunchRequest<'_>,
    container: ContainerId,
) -> Result<Revival, ReviveError> {
    let name = &request.topology.name;
    // The lock would make it anew, and then it would look as if the topology were gone.
    state.check_place()?;
    let _lock = match state.lock(name, Duration::ZERO) {
        Err(StateError::Held { .. } | StateError::Busy { .. }) => return Ok(Revival::Busy),
        other => other?,
    };
    let execution = request.execution;
    let work_dir = WorkDir::at(&execution.work_dir);
    let is_present = state.execution(name)?.is_some_and(|present| present.id == execution.id);
    if !is_present || work_dir.container(ContainerId(0)).final_status().exists() {
        return Ok(Revival::Over);
    }
    let presence = work_dir.container(container).executor();
    if presence.map_err(|error| ReviveError::Folder { container, error })? == ExecutorPresence::Lives {
        return Ok(Revival::Alive);
    }
    let executor = scheduler.restart(request, container)?;
    if let Err(error) = record(state, name, container, executor.pid()) {
        // It is found by its environment all the same.
        tracing::warn!(%container, %error, "the new executor's process id cannot be stored");
    }
    Ok(Revival::Started(executor))
}

fn record(state: &State, name: &str, container: ContainerId, pid: u32) -> Result<(), StateError> {
    let Some(mut record) = state.scheduler_record(name)? else { return Ok(()) };
    record.executors.retain(|e| e.container != container);
    record.executors.push(ExecutorRecord { container, pid });
    record.executors.sort_unstable_by_key(|e| e.container);
    state.put_scheduler_record(name, &record)
}
