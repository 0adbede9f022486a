//! Schedulers: who starts the executors of a topology, one per container, and who ends them.
//!
//! * [`Scheduler`]: what every scheduler does.
//! * [`local`]: on this host.
//! * [`revive`]: starting the executor of a container again when it has died.
//! * [`sweep`]: finding the processes of a topology, whoever their parent is.

pub mod local;
mod revival;
pub mod sweep;

pub use local::Local;
pub use revival::{Revival, ReviveError, revive};

use crate::state::{Execution, ExecutionMode, State, StateError};
use egret_dataplane::ids::ContainerId;
use egret_dataplane::plan::{PackingPlan, Topology};
use serde::{Deserialize, Serialize};
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::process::{Child, ExitStatus};
use std::time::Duration;

/// The address that processes of a local topology listen on and reach each other at. No host name is resolved.
pub const LOCAL_HOST: std::net::Ipv4Addr = std::net::Ipv4Addr::LOCALHOST;

/// How long the processes of a run that was killed may take to end.
const ORPHANS_END: Duration = Duration::from_secs(8);

/// Starts and ends the executors of topologies.
pub trait Scheduler {
    /// Its name, as in [`SchedulerRecord::scheduler`].
    fn name(&self) -> &'static str;

    /// Starts an executor for container 0 and for each container of the packing plan. The state has all their
    /// entries already, and the work folder is there. When one cannot be started, those that were are ended.
    ///
    /// # Errors
    /// [`SchedulerError`].
    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Launch, SchedulerError>;

    /// Starts the executor of one container of a topology that runs; the one before has died. The new one ends what
    /// that one left.
    ///
    /// # Errors
    /// [`SchedulerError`].
    fn restart(
        &self,
        request: &LaunchRequest<'_>,
        container: ContainerId,
    ) -> Result<LaunchedExecutor, SchedulerError>;

    /// Whether any process of the execution lives, of whatever parent.
    ///
    /// # Errors
    /// [`SchedulerError`].
    fn is_alive(&self, record: &SchedulerRecord) -> Result<bool, SchedulerError>;

    /// Ends every process of the execution: asks the executors first, and forces what is left before `patience` is
    /// over. On success not one is left. That all have ended already is fine.
    ///
    /// # Errors
    /// [`SchedulerError::Survivors`] when some cannot be ended.
    fn kill(&self, record: &SchedulerRecord, patience: Duration) -> Result<(), SchedulerError>;
}

/// What to start.
#[derive(Clone, Copy, Debug)]
pub struct LaunchRequest<'a> {
    /// The state that holds it.
    pub state_url: &'a str,
    /// The topology.
    pub topology: &'a Topology,
    /// Its containers.
    pub packing: &'a PackingPlan,
    /// Its execution.
    pub execution: &'a Execution,
    /// Where instances of a run write that have something for its standard output; nowhere when `None`.
    pub stdout: Option<BorrowedFd<'a>>,
}

/// What was started.
#[derive(Debug)]
pub struct Launch {
    /// What finds the executors again; to be stored.
    pub record: SchedulerRecord,
    /// The executors that are children of this process.
    pub executors: Vec<LaunchedExecutor>,
}

/// An executor that is a child of this process.
#[derive(Debug)]
pub struct LaunchedExecutor {
    /// Its container.
    pub container: ContainerId,
    child: Child,
}

/// How to find the executors of an execution again; the entry `/schedulers/N`.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct SchedulerRecord {
    /// The scheduler's name.
    pub scheduler: String,
    /// The id of the execution.
    pub execution_id: String,
    /// The executors as they were started.
    pub executors: Vec<ExecutorRecord>,
}

/// One executor.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecutorRecord {
    /// Its container.
    pub container: ContainerId,
    /// Its process id, which may be another process's by now.
    pub pid: u32,
}

/// Why executors were not started or ended.
#[derive(thiserror::Error, Debug)]
pub enum SchedulerError {
    /// No such scheduler.
    #[error("scheduler `{name}` is not supported yet; only `local` is")]
    Unsupported {
        /// Its name.
        name: String,
    },
    /// An executor did not start.
    #[error("cannot start the executor of container {container}: {error}")]
    Start {
        /// The container.
        container: ContainerId,
        /// What the operating system said.
        error: io::Error,
    },
    /// Processes could not be found or signalled.
    #[error("cannot look for the processes of the topology: {0}")]
    Sweep(#[from] io::Error),
    /// Some processes did not end.
    #[error("processes {pids:?} of the topology did not end within {waited_s} s, although killed")]
    Survivors {
        /// Their ids.
        pids: Vec<u32>,
        /// How long was waited.
        waited_s: u64,
    },
}

/// The scheduler of that name.
///
/// # Errors
/// [`SchedulerError::Unsupported`] when there is none.
pub fn open(name: &str) -> Result<Box<dyn Scheduler>, SchedulerError> {
    match name {
        "local" => Ok(Box::new(Local::default())),
        _ => Err(SchedulerError::Unsupported { name: name.to_owned() }),
    }
}

impl LaunchedExecutor {
    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, or `None` while it runs.
    ///
    /// # Errors
    /// When the operating system cannot tell.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// What it said before it had a log of its own. To be asked for once it has ended.
    pub fn early_words(&mut self) -> String {
        let mut words = Vec::new();
        if let Some(stderr) = self.child.stderr.take() {
            // A bound, in case something else holds the other end and floods it.
            let _ = stderr.take(64 << 10).read_to_end(&mut words);
        }
        String::from_utf8_lossy(&words).trim().to_owned()
    }
}

/// Removes what a run left whose `egret run` was killed, and perhaps everything it had started too (a power cut): its
/// processes, entries and files. To be called with the topology's lock held. Says whether the name is free now.
///
/// # Errors
/// The error that kept it from looking or removing.
pub fn clear_leftovers(state: &State, name: &str) -> Result<bool, LeftoverError> {
    if state.topology(name).is_ok_and(|topology| topology.is_none()) {
        state.remove(name)?;
        return Ok(true);
    }
    let Some(execution) = state.execution(name)? else {
        // Its start was cut short, or it would hold the lock: no process was started before this entry. With processes,
        // somebody has removed the entry.
        if !sweep::executions_of(state.url(), name)?.is_empty() {
            return Ok(false);
        }
        state.remove(name)?;
        return Ok(true);
    };
    if execution.mode == ExecutionMode::Submit || sweep::is_attended(&execution.id)? {
        return Ok(false);
    }
    end_orphans(state, name, &execution)?;
    crate::layout::WorkDir::at(&execution.work_dir).remove()?;
    state.remove(name)?;
    Ok(true)
}

/// Ends what is there of a run that was killed a moment ago. Its executors are about to end by themselves; what they
/// still remove must not be the next execution's.
fn end_orphans(state: &State, name: &str, execution: &Execution) -> Result<(), LeftoverError> {
    let bare = SchedulerRecord {
        scheduler: "local".to_owned(),
        execution_id: execution.id.clone(),
        executors: Vec::new(),
    };
    let record = state.scheduler_record(name)?.unwrap_or(bare);
    Ok(open(&record.scheduler)?.kill(&record, ORPHANS_END)?)
}

/// Why leftovers could not be removed.
#[derive(thiserror::Error, Debug)]
pub enum LeftoverError {
    /// The state.
    #[error(transparent)]
    State(#[from] StateError),
    /// Files or processes.
    #[error("cannot remove what an earlier execution left: {0}")]
    Io(#[from] io::Error),
    /// Processes that do not end.
    #[error("cannot end what an earlier execution left: {0}")]
    Processes(#[from] SchedulerError),
}
