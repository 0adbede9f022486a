//! The processes of a topology. Each is this same program, started by an executor or a scheduler.

use super::Context;
use super::args::Command;
use super::failure::Failure;
use crate::executor::{self, ExecutorOptions, Starts};
use crate::layout::{ProcessName, TOPOLOGY_ID_ENV, WorkDir};
use crate::scheduler::LOCAL_HOST;
use crate::state::State;
use crate::tmaster::{self, TmasterOptions};
use anyhow::anyhow;
use egret_dataplane::ids::{ContainerId, Incarnation};
use egret_dataplane::net::handshake::Secret;
use egret_dataplane::stmgr::{self, ExitReason, StmgrOptions};
use std::net::SocketAddr;
use std::process::ExitCode;

/// Plays the role.
pub(crate) fn run(context: &Context, command: &Command) -> Result<ExitCode, Failure> {
    if let Command::Tmaster { of, .. } | Command::Stmgr { of, .. } = command
        && is_over(context, &of.topology)?
    {
        tracing::warn!("`{}` is over: its entry is gone, or another execution has its name", of.topology);
        return Ok(ExitCode::SUCCESS);
    }
    let result = match command {
        Command::Executor { of, container } => executor::run(ExecutorOptions {
            state_url: state_url(context)?,
            topology: of.topology.clone(),
            container: ContainerId(*container),
        }),
        Command::Tmaster { of, incarnation } => tmaster::run(&TmasterOptions {
            state_url: state_url(context)?,
            topology: of.topology.clone(),
            incarnation: Incarnation(*incarnation),
        }),
        Command::Stmgr { of, container, incarnation } => {
            stmgr(context, &of.topology, ContainerId(*container), Incarnation(*incarnation))
        }
        Command::Instance => Ok(egret::runtime::run_builtin()),
        _ => return Err(Failure::usage("the metrics manager is not supported yet")),
    };
    result.map_err(|error| Failure::failed(format!("{error:#}")))
}

/// Whether the execution that this process was started for is over. Its executor takes exit status 0 for that; anything
/// else would go on for ever, or become part of the next execution of the same name.
fn is_over(context: &Context, name: &str) -> Result<bool, Failure> {
    let Ok(own) = std::env::var(TOPOLOGY_ID_ENV) else { return Ok(false) };
    Ok(State::open(&state_url(context)?)?.is_over(name, &own)?)
}

/// A role is told where the state is; a default would be one more thing to be wrong about.
fn state_url(context: &Context) -> Result<String, Failure> {
    let url = context.global.state.clone();
    url.ok_or_else(|| Failure::usage("--state URL is missing; this role is started by an executor"))
}

/// The one door to the stmgr.
fn stmgr(
    context: &Context,
    name: &str,
    container: ContainerId,
    incarnation: Incarnation,
) -> anyhow::Result<ExitCode> {
    let url = state_url(context).map_err(|failure| anyhow!(failure.message))?;
    let state = State::open(&url)?;
    let absent = || anyhow!("topology `{name}` is not in {url}");
    let execution = state.execution(name)?.ok_or_else(absent)?;
    let dir = WorkDir::at(&execution.work_dir).container(container);
    let starts = Incarnation(Starts::read(&dir).of(&ProcessName::Executor));
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    let options = StmgrOptions {
        topology: state.topology(name)?.ok_or_else(absent)?,
        packing: state.packing_plan(name)?.ok_or_else(absent)?,
        container,
        incarnation,
        container_dir: dir.path().to_owned(),
        secret: Secret::from_hex(&execution.secret)
            .ok_or_else(|| anyhow!("the execution of `{name}` in {url} holds no valid secret"))?,
        listen_host: LOCAL_HOST.into(),
        executor: parent.map(|pid| (pid, starts)),
        locate_tmaster: locator(state, name.to_owned()),
    };
    let ExitReason::Stopped = stmgr::run(options)?;
    Ok(ExitCode::SUCCESS)
}

/// Looks the tmaster up in the state. While the state is down there is none, and the stmgr goes on with what it has.
fn locator(state: State, name: String) -> Box<dyn FnMut() -> Option<SocketAddr>> {
    Box::new(move || state.tmaster_location(&name).ok().flatten()?.address.parse().ok())
}
