//! The logical topology: what the user wired, with nothing about processes or hosts.

use super::Config;
use crate::ids::{ComponentIndex, StreamIndex, TaskId};
use rkyv::{Archive, Deserialize, Serialize};
use std::ops::Range;

/// The stream that a component emits on when it names none.
pub const DEFAULT_STREAM: &str = "default";

/// A named set of components, wired by the streams they read.
#[derive(Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq)]
pub struct Topology {
    /// The name, unique in its cluster: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Every `config:` entry that was set, under its full name.
    pub config: Config,
    /// Spouts and bolts in the order of their definition, which also numbers the tasks.
    pub components: Vec<Component>,
    /// What an executor starts for each instance.
    pub program: Program,
}

/// The executable that runs the instances of a topology.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq, Eq,
)]
pub enum Program {
    /// The components are built in: `egret instance` runs them.
    Builtin,
    /// A program that links the library.
    Linked(LinkedProgram),
}

/// A user's executable.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq, Eq,
)]
pub struct LinkedProgram {
    /// Its absolute path.
    pub path: String,
    /// The arguments it was given, which it gets again in every instance.
    pub args: Vec<String>,
}

/// A spout or a bolt.
#[derive(Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq)]
pub struct Component {
    /// The name, unique in its topology.
    pub id: String,
    /// Spout or bolt.
    pub role: Role,
    /// How many tasks run it; at least 1.
    pub parallelism: u32,
    /// The built-in type (`file-lines`), or the Rust type's name for a linked program.
    pub kind: String,
    /// The arguments of a built-in component, as JSON; `null` for a linked program.
    pub args: String,
    /// The streams it emits on, each with the fields of its tuples.
    pub outputs: Vec<Stream>,
    /// The streams it reads; empty for a spout.
    pub inputs: Vec<Input>,
    /// What each of its tasks needs.
    pub resources: Resources,
    /// What it has for itself of [`COMPONENT_KEYS`](super::config::COMPONENT_KEYS).
    #[serde(default)]
    pub config: Config,
}

/// What kind of component it is.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Copy, Debug, PartialEq, Eq,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Brings tuples into the topology.
    Spout,
    /// Executes tuples of other components.
    Bolt,
}

/// An output stream.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq, Eq,
)]
pub struct Stream {
    /// The name, unique in its component.
    pub name: String,
    /// The fields of its tuples, in order.
    pub schema: Schema,
}

/// The fields of a tuple type, in order.
#[derive(
    Archive,
    Serialize,
    Deserialize,
    serde::Serialize,
    serde::Deserialize,
    Clone,
    Debug,
    PartialEq,
    Eq,
    Default,
)]
#[serde(transparent)]
pub struct Schema {
    /// The fields.
    pub fields: Vec<Field>,
}

/// One field of a tuple type.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq, Eq,
)]
pub struct Field {
    /// The name, unique in its schema.
    pub name: String,
    /// The type.
    pub kind: FieldKind,
}

/// The type of a field.
#[allow(missing_docs)]
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Copy, Debug, PartialEq, Eq,
)]
#[serde(rename_all = "lowercase")]
pub enum FieldKind {
    Bool,
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F32,
    F64,
    Str,
    Bytes,
}

/// A stream that a bolt reads, and how its tuples are spread over the bolt's tasks.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq, Eq,
)]
pub struct Input {
    /// The id of the component that emits.
    pub from: String,
    /// The stream's name.
    pub stream: String,
    /// How a task is chosen for each tuple.
    pub grouping: Grouping,
}

/// How the emitter chooses the task that gets a tuple.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq, Eq,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE", tag = "type", content = "args")]
pub enum Grouping {
    /// Round robin from a random first task.
    Shuffle,
    /// As shuffle, over the tasks in the emitter's own container if there are any.
    LocalOrShuffle,
    /// By a stable hash of these fields.
    Fields(Vec<String>),
    /// The less loaded of the two tasks that two hashes of these fields name.
    PartialKey(Vec<String>),
    /// Every task.
    All,
    /// The task with the lowest id.
    Global,
    /// No preference; done as shuffle.
    None,
    /// The emitter names the task.
    Direct,
    /// A function of the linked program chooses.
    Custom,
}

/// What a task or a container needs or offers.
#[derive(
    Archive,
    Serialize,
    Deserialize,
    serde::Serialize,
    serde::Deserialize,
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Default,
)]
pub struct Resources {
    /// Thousandths of a core.
    pub cpu_millis: u64,
    /// Memory in bytes.
    pub ram_bytes: u64,
    /// Disk in bytes.
    pub disk_bytes: u64,
}

impl Schema {
    /// The position of the field called `name`.
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|f| f.name == name)
    }
}

impl Component {
    /// The position of the output stream called `name`.
    #[must_use]
    pub fn stream(&self, name: &str) -> Option<StreamIndex> {
        self.outputs.iter().position(|s| s.name == name).map(|i| StreamIndex(i as u16))
    }
}

impl Topology {
    /// The position of the component called `id`.
    #[must_use]
    pub fn component(&self, id: &str) -> Option<ComponentIndex> {
        self.components.iter().position(|c| c.id == id).map(|i| ComponentIndex(i as u16))
    }

    /// The tasks of a component: a dense range of ids.
    ///
    /// # Panics
    /// When `component` is not one of this topology.
    #[must_use]
    pub fn tasks(&self, component: ComponentIndex) -> Range<u32> {
        let before: u32 = self.components[..component.0 as usize].iter().map(|c| c.parallelism).sum();
        let first = before + 1;
        first..first + self.components[component.0 as usize].parallelism
    }

    /// How many tasks there are; their ids are `1..=task_count()`.
    #[must_use]
    pub fn task_count(&self) -> u32 {
        self.components.iter().map(|c| c.parallelism).sum()
    }

    /// The component that `task` runs and its index among that component's tasks, or `None` for an unknown task.
    #[must_use]
    pub fn component_of(&self, task: TaskId) -> Option<(ComponentIndex, u32)> {
        let mut index = task.0.checked_sub(1)?;
        for (i, component) in self.components.iter().enumerate() {
            if index < component.parallelism {
                return Some((ComponentIndex(i as u16), index));
            }
            index -= component.parallelism;
        }
        None
    }

    /// How many bytes a second each task of a component may emit, if that is limited.
    #[must_use]
    pub fn output_bps(&self, component: ComponentIndex) -> Option<u64> {
        let mut config = self.config.clone();
        config.overlay(&self.components[component.0 as usize].config);
        Some(config.number(super::config::OUTPUT_BPS)).filter(|&limit| limit > 0)
    }

    /// The bolts that read something `component` emits, each once, in order.
    #[must_use]
    pub fn readers(&self, component: ComponentIndex) -> Vec<ComponentIndex> {
        let id = &self.components[component.0 as usize].id;
        let reads = |c: &Component| c.inputs.iter().any(|input| input.from == *id);
        let all = self.components.iter().enumerate();
        all.filter(|(_, c)| reads(c)).map(|(i, _)| ComponentIndex(i as u16)).collect()
    }

    /// The components whose output `component` reads, each once, in order.
    #[must_use]
    pub fn upstream(&self, component: ComponentIndex) -> Vec<ComponentIndex> {
        let inputs = &self.components[component.0 as usize].inputs;
        let mut found: Vec<_> = inputs.iter().filter_map(|input| self.component(&input.from)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}
