//! Second reading: types, arguments, schemas and configuration are looked up, and the one validator is asked.

use super::draft::{Draft, DraftComponent, DraftStream};
use super::mapping::Placed;
use super::node::Place;
use super::paths;
use super::problem::Problems;
use crate::components::{self, ArgProblem, Args, At, ComponentType, InputSchema};
use egret_dataplane::plan::config::{COMPONENT_CPU, COMPONENT_DISK, COMPONENT_RAM, ConfigError};
use egret_dataplane::plan::validate::suggestion;
use egret_dataplane::plan::{Component, Config, Input, Program, Resources, Role, Subject, Topology};
use std::path::Path;

/// Where an input of a component was written.
struct InputPlaces {
    from: Place,
    grouping: Place,
    /// Whether its grouping stands for a wrong one that was reported already.
    grouping_wrong: bool,
}

/// What is known about a component beside the plan's own [`Component`].
struct Known {
    kind: Option<&'static ComponentType>,
    args: Option<Args>,
    /// Whether `outputs` holds the truth; if not, problems of its readers would only be echoes.
    resolved: bool,
    /// Whether its schemas were found wrong, which is reported once.
    refused: bool,
    inputs: Vec<InputPlaces>,
}

/// Makes the topology; it is right only when `problems` stays empty.
pub(super) fn resolve(
    draft: &Draft<'_>,
    folder: &Path,
    overrides: &[(String, String)],
    problems: &mut Problems<'_>,
) -> Topology {
    let config = resolve_config(draft, overrides, problems);
    let mut topology = Topology {
        name: draft.name.as_ref().map_or_else(|| "unnamed".to_owned(), |name| name.text.clone()),
        components: Vec::new(),
        program: Program::Builtin,
        config,
    };
    let mut known = Vec::new();
    for component in &draft.components {
        let facts = look_up(component, folder, problems);
        let own = own_config(component, problems);
        topology.components.push(plan_component(component, &facts, &topology.config, own));
        known.push(facts);
    }
    let mut lost_stream = draft.lost_stream;
    for stream in &draft.streams {
        lost_stream |= connect(&mut topology, &mut known, stream, problems).is_none();
    }
    resolve_schemas(&mut topology, &mut known, draft, problems);
    for problem in topology.validate() {
        let echo = lost_stream && matches!(problem.subject, Subject::Inputs(_));
        if let Subject::Config(key) = problem.subject
            && let Some((key, value)) = overrides.iter().find(|(over, _)| over == key)
        {
            problems.add_override(format!("--config {key}={value}: {}", problem.message));
        } else if !echo && let Some(at) = place_of(&problem.subject, &topology, &known, draft) {
            problems.add(at, problem.message);
        }
    }
    topology
}

fn resolve_config(draft: &Draft<'_>, overrides: &[(String, String)], problems: &mut Problems<'_>) -> Config {
    let mut config = Config::default();
    for (key, key_at, node) in &draft.config {
        let Some(value) = node.scalar(problems.text_of()) else {
            let found = node.describe();
            problems.add(node.at, format!("`{key}` must be a number or a word, not {found}"));
            continue;
        };
        match config.set(key, &value) {
            Ok(()) => {}
            Err(ConfigError::Unsupported { .. }) if overrides.iter().any(|(over, _)| over == key) => {}
            Err(error @ ConfigError::UnknownKey { .. }) => problems.add(*key_at, error.to_string()),
            Err(error) => problems.add(node.at, error.to_string()),
        }
    }
    for (key, value) in overrides {
        if let Err(error) = config.set(key, value) {
            problems.add_override(format!("--config {key}={value}: {error}"));
        }
    }
    config
}

/// Finds the type of a component and checks its arguments.
fn look_up(component: &DraftComponent<'_>, folder: &Path, problems: &mut Problems<'_>) -> Known {
    let kind = component.kind.as_ref().and_then(|kind| look_up_type(component, kind, problems));
    let args = kind.and_then(|kind| check_args(component, kind, folder, problems));
    Known { kind, args, resolved: false, refused: false, inputs: Vec::new() }
}

