//! From a topology to its processes, and the way back.
//!
//! What is made, in this order: the topology's entry (by which the name is taken), its other entries, the work folder,
//! the executors. The way back is the same whether a start failed half-way or the topology has ended, and each of its
//! steps can be done again.

use super::Context;
use super::failure::{Failure, Kind};
use super::output::Output;
use super::validate::pack;
use crate::executor;
use crate::layout::WorkDir;
use crate::scheduler::{
    self, LaunchRequest, LaunchedExecutor, Revival, ReviveError, Scheduler, SchedulerRecord,
};
use crate::state::{Ephemeral, Execution, ExecutionMode, State, StateError};
use egret_dataplane::ids::ContainerId;
use egret_dataplane::net::handshake::Secret;
use egret_dataplane::plan::{PackingPlan, Topology};
use std::os::fd::AsFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long to wait for somebody else who is starting or ending a topology of the same name.
const LOCK_PATIENCE: Duration = Duration::from_secs(20);
/// How long all processes of a topology may take to end when they must.
pub(crate) const KILL_PATIENCE: Duration = Duration::from_secs(8);

/// How many submissions of one name leave their logs.
const LOGS_KEPT: usize = 10;

/// A topology whose executors have been started.
pub(crate) struct Started {
    pub(crate) state: State,
    pub(crate) topology: Topology,
    pub(crate) execution: Execution,
    pub(crate) executors: Vec<LaunchedExecutor>,
    packing: PackingPlan,
    /// Its standard output is that of the topology; otherwise its standard error is.
    prints_to_stdout: bool,
    record: SchedulerRecord,
    scheduler: Box<dyn Scheduler>,
}

/// Takes the name, writes the state and starts the executors.
///
/// # Errors
/// Nothing is left of it then.
pub(crate) fn start(context: &Context, topology: Topology, mode: ExecutionMode) -> Result<Started, Failure> {
    let packing = pack(&topology)?;
    let stdin = packing.containers.iter().any(|c| executor::reads_stdin(&topology, &packing, c.id));
    if stdin && mode == ExecutionMode::Submit {
        return Err(Failure::usage(format!(
            "{}: a spout reads `-`, the standard input; only `egret run` has one",
            topology.name
        )));
    }
    let state = context.state()?;
    let scheduler = scheduler::open("local").map_err(Failure::failed)?;
    let name = topology.name.clone();
    let lock = state.lock(&name, LOCK_PATIENCE)?;
    if !scheduler::clear_leftovers(&state, &name).map_err(|error| Failure::new(Kind::Store, error))? {
        let cluster = context.global.cluster();
        let cure = "kill it first, or give yours another name";
        let text = format!("there is a topology `{name}` in cluster `{cluster}` already; {cure}");
        return Err(Failure::new(Kind::Exists, text));
    }
    if mode == ExecutionMode::Submit {
        remove_old_logs(context, &name)?;
    }
    let execution = new_execution(context, &name, mode, stdin)?;
    // With `--json` stdout is one document, and what a topology prints is not it.
    let prints_to_stdout = !context.output.json;
    let request = Request { topology: &topology, packing: &packing, execution: &execution, prints_to_stdout };
    let result = launch(&state, scheduler.as_ref(), request);
    drop(lock);
    match result {
        Ok((record, executors)) => Ok(Started {
            state,
            topology,
            execution,
            executors,
            packing,
            prints_to_stdout,
            record,
            scheduler,
        }),
        Err(failure) => {
            let record = bare_record(&execution.id);
            if let Err(error) = remove(&state, scheduler.as_ref(), &name, &execution, &record) {
                tracing::error!("cannot remove what was begun: {}", error.message);
            }
            Err(failure)
        }
    }
}

/// Removes the logs of all submissions of a name but the last ones, to which another one is about to be added.
fn remove_old_logs(context: &Context, name: &str) -> Result<(), Failure> {
    let old = context.home()?.work_dirs(name).into_iter().skip(LOGS_KEPT - 1);
    for work_dir in old.filter(|work_dir| !work_dir.is_in_use()) {
        if let Err(error) = work_dir.remove() {
            context.output.note(format!("cannot remove old logs in {}: {error}", work_dir.path().display()));
        }
    }
    Ok(())
}

fn new_execution(
    context: &Context,
    name: &str,
    mode: ExecutionMode,
    stdin: bool,
) -> Result<Execution, Failure> {
    let no_randomness =
        |error: String| Failure::failed(format!("the system gives no random numbers: {error}"));
    let id = format!("{:08x}", getrandom::u32().map_err(|error| no_randomness(error.to_string()))?);
    let secret = Secret::generate().map_err(|error| no_randomness(error.to_string()))?;
    Ok(Execution {
        secret: secret.to_hex(),
        cluster: context.global.cluster().to_owned(),
        owner_uid: rustix::process::geteuid().as_raw(),
        work_dir: context.home()?.work_dir(name, &id).path().to_owned(),
        mode,
        submitted_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        stdin,
        id,
    })
}

