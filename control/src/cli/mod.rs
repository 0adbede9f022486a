//! The `egret` command: one file a command.
//!
//! * `args`: what can be typed; `output`: where the answer goes; `failure`: how it can fail.
//! * `run`, `submit`, `kill`, `list`, `status`, `metrics`, `top`, `plan`, `logs`, `validate`, `config`: the commands.
//! * `roles`: the processes of a topology, which an executor or a scheduler starts.
//! * `load`: a topology from what was typed; `start`: from a topology to its processes, and the way back;
//!   `executors`: what their ends mean, and starting them again; `link`: the conversation with a tmaster; `progress`: the live line.
//!
//! No command is needed by another process of a topology to go on: each reads the state and asks the tmaster.

mod args;
mod config;
mod counts;
mod executors;
mod failure;
mod follow;
mod interrupts;
mod kill;
mod link;
mod list;
mod load;
mod logs;
mod metrics;
mod output;
mod plan;
mod progress;
mod roles;
mod run;
mod start;
mod status;
mod submit;
mod top;
mod validate;

use crate::layout::Home;
use crate::state::{Execution, NAME_MAX_BYTES, State, StateError};
use args::{Command, Global};
use clap::error::ErrorKind;
use egret_dataplane::plan::Config;
use failure::{Failure, Kind, Outcome};
use output::Output;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::OsString;
use std::process::ExitCode;

/// What every command gets.
pub(crate) struct Context {
    global: Global,
    output: Output,
}

/// Does what a command line says; its result is the exit status of the process.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let (global, command) = match args::parse(args.clone()) {
        Ok(parsed) => parsed,
        Err(error) => return usage(&error, &args),
    };
    raise_file_limit();
    // An instance starts its own log, the same in a program that links the library.
    if !matches!(command, Command::Instance) {
        start_log(&global, command.is_role());
    }
    let json = global.json;
    let context = Context { output: Output::new(&global), global };
    let result = if command.is_role() { roles::run(&context, &command) } else { obey(&context, &command) };
    match result {
        Ok(code) => code,
        Err(failure) => {
            output::show_failure(&failure, json && !command.is_role());
            failure.kind.into()
        }
    }
}

fn obey(context: &Context, command: &Command) -> Result<ExitCode, Failure> {
    if let Some(name) = command.later() {
        return Err(Failure::usage(format!("`egret {name}` is not supported yet")));
    }
    match command {
        Command::Run(source) => run::run(context, source),
        Command::Submit { source, timeout } => submit::run(context, source, *timeout),
        Command::Kill { name, timeout } => kill::run(context, name, *timeout),
        Command::List => list::run(context),
        Command::Status { name } => status::run(context, name),
        Command::Metrics { name, component } => metrics::run(context, name, component.as_deref()),
        Command::Top { name, delay, count } => top::run(context, name, *delay, *count),
        Command::Plan { target, dry_run, args } => plan::run(context, target, *dry_run, args),
        Command::Logs { name, task, tail, follow } => {
            let wanted = logs::Wanted { process: task.as_deref(), tail: *tail, follow: *follow };
            logs::run(context, name, &wanted)
        }
        Command::Validate(source) => validate::run(context, source),
        Command::Config { filter } => config::run(context.output, filter.as_deref()),
        // The commands that are not built, and the roles, are dealt with before.
        _ => Ok(()),
    }
    .map(|()| ExitCode::SUCCESS)
}

impl Context {
    /// The configuration that `-c` sets.
    fn overrides(&self) -> Result<Config, Failure> {
        config::overrides(&self.global.config)
    }

    /// The user's folder.
    fn home(&self) -> Result<Home, Failure> {
        Home::from_env().map_err(|error| Failure::new(Kind::Store, error))
    }

    /// The state of the cluster.
    fn state(&self) -> Result<State, Failure> {
        let cluster = self.global.cluster();
        if cluster.is_empty() || cluster.starts_with('.') || cluster.contains('/') {
            return Err(Failure::usage(format!(
                "`{cluster}` is no name for a cluster: use letters, digits and `-`"
            )));
        }
        let url = match &self.global.state {
            Some(url) => url.clone(),
            None => self.home()?.state_url(cluster),
        };
        Ok(State::open(&url)?)
    }

    /// The execution of a topology that must be there.
    fn execution(&self, state: &State, name: &str) -> Result<Execution, Failure> {
        state.execution(name)?.ok_or_else(|| Failure::absent(name, self.global.cluster()))
    }
}

impl From<StateError> for Failure {
    fn from(error: StateError) -> Self {
        let kind = match error {
            StateError::Unsupported { .. } | StateError::BadUrl { .. } | StateError::BadPath { .. } => {
                Kind::Usage
            }
            StateError::Exists { .. } => Kind::Exists,
            StateError::Held { .. } => Kind::Failed,
            _ => Kind::Store,
        };
        Self::new(kind, error)
    }
}

/// What clap has to say: help and version are results, the rest is wrong usage.
fn usage(error: &clap::Error, args: &[OsString]) -> ExitCode {
    let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let json = args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--json");
    if json && !is_help {
        let text = error.to_string();
        let failure = Failure::usage(text.trim_start_matches("error: ").trim_end());
        output::show_failure(&failure, true);
    } else {
        // clap colours for terminals only, and obeys NO_COLOR.
        let _ = error.print();
    }
    if is_help { ExitCode::SUCCESS } else { Kind::Usage.into() }
}

/// An executor has three descriptors for each process of its container, a stmgr two for each instance: the usual soft limit
/// of 1,024 is for programs that call `select`. Children inherit what is set here.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Where it may not be raised, it is as it was.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Logs go to stderr: a role's are caught by its executor; a command speaks only when something is wrong.
fn start_log(global: &Global, is_role: bool) {
    let level = match (is_role, global.verbose) {
        _ if global.quiet => "error",
        (false, 0) => "warn",
        (true, 0) | (false, 1) => "info",
        (true, 1) | (false, 2) => "debug",
        _ => "trace",
    };
    let filter = tracing_subscriber::EnvFilter::try_from_env(egret::runtime::env::LOG)
        .unwrap_or_else(|_| level.into());
    // A second subscriber in one process, as in tests, leaves the first in place.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // Where a line cannot be written, as on a full disk, a word about it cannot either: it would be a panic.
        .log_internal_errors(false)
        // Built without colours.
        .with_ansi(false)
        .with_target(is_role)
        .try_init();
}

/// Reads the name of a topology: what cannot be one is in no cluster.
fn check_name(context: &Context, name: &str) -> Outcome {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let fits = (1..=NAME_MAX_BYTES).contains(&name.len());
    if !fits || name.starts_with('.') || !name.chars().all(allowed) {
        return Err(Failure::absent(name, context.global.cluster()));
    }
    Ok(())
}
