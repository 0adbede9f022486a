//! The builder of topologies.

use super::handle::{BoltHandle, SpoutHandle};
use super::{BasicBolt, Blueprint, Bolt, CustomGrouping, Factory, Spout};
use egret_dataplane::ids::ComponentIndex;
use egret_dataplane::plan::config::ConfigError;
use egret_dataplane::plan::{
    Component, Config, LinkedProgram, Problem, Program, Resources, Role, Subject, Topology, config,
};
use std::fmt::Display;

/// Wires spouts and bolts into a topology.
///
/// ```
/// use egret::{BasicBolt, BasicCollector, Input, Next, Spout, SpoutCollector, TopologyBuilder, Tuple};
///
/// #[derive(Tuple)]
/// struct Word<'a> {
///     word: &'a str,
/// }
///
/// struct Words(std::vec::IntoIter<&'static str>);
///
/// impl Spout for Words {
///     type Id = ();
///
///     fn next_tuple(&mut self, out: &mut SpoutCollector<()>) -> egret::Result<Next> {
///         let Some(word) = self.0.next() else { return Ok(Next::Exhausted) };
///         out.emit(&Word { word }).untracked()?;
///         Ok(Next::Emitted)
///     }
/// }
///
/// struct Print;
///
/// impl BasicBolt for Print {
///     fn execute(&mut self, input: &Input<'_>, _: &mut BasicCollector<'_>) -> egret::Result<()> {
///         println!("{}", input.get::<Word>()?.word);
///         Ok(())
///     }
/// }
///
/// let mut t = TopologyBuilder::new("greetings");
/// t.config("topology.containers", 2);
/// t.spout("words", 1, || Words(vec!["good", "day"].into_iter())).emits::<Word>();
/// t.basic_bolt("print", 2, || Print).fields("words", ["word"]);
/// let blueprint = t.build().expect("it is valid");
/// assert_eq!(blueprint.topology().task_count(), 3);
/// ```
#[derive(Debug)]
pub struct TopologyBuilder {
    name: String,
    config: Config,
    parts: Vec<Part>,
    customs: Vec<CustomGrouping>,
    problems: Vec<Problem>,
}

/// A component as far as it is described.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) component: Component,
    factory: Factory,
    pub(super) cpu_millis: Option<u64>,
    pub(super) ram_bytes: Option<u64>,
    pub(super) disk_bytes: Option<u64>,
    pub(super) config_problems: Vec<ConfigError>,
}

impl TopologyBuilder {
    /// An empty topology of this name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let (config, parts, customs, problems) = Default::default();
        Self { name: name.into(), config, parts, customs, problems }
    }

    /// Sets an entry of the configuration. Keys with the prefix `user.` are the program's own. A bad key or value
    /// is reported by [`TopologyBuilder::build`].
    pub fn config(&mut self, key: &str, value: impl Display) -> &mut Self {
        if let Err(error) = self.config.set(key, &value.to_string()) {
            self.problems.push(Problem { subject: Subject::Topology, message: error.to_string() });
        }
        self
    }

    /// Adds a spout of `parallelism` tasks. `make` is called in each task's process.
    pub fn spout<S: Spout>(
        &mut self,
        id: impl Into<String>,
        parallelism: u32,
        make: impl Fn() -> S + Send + 'static,
    ) -> SpoutHandle<'_> {
        let kind = std::any::type_name::<S>();
        SpoutHandle::new(self.add(id.into(), Role::Spout, parallelism, kind, Factory::spout(make)))
    }

    /// Adds a bolt of `parallelism` tasks. `make` is called in each task's process.
    pub fn bolt<B: Bolt>(
        &mut self,
        id: impl Into<String>,
        parallelism: u32,
        make: impl Fn() -> B + Send + 'static,
    ) -> BoltHandle<'_> {
        let kind = std::any::type_name::<B>();
        self.add(id.into(), Role::Bolt, parallelism, kind, Factory::bolt(make));
        self.last_bolt()
    }

    /// Adds a basic bolt of `parallelism` tasks. `make` is called in each task's process.
    pub fn basic_bolt<B: BasicBolt>(
        &mut self,
        id: impl Into<String>,
        parallelism: u32,
        make: impl Fn() -> B + Send + 'static,
    ) -> BoltHandle<'_> {
        let kind = std::any::type_name::<B>();
        self.add(id.into(), Role::Bolt, parallelism, kind, Factory::basic_bolt(make));
        self.last_bolt()
    }

    fn add(&mut self, id: String, role: Role, parallelism: u32, kind: &str, factory: Factory) -> &mut Part {
        let component = Component {
            id,
            role,
            parallelism,
            kind: kind.to_owned(),
            args: "null".to_owned(),
            outputs: Vec::new(),
            inputs: Vec::new(),
            resources: Resources::default(),
            config: Config::default(),
        };
        let (cpu_millis, ram_bytes, disk_bytes) = (None, None, None);
        let config_problems = Vec::new();
        let part = Part { component, factory, cpu_millis, ram_bytes, disk_bytes, config_problems };
        self.parts.push(part);
        let last = self.parts.len() - 1;
        &mut self.parts[last]
    }

    fn last_bolt(&mut self) -> BoltHandle<'_> {
        let index = self.parts.len() - 1;
        BoltHandle::new(&mut self.parts[index], ComponentIndex(index as u16), &mut self.customs)
    }

    /// Checks the topology and gives it together with the code of its components.
    ///
    /// # Errors
    /// Everything that is wrong with it, found by the same validator that `egret run` uses.
    pub fn build(self) -> Result<Blueprint, Vec<Problem>> {
        let Self { name, config, parts, customs, mut problems } = self;
        for (index, part) in parts.iter().enumerate() {
            let id = &part.component.id;
            problems.extend(part.config_problems.iter().map(|error| Problem {
                subject: Subject::Component(index),
                message: format!("`config` of component `{id}`: {error}"),
            }));
        }
        let resources = default_resources(&config);
        let (components, factories) = parts.into_iter().map(|part| part.complete(resources)).unzip();
        // `egret::main` puts the program's path here; a test that runs no process needs none.
        let program = Program::Linked(LinkedProgram { path: String::new(), args: Vec::new() });
        let topology = Topology { name, config, components, program };
        match Blueprint::new(topology, factories, customs) {
            Ok(blueprint) if problems.is_empty() => Ok(blueprint),
            Ok(_) => Err(problems),
            Err(more) => {
                problems.extend(more);
                Err(problems)
            }
        }
    }
}

impl Part {
    fn complete(self, defaults: Resources) -> (Component, Factory) {
        let mut component = self.component;
        component.resources = Resources {
            cpu_millis: self.cpu_millis.unwrap_or(defaults.cpu_millis),
            ram_bytes: self.ram_bytes.unwrap_or(defaults.ram_bytes),
            disk_bytes: self.disk_bytes.unwrap_or(defaults.disk_bytes),
        };
        (component, self.factory)
    }
}

fn default_resources(config: &Config) -> Resources {
    Resources {
        cpu_millis: config.millis(config::COMPONENT_CPU),
        ram_bytes: config.number(config::COMPONENT_RAM),
        disk_bytes: config.number(config::COMPONENT_DISK),
    }
}