fn look_up_type(
    component: &DraftComponent<'_>,
    kind: &Placed,
    problems: &mut Problems<'_>,
) -> Option<&'static ComponentType> {
    let (word, other) = match component.role {
        Role::Spout => ("spout", "bolts"),
        Role::Bolt => ("bolt", "spouts"),
    };
    let id = &component.id.text;
    match components::find(&kind.text) {
        Some(found) if found.role == component.role => Some(found),
        Some(found) => {
            let message =
                format!("{word} `{id}` has the type `{}`, which belongs under `{other}`", found.name);
            problems.add(kind.at, message);
            None
        }
        None => {
            let hint = suggestion(&kind.text, components::names(component.role));
            let all = components::names(component.role).collect::<Vec<_>>().join(", ");
            let message = format!(
                "{word} `{id}` has the unknown type `{}`{hint}; the {word} types are {all}",
                kind.text
            );
            problems.add(kind.at, message);
            None
        }
    }
}

fn check_args(
    component: &DraftComponent<'_>,
    kind: &ComponentType,
    folder: &Path,
    problems: &mut Problems<'_>,
) -> Option<Args> {
    let args = component.args.iter().map(|(name, _, node)| ((*name).to_owned(), node.to_json())).collect();
    let checked =
        Args::check(kind.args, args).and_then(|args| match (kind.check)(&args, component.parallelism) {
            Ok(()) => Ok(args),
            Err(problem) => Err(vec![problem]),
        });
    match checked {
        Ok(mut args) => {
            args.map_paths(kind.args, |path| paths::absolute(folder, path));
            Some(args)
        }
        Err(found) => {
            found.iter().for_each(|problem| add_arg_problem(problem, component, &[], problems));
            None
        }
    }
}

fn add_arg_problem(
    problem: &ArgProblem,
    component: &DraftComponent<'_>,
    inputs: &[InputPlaces],
    problems: &mut Problems<'_>,
) {
    let arg = |name: &str| component.args.iter().find(|(n, ..)| *n == name);
    let at = match &problem.at {
        At::Component => Some(component.args_at),
        At::Key(name) => arg(name).map(|(_, at, _)| *at),
        At::Value(name) => arg(name).map(|(.., node)| node.at),
        At::Input(index) => inputs.get(*index).map(|input| input.from),
    };
    let kind = component.kind.as_ref().map_or("", |kind| kind.text.as_str());
    let message = format!("component `{}` ({kind}): {}", component.id.text, problem.message);
    problems.add(at.unwrap_or(component.args_at), message);
}

/// The component's own `config`.
fn own_config(component: &DraftComponent<'_>, problems: &mut Problems<'_>) -> Config {
    let mut config = Config::default();
    for (key, key_at, node) in &component.config {
        let Some(value) = node.scalar(problems.text_of()) else {
            let found = node.describe();
            problems.add(node.at, format!("`{key}` must be a number or a word, not {found}"));
            continue;
        };
        match config.set_of_component(key, &value) {
            Ok(()) => {}
            Err(error @ (ConfigError::UnknownKey { .. } | ConfigError::NotOfComponents { .. })) => {
                problems.add(*key_at, error.to_string());
            }
            Err(error) => problems.add(node.at, error.to_string()),
        }
    }
    config
}

fn plan_component(component: &DraftComponent<'_>, facts: &Known, config: &Config, own: Config) -> Component {
    let given = &component.resources;
    Component {
        id: component.id.text.clone(),
        role: component.role,
        parallelism: component.parallelism,
        kind: component.kind.as_ref().map(|kind| kind.text.clone()).unwrap_or_default(),
        args: facts.args.as_ref().map_or_else(|| "null".to_owned(), Args::to_json),
        outputs: Vec::new(),
        inputs: Vec::new(),
        resources: Resources {
            cpu_millis: given.cpu_millis.unwrap_or_else(|| config.millis(COMPONENT_CPU)),
            ram_bytes: given.ram_bytes.unwrap_or_else(|| config.number(COMPONENT_RAM)),
            disk_bytes: given.disk_bytes.unwrap_or_else(|| config.number(COMPONENT_DISK)),
        },
        config: own,
    }
}

