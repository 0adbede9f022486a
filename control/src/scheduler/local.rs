//! The scheduler that runs every executor on this host, as its own session.

use super::{
    ExecutorRecord, Launch, LaunchRequest, LaunchedExecutor, Scheduler, SchedulerError, SchedulerRecord,
    sweep,
};
use crate::executor;
use crate::layout::{CONTAINER_ENV, RUNNER_PID_ENV, TOPOLOGY_ID_ENV};
use crate::state::ExecutionMode;
use egret_dataplane::ids::ContainerId;
use rustix::process::Signal;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long the executors get to end their children before they are forced.
const ORDERLY: Duration = Duration::from_millis(3500);

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Local {
    program: Option<PathBuf>,
}

impl Local {
    /// A scheduler whose executors run `program` instead of the present executable.
    #[must_use]
    pub fn with_program(program: PathBuf) -> Self {
        Self { program: Some(program) }
    }

    fn start(
        &self,
        request: &LaunchRequest<'_>,
        container: ContainerId,
        stderr: Stdio,
    ) -> io::Result<LaunchedExecutor> {
        let execution = request.execution;
        let program = self.program.clone().map_or_else(executor::own_program, Ok)?;
        let mut command = Command::new(program);
        command.args(["executor", "--state", request.state_url, "--topology", &request.topology.name]);
        command.args(["--container", &container.to_string()]);
        command.env(TOPOLOGY_ID_ENV, &execution.id).env(CONTAINER_ENV, container.to_string());
        command.env_remove(RUNNER_PID_ENV);
        if execution.mode == ExecutionMode::Run {
            command.env(RUNNER_PID_ENV, std::process::id().to_string());
        }
        let wants_stdin =
            execution.stdin && executor::reads_stdin(request.topology, request.packing, container);
        command.stdin(if wants_stdin { Stdio::inherit() } else { Stdio::null() });
        let stdout = request.stdout.map(|fd| fd.try_clone_to_owned()).transpose()?;
        command.stdout(stdout.map_or_else(Stdio::null, Stdio::from));
        command.stderr(stderr);
        Ok(LaunchedExecutor { container, child: command.spawn()? })
    }
}

impl Scheduler for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    /// The executors of a run die with the *thread* that calls this, as the kernel tells them of its death.
    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Launch, SchedulerError> {
        let record = SchedulerRecord {
            scheduler: self.name().to_owned(),
            execution_id: request.execution.id.clone(),
            executors: Vec::new(),
        };
        let mut launch = Launch { record, executors: Vec::new() };
        let containers = request.packing.containers.iter().map(|c| c.id);
        for container in std::iter::once(ContainerId(0)).chain(containers) {
            // Until it has its log, an executor speaks into a pipe that ends with it.
            match self.start(request, container, Stdio::piped()) {
                Ok(executor) => {
                    launch.record.executors.push(ExecutorRecord { container, pid: executor.pid() });
                    launch.executors.push(executor);
                }
                Err(error) => {
                    self.kill(&launch.record, Duration::from_secs(5))?;
                    return Err(SchedulerError::Start { container, error });
                }
            }
        }
        Ok(launch)
    }

    /// In a run the same thread must call this that called [`Scheduler::launch`]. In other modes another executor does,
    /// into whose log goes what the new one has to say before it has its own.
    fn restart(
        &self,
        request: &LaunchRequest<'_>,
        container: ContainerId,
    ) -> Result<LaunchedExecutor, SchedulerError> {
        let stderr = match request.execution.mode {
            ExecutionMode::Run => Stdio::piped(),
            ExecutionMode::Submit => Stdio::inherit(),
        };
        self.start(request, container, stderr).map_err(|error| SchedulerError::Start { container, error })
    }

    fn is_alive(&self, record: &SchedulerRecord) -> Result<bool, SchedulerError> {
        Ok(sweep::any(&record.execution_id)?)
    }

    fn kill(&self, record: &SchedulerRecord, patience: Duration) -> Result<(), SchedulerError> {
        let started = Instant::now();
        let orderly = ORDERLY.min(patience / 2);
        // One that has just been started leads no session yet.
        let is_executor =
            |p: &sweep::Process| p.leads_session || record.executors.iter().any(|e| e.pid == p.pid);
        for executor in sweep::find(&record.execution_id)?.iter().filter(|p| is_executor(p)) {
            executor.signal(Signal::TERM)?;
        }
        loop {
            let found = sweep::find(&record.execution_id)?;
            if found.is_empty() {
                return Ok(());
            }
            let waited = started.elapsed();
            if waited >= patience {
                let pids = found.iter().map(|p| p.pid).collect();
                return Err(SchedulerError::Survivors { pids, waited_s: patience.as_secs() });
            }
            // Without an executor nobody else will end them.
            if waited >= orderly || !found.iter().any(is_executor) {
                force(&found)?;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Kills all of them, those first that could start others.
fn force(found: &[sweep::Process]) -> io::Result<()> {
    let (leaders, rest): (Vec<_>, Vec<_>) = found.iter().partition(|p| p.leads_session);
    leaders.into_iter().chain(rest).try_for_each(|p| p.signal(Signal::KILL))
}
