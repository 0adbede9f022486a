//! What a program that links the library does when it is started.

use super::env::{DESCRIBE_TO, InstanceEnv, LOG, ROLE};
use super::{Load, exit, gateway};

use crate::components;
use crate::topology::{Blueprint, TopologyBuilder};
use egret_dataplane::plan::{Component, Problem, Topology};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// What `main` of a program that links the library returns: does whatever `egret` started it for.
///
/// ```no_run
/// # use egret::{Next, Spout, SpoutCollector, TopologyBuilder, Tuple};
/// # #[derive(Tuple)]
/// # struct Tick { n: u64 }
/// # struct Once;
/// # impl Spout for Once {
/// #     type Id = ();
/// #     fn next_tuple(&mut self, _: &mut SpoutCollector<()>) -> egret::Result<Next> { Ok(Next::Exhausted) }
/// # }
/// fn main() -> std::process::ExitCode {
///     let mut topology = TopologyBuilder::new("ticks");
///     topology.spout("tick", 1, || Once).emits::<Tick>();
///     egret::main(topology)
/// }
/// ```
#[must_use]
pub fn main(builder: TopologyBuilder) -> ExitCode {
    match std::env::var(ROLE).as_deref() {
        Ok("describe") => describe(builder),
        Ok("instance") => match builder.build() {
            Ok(blueprint) => run(linked(blueprint)),
            Err(problems) => {
                problems.iter().for_each(|problem| eprintln!("error: {problem}"));
                ExitCode::from(exit::REFUSED)
            }
        },
        _ => {
            let program = std::env::args().next().unwrap_or_else(|| "PROGRAM".to_owned());
            eprintln!("This program is an Egret topology. Run it with `egret run {program}`.");
            ExitCode::from(2)
        }
    }
}

/// Runs an instance whose component is built in; the role `egret instance`.
#[must_use]
pub fn run_builtin() -> ExitCode {
    run(Box::new(|topology, task| {
        let blueprint = components::blueprint(topology.clone()).map_err(|problems| join(&problems))?;
        let factory = blueprint.into_factory(task).ok_or_else(|| format!("no task {task}"))?;
        Ok((factory, Vec::new()))
    }))
}

fn join(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn run(load: Load) -> ExitCode {
    let filter = EnvFilter::try_from_env(LOG).unwrap_or_else(|_| "info".into());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    log.with_ansi(false).with_target(false).init();
    let env = match InstanceEnv::read() {
        Ok(env) => env,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    match gateway::run(env, load) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            tracing::error!("the gateway failed: {error}");
            ExitCode::from(exit::FAILED)
        }
    }
}

/// The code of a linked program, if it is still the one that was submitted.
fn linked(blueprint: Blueprint) -> Load {
    Box::new(move |topology, task| {
        let shape = |t: &Topology| t.components.iter().map(shape_of).collect::<Vec<_>>();
        if shape(topology) != shape(blueprint.topology()) {
            return Err(
                "this program defines other components than the ones submitted; submit it anew".to_owned()
            );
        }
        let customs = blueprint.customs().to_vec();
        let factory = blueprint.into_factory(task).ok_or_else(|| format!("no task {task}"))?;
        Ok((factory, customs))
    })
}

/// What must be the same for the plan's indices to mean the program's code; parallelism may have been changed.
fn shape_of(component: &Component) -> Component {
    Component { parallelism: 1, resources: Default::default(), ..component.clone() }
}

/// What a program writes when it is asked to describe itself.
#[derive(Serialize, Deserialize)]
enum Description {
    Topology(Topology),
    Problems(Vec<String>),
}

fn describe(builder: TopologyBuilder) -> ExitCode {
    let Ok(path) = std::env::var(DESCRIBE_TO) else {
        eprintln!("error: {DESCRIBE_TO} is not set; `egret run PROGRAM` sets it");
        return ExitCode::from(2);
    };
    match describe_blueprint(builder, Path::new(&path)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: cannot write the topology to {path}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the topology of `builder`, or what is wrong with it, to a new file that only its owner can read.
///
/// # Errors
/// When the file cannot be written.
pub fn describe_blueprint(builder: TopologyBuilder, path: &Path) -> std::io::Result<()> {
    let description = match builder.build() {
        Ok(blueprint) => Description::Topology(blueprint.topology().clone()),
        Err(problems) => Description::Problems(problems.iter().map(ToString::to_string).collect()),
    };
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(&serde_json::to_vec(&description)?)
}

/// Reads what a program wrote when it was asked to describe itself.
///
/// # Errors
/// What is wrong with the topology, or with the description.
pub fn read_description(bytes: &[u8]) -> Result<Topology, Vec<String>> {
    match serde_json::from_slice(bytes) {
        Ok(Description::Topology(topology)) => Ok(topology),
        Ok(Description::Problems(problems)) => Err(problems),
        Err(error) => Err(vec![format!("the program's description of its topology makes no sense: {error}")]),
    }
}
