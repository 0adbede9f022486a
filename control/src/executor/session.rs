//! An executor from its start to its last act: what it takes hold of before there are children, and what it leaves.

use super::ExecutorOptions;
use super::commands::{ContainerCommands, processes};
use super::driver::Driver;
use super::failure::Failure;
use super::outside::{Signals, World, end_orphans};
use super::starts::Starts;
use super::supervisor::{Outcome, Policy};
use super::wards::{Surroundings, Wards};
use crate::backoff::Backoff;
use crate::layout::{ContainerDir, ExecutorPresence, ProcessName, RUNNER_PID_ENV, WorkDir};
use crate::logs::{Retention, RotatedLog};
use crate::scheduler::sweep;
use crate::state::{Execution, ExecutionMode, State, StateError};
use anyhow::Context;
use egret_dataplane::ids::{ContainerId, Incarnation};
use egret_dataplane::plan::{PackingPlan, Topology, config};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{
    Signal, getpid, getppid, set_child_subreaper, set_parent_process_death_signal, setsid,
};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// After how many failures in a row of one process a run fails.
const RUN_GIVES_UP_AFTER: u32 = 3;
/// How long the container may be locked by somebody who looks whether it has an executor.
const LOCK_PATIENCE: Duration = Duration::from_millis(500);
/// How long the processes that a dead executor left may take to end when killed.
const LEFTOVERS_PATIENCE: Duration = Duration::from_secs(10);

/// See the module.
pub(super) struct Session<'a> {
    options: &'a ExecutorOptions,
    state: State,
    execution: Execution,
    topology: Topology,
    packing: PackingPlan,
    work_dir: WorkDir,
    dir: ContainerDir,
    signals: Signals,
    runner: Option<i32>,
    /// The standard output of `egret run`.
    stdout: Option<OwnedFd>,
    /// Locked as long as this executor lives, so that a container has one.
    pid_file: Option<File>,
}

impl<'a> Session<'a> {
    /// Takes hold of the container.
    pub(super) fn begin(options: &'a ExecutorOptions) -> anyhow::Result<Self> {
        // It fails for a process that leads its group already, as when typed in a shell.
        let _ = setsid();
        set_child_subreaper(Some(getpid())).context("cannot become the parent of orphans")?;
        let signals = Signals::take().context("cannot take over the signals")?;
        let state = State::open(&options.state_url)?;
        let name = &options.topology;
        let missing = || format!("topology `{name}` is not in the state {}", options.state_url);
        let execution = state.execution(name)?.with_context(missing)?;
        let work_dir = WorkDir::at(&execution.work_dir);
        let runner = if execution.mode == ExecutionMode::Run { bind_to_runner()? } else { None };
        if is_gone(runner) {
            clean_up_for_runner(&state, name, &execution, &work_dir)?;
            anyhow::bail!("`egret run` is gone");
        }
        let topology = state.topology(name)?.with_context(missing)?;
        let packing = state.packing_plan(name)?.with_context(missing)?;
        let dir = work_dir.container(options.container);
        let session = Self {
            pid_file: None,
            stdout: None,
            options,
            state,
            execution,
            topology,
            packing,
            work_dir,
            dir,
            signals,
            runner,
        };
        session.take_over()
    }

    /// Makes the container this executor's own.
    fn take_over(mut self) -> anyhow::Result<Self> {
        match self.settle() {
            Ok(()) => Ok(self),
            Err(error) => {
                let is_another_s = self.pid_file.is_none() && self.dir.executor()? == ExecutorPresence::Lives;
                if is_gone(self.runner) && !is_another_s {
                    self.clean_up(Outcome::Terminated, None)?;
                }
                Err(error)
            }
        }
    }

    fn settle(&mut self) -> anyhow::Result<()> {
        let dir = &self.dir;
        dir.create().with_context(|| format!("cannot make {}", dir.path().display()))?;
        self.pid_file = Some(take_pid_file(dir)?);
        if self.execution.mode == ExecutionMode::Run {
            self.stdout = Some(fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?);
        }
        let log = RotatedLog::open(dir.log(&ProcessName::Executor), retention(&self.topology))?;
        let mut starts = Starts::read(dir);
        let incarnation = Incarnation(starts.of(&ProcessName::Executor) + 1);
        starts.note(dir, &ProcessName::Executor, incarnation).context("cannot note this start")?;
        let (topology, container, execution) =
            (&self.topology.name, self.options.container, &self.execution.id);
        let mut left = None;
        if incarnation > Incarnation(1) {
            let killed = sweep::clear_container(execution, container, LEFTOVERS_PATIENCE)
                .context("the processes of the executor before this one cannot be ended")?;
            dir.remove_stale().context("what the executor before this one left cannot be removed")?;
            left = Some(killed);
        }
        // Whatever fails before this is said to whoever started it; the log of a run vanishes with it.
        self.signals.log_to(log)?;
        info!(%topology, %container, %execution, %incarnation, "executor begins");
        if let Some(killed) = left {
            warn!(killed, "the executor before this one died with its container; it starts again");
        }
        Ok(())
    }