/// What is to be started.
#[derive(Clone, Copy)]
struct Request<'a> {
    topology: &'a Topology,
    packing: &'a PackingPlan,
    execution: &'a Execution,
    prints_to_stdout: bool,
}

impl Request<'_> {
    /// Has `act` do it.
    fn with<T>(&self, state: &State, act: impl FnOnce(&LaunchRequest<'_>) -> T) -> T {
        let Self { topology, packing, execution, prints_to_stdout } = *self;
        let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
        let printed = if prints_to_stdout { stdout.as_fd() } else { stderr.as_fd() };
        let stdout = (execution.mode == ExecutionMode::Run).then_some(printed);
        act(&LaunchRequest { state_url: state.url(), topology, packing, execution, stdout })
    }
}

fn launch(
    state: &State,
    scheduler: &dyn Scheduler,
    request: Request<'_>,
) -> Result<(SchedulerRecord, Vec<LaunchedExecutor>), Failure> {
    let (topology, execution) = (request.topology, request.execution);
    state.create_topology(topology)?;
    state.put_packing_plan(request.packing)?;
    WorkDir::at(&execution.work_dir).create().map_err(Failure::failed)?;
    state.put_execution(&topology.name, execution)?;
    let launched = request.with(state, |launch| scheduler.launch(launch)).map_err(Failure::failed)?;
    state.put_scheduler_record(&topology.name, &launched.record)?;
    Ok((launched.record, launched.executors))
}

impl Started {
    /// Starts the executor of a container again; to be called on the thread that started the topology.
    ///
    /// # Errors
    /// When it cannot be started now.
    pub(crate) fn revive(&self, container: ContainerId) -> Result<Revival, ReviveError> {
        let request = Request {
            topology: &self.topology,
            packing: &self.packing,
            execution: &self.execution,
            prints_to_stdout: self.prints_to_stdout,
        };
        let scheduler = self.scheduler.as_ref();
        request.with(&self.state, |request| scheduler::revive(&self.state, scheduler, request, container))
    }

    /// Ends every process and removes every trace; a submitted topology's logs stay.
    ///
    /// # Errors
    /// When something is left, with what it is.
    pub(crate) fn remove(&self, output: Output) -> Result<(), Failure> {
        let name = &self.topology.name;
        let _lock = lock(output, &self.state, name)?;
        // Once the name is free, it may be another execution's by now.
        if self.state.execution(name)?.is_some_and(|present| present.id != self.execution.id) {
            return end(self.scheduler.as_ref(), &self.execution, &self.record);
        }
        remove(&self.state, self.scheduler.as_ref(), name, &self.execution, &self.record)
    }
}

/// Ends every process of an execution and removes its files and its entries. To be called with the lock held.
pub(crate) fn remove(
    state: &State,
    scheduler: &dyn Scheduler,
    name: &str,
    execution: &Execution,
    record: &SchedulerRecord,
) -> Result<(), Failure> {
    end(scheduler, execution, record)?;
    state.remove(name)?;
    Ok(())
}

fn end(scheduler: &dyn Scheduler, execution: &Execution, record: &SchedulerRecord) -> Result<(), Failure> {
    scheduler.kill(record, KILL_PATIENCE).map_err(Failure::failed)?;
    let work_dir = WorkDir::at(&execution.work_dir);
    let removed = match execution.mode {
        ExecutionMode::Run => work_dir.remove(),
        ExecutionMode::Submit => work_dir.remove_all_but_logs(),
    };
    removed
        .map_err(|error| Failure::failed(format!("cannot remove {}: {error}", execution.work_dir.display())))
}

/// Takes the lock of a topology that is to be ended. Where it cannot be written, as on a full disk, that is said, and the
/// topology is ended all the same.
pub(crate) fn lock(output: Output, state: &State, name: &str) -> Result<Option<Ephemeral>, Failure> {
    match state.lock(name, LOCK_PATIENCE) {
        Err(error @ StateError::Io { .. }) => {
            output.note(format!("{name} is ended without its lock, which cannot be had: {error}"));
            Ok(None)
        }
        lock => Ok(Some(lock?)),
    }
}

/// A record that finds an execution's processes by its id alone.
pub(crate) fn bare_record(execution_id: &str) -> SchedulerRecord {
    let (scheduler, executors) = ("local".to_owned(), Vec::new());
    SchedulerRecord { scheduler, execution_id: execution_id.to_owned(), executors }
}
