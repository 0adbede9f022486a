//! An executor from its start to its last act: what it takes hold of before there are children, and what it leaves.

use super::ExecutorOptions;
use super::commands::{ContainerCommands, processes};
use super::driver::Driver;
use super::failure::Failure;
use super::outside::{Signals, end_orphans};
use super::supervisor::{Outcome, Policy};
use crate::layout::{ContainerDir, ProcessName, RUNNER_PID_ENV, WorkDir};
use crate::logs::{Retention, RotatedLog};
use crate::state::{Execution, ExecutionMode, State};
use anyhow::Context;
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
use std::time::Duration;
use tracing::{info, warn};

/// After how many deaths in a row of one process a run fails.
const RUN_GIVES_UP_AFTER: u32 = 3;

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
    _pid_file: File,
}

impl<'a> Session<'a> {
    /// Takes hold of the container.
    pub(super) fn begin(options: &'a ExecutorOptions) -> anyhow::Result<Self> {
        // It fails for a process that leads its group already, as when typed in a shell.
        let _ = setsid();
        set_child_subreaper(Some(getpid())).context("cannot become the parent of orphans")?;
        let mut signals = Signals::take().context("cannot take over the signals")?;
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
        dir.create().with_context(|| format!("cannot make {}", dir.path().display()))?;
        let pid_file = take_pid_file(&dir)?;
        let run = execution.mode == ExecutionMode::Run;
        let stdout = run.then(|| fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)).transpose()?;
        let log = RotatedLog::open(dir.log(&ProcessName::Executor), retention(&topology))?;
        signals.log_to(log)?;
        info!(topology = %name, container = %options.container, execution = %execution.id, "executor begins");
        Ok(Self {
            options,
            state,
            execution,
            topology,
            packing,
            work_dir,
            dir,
            signals,
            runner,
            stdout,
            _pid_file: pid_file,
        })
    }

    /// Runs the container and leaves nothing that should not stay.
    pub(super) fn run(mut self) -> anyhow::Result<ExitCode> {
        let ended = self.drive();
        if let Err(error) = end_orphans() {
            warn!(%error, "not all processes of the container could be ended");
        }
        let (outcome, failure) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                self.clean_up(None)?;
                return Err(error);
            }
        };
        info!(?outcome, "executor ends");
        self.clean_up(failure)?;
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
        let policy = self.policy();
        let retention = retention(&self.topology);
        let mut driver = Driver::new(container, &self.dir, commands, retention, (names, policy));
        Ok(driver.run(&mut self.signals)?)
    }

    fn policy(&self) -> Policy {
        let ms = |key| Duration::from_millis(self.topology.config.number(key));
        let gives_up = self.execution.mode == ExecutionMode::Run;
        Policy {
            delay: ms(config::RESTART_DELAY_MS),
            delay_max: ms(config::RESTART_DELAY_MAX_MS),
            give_up_after: gives_up.then_some(RUN_GIVES_UP_AFTER),
        }
    }

    fn clean_up(&self, failure: Option<Failure>) -> anyhow::Result<()> {
        if is_gone(self.runner) {
            self.dir.remove()?;
            return clean_up_for_runner(&self.state, &self.topology.name, &self.execution, &self.work_dir);
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
    if !work_dir.containers().is_empty() {
        return Ok(());
    }
    work_dir.remove()?;
    // Another execution may have the name by now.
    if state.execution(name)?.is_some_and(|present| present.id == execution.id) {
        state.remove(name)?;
    }
    Ok(())
}

fn take_pid_file(dir: &ContainerDir) -> anyhow::Result<File> {
    let path = dir.pid_file(&ProcessName::Executor);
    let mut options = OpenOptions::new();
    let mut file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let other = dir.pid(&ProcessName::Executor).unwrap_or_default();
            anyhow::bail!("the container has an executor already, process {other} ({})", path.display());
        }
        Err(TryLockError::Error(error)) => return Err(error.into()),
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