    /// Runs the container and leaves nothing that should not stay.
    pub(super) fn run(mut self) -> anyhow::Result<ExitCode> {
        let ended = self.drive();
        if let Err(error) = end_orphans(self.options.container) {
            warn!(%error, "not all processes of the container could be ended");
        }
        let (outcome, failure) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                self.clean_up(Outcome::Terminated, None)?;
                return Err(error);
            }
        };
        info!(?outcome, "executor ends");
        self.clean_up(outcome, failure)?;
        Ok(ExitCode::from(u8::from(matches!(outcome, Outcome::GaveUp(_)))))
    }

    fn drive(&mut self) -> anyhow::Result<(Outcome, Option<Failure>)> {
        let container = self.options.container;
        let names = processes(&self.packing, container)
            .with_context(|| format!("container {container} is not in the packing plan"))?;
        let commands = ContainerCommands {
            options: self.options,
            topology: &self.topology,
            execution_id: &self.execution.id,
            dir: &self.dir,
            stdin: self.execution.stdin,
            stdout: self.stdout.as_ref().map(OwnedFd::try_clone).transpose()?,
        };
        let policy = Policy {
            backoff: Backoff::of(&self.topology.config),
            give_up_after: (self.execution.mode == ExecutionMode::Run).then_some(RUN_GIVES_UP_AFTER),
        };
        let retention = retention(&self.topology);
        let mut driver = Driver::new(container, &self.dir, commands, retention, (names, policy));
        let wards = Wards::new(Surroundings {
            options: self.options,
            state: &self.state,
            execution: &self.execution,
            topology: &self.topology,
            packing: &self.packing,
            work_dir: &self.work_dir,
        });
        Ok(driver.run(&mut World { signals: &mut self.signals, wards })?)
    }

    /// What was told to end, or failed, leaves its folder as a dead one would: it may be called back, and whoever ends
    /// the topology cleans up.
    fn clean_up(&self, outcome: Outcome, failure: Option<Failure>) -> anyhow::Result<()> {
        if is_gone(self.runner) {
            self.dir.remove()?;
            return clean_up_for_runner(&self.state, &self.topology.name, &self.execution, &self.work_dir);
        }
        if outcome == Outcome::Terminated {
            return Ok(self.dir.remove_stale()?);
        }
        if outcome == Outcome::Completed && self.options.container == ContainerId(0) {
            clear_dead_containers(&self.execution, &self.work_dir, ContainerDir::remove_all_but_logs)?;
        }
        self.dir.remove_all_but_logs()?;
        failure.map_or(Ok(()), |failure| failure.write(&self.work_dir))?;
        Ok(())
    }
}

/// Asks the kernel for SIGTERM when `egret run` ends, and says who that is.
fn bind_to_runner() -> anyhow::Result<Option<i32>> {
    let text = std::env::var(RUNNER_PID_ENV).unwrap_or_default();
    let Ok(runner) = text.parse() else { return Ok(None) };
    set_parent_process_death_signal(Some(Signal::TERM)).context("cannot ask for the parent's death")?;
    Ok(Some(runner))
}

/// Whether this was started by an `egret run` that has ended.
fn is_gone(runner: Option<i32>) -> bool {
    runner.is_some_and(|runner| getppid().map(|parent| parent.as_raw_nonzero().get()) != Some(runner))
}

/// What `egret run` would have done, done by the last executor that leaves: its files and state entries go.
fn clean_up_for_runner(
    state: &State,
    name: &str,
    execution: &Execution,
    work_dir: &WorkDir,
) -> anyhow::Result<()> {
    for (_, dir) in work_dir.containers() {
        // One without a pid file has just begun, or has ended and left its logs.
        let lives = match dir.executor()? {
            ExecutorPresence::Lives => true,
            ExecutorPresence::Died => false,
            ExecutorPresence::Absent => dir.pid_dir().exists(),
        };
        if lives {
            return Ok(());
        }
    }
    clear_dead_containers(execution, work_dir, ContainerDir::remove)?;
    work_dir.remove()?;
    // Another execution may have the name by now, or be about to take it: who holds the lock clears what is left.
    let _lock = match state.lock(name, Duration::ZERO) {
        Err(StateError::Held { .. }) => return Ok(()),
        lock => lock?,
    };
    if state.execution(name)?.is_some_and(|present| present.id == execution.id) {
        state.remove(name)?;
    }
    Ok(())
}

/// Ends what executors left that died and were not started again, and removes their files.
fn clear_dead_containers(
    execution: &Execution,
    work_dir: &WorkDir,
    remove: fn(&ContainerDir) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    for (container, dir) in work_dir.containers() {
        if dir.executor()? == ExecutorPresence::Died {
            sweep::clear_container(&execution.id, container, LEFTOVERS_PATIENCE)?;
            remove(&dir)?;
        }
    }
    Ok(())
}

fn take_pid_file(dir: &ContainerDir) -> anyhow::Result<File> {
    let path = dir.pid_file(&ProcessName::Executor);
    let mut options = OpenOptions::new();
    let mut file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)?;
    let deadline = Instant::now() + LOCK_PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(TryLockError::WouldBlock) => {
                let other = dir.pid(&ProcessName::Executor).unwrap_or_default();
                anyhow::bail!("the container has an executor already, process {other} ({})", path.display());
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
    }
    file.set_len(0)?;
    writeln!(file, "{}", getpid().as_raw_nonzero())?;
    Ok(file)
}

fn retention(topology: &Topology) -> Retention {
    Retention {
        max_bytes: topology.config.number(config::LOG_MAX_BYTES),
        keep_files: topology.config.number(config::LOG_KEEP_FILES),
    }
}