/// Gives a stream to the bolt that reads it; `None` when there is no such bolt.
fn connect(
    topology: &mut Topology,
    known: &mut [Known],
    stream: &DraftStream,
    problems: &mut Problems<'_>,
) -> Option<()> {
    let to = &stream.to;
    let Some(at) = topology.component(&to.text).map(|c| c.0 as usize) else {
        let hint = suggestion(&to.text, topology.components.iter().map(|c| c.id.as_str()));
        let from = &stream.from.text;
        let message = format!("the stream from `{from}` goes to `{}`, which does not exist{hint}", to.text);
        problems.add(to.at, message);
        return None;
    };
    if topology.components[at].role == Role::Spout {
        let message = format!(
            "the stream from `{}` goes to spout `{}`, but only bolts read",
            stream.from.text, to.text
        );
        problems.add(to.at, message);
        return None;
    }
    topology.components[at].inputs.push(Input {
        from: stream.from.text.clone(),
        stream: stream.stream.text.clone(),
        grouping: stream.grouping.clone(),
    });
    // A wrong stream name is looked for where it is written, an implied one where its component is named.
    let from =
        if topology.component(&stream.from.text).is_some() { stream.stream.at } else { stream.from.at };
    let grouping_wrong = stream.grouping_wrong;
    known[at].inputs.push(InputPlaces { from, grouping: stream.grouping_at, grouping_wrong });
    Some(())
}

/// Works out the outputs of every component whose inputs are known, until nothing more can be known.
fn resolve_schemas(
    topology: &mut Topology,
    known: &mut [Known],
    draft: &Draft<'_>,
    problems: &mut Problems<'_>,
) {
    loop {
        let ready = (0..known.len()).find(|&i| {
            let mut inputs = topology.components[i].inputs.iter();
            let settled = known[i].resolved || known[i].refused;
            !settled && known[i].args.is_some() && inputs.all(|input| is_resolved(topology, known, input))
        });
        let Some(at) = ready else { return };
        let (Some(kind), Some(args)) = (known[at].kind, &known[at].args) else { return };
        let inputs: Vec<_> =
            topology.components[at].inputs.iter().filter_map(|input| schema_of(topology, input)).collect();
        match (kind.outputs)(args, &inputs) {
            Ok(outputs) => {
                topology.components[at].outputs = outputs;
                known[at].resolved = true;
            }
            Err(problem) => {
                add_arg_problem(&problem, &draft.components[at], &known[at].inputs, problems);
                known[at].refused = true;
            }
        }
    }
}

/// Whether the stream of `input` is there and its schema known.
fn is_resolved(topology: &Topology, known: &[Known], input: &Input) -> bool {
    let from = topology.component(&input.from);
    from.is_some_and(|from| known[from.0 as usize].resolved) && schema_of(topology, input).is_some()
}

fn schema_of<'t>(topology: &'t Topology, input: &'t Input) -> Option<InputSchema<'t>> {
    let source = &topology.components[topology.component(&input.from)?.0 as usize];
    let stream = &source.outputs[source.stream(&input.stream)?.0 as usize];
    Some(InputSchema { from: &input.from, stream: &input.stream, schema: &stream.schema })
}

/// The place of what the validator found, or `None` when it only echoes a problem that was reported.
fn place_of(subject: &Subject, topology: &Topology, known: &[Known], draft: &Draft<'_>) -> Option<Place> {
    let source_unknown = |i: usize, j: usize| {
        let from = topology.component(&topology.components[i].inputs[j].from);
        from.is_some_and(|from| !known[from.0 as usize].resolved)
    };
    match *subject {
        Subject::Topology => Some(draft.name.as_ref().map_or(draft.at, |name| name.at)),
        Subject::Config(key) => draft.config.iter().find(|(name, ..)| *name == key).map(|(.., node)| node.at),
        Subject::Component(i) if draft.components[i].nameless => None,
        Subject::Component(i) | Subject::Inputs(i) => Some(draft.components[i].id.at),
        Subject::Parallelism(i) => Some(draft.components[i].parallelism_at),
        Subject::Input(i, j) | Subject::Grouping(i, j) if source_unknown(i, j) => None,
        Subject::Grouping(i, j) if known[i].inputs[j].grouping_wrong => None,
        Subject::Input(i, j) => Some(known[i].inputs[j].from),
        Subject::Grouping(i, j) => Some(known[i].inputs[j].grouping),
    }
}
