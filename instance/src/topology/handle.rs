//! Handles by which a component just added is described further.

use super::CustomGrouping;
use super::builder::Part;
use crate::grouping::Targets;
use crate::tuple::Tuple;
use egret_dataplane::ids::ComponentIndex;
use egret_dataplane::plan::topology::DEFAULT_STREAM;
use egret_dataplane::plan::{Grouping, Input, Schema, Stream};
use std::sync::Arc;

/// Describes a spout.
pub struct SpoutHandle<'t> {
    part: &'t mut Part,
}

/// Describes a bolt: what it reads and how, and what it emits.
///
/// Each grouping has a form with `_on` that reads a stream other than the default one.
pub struct BoltHandle<'t> {
    part: &'t mut Part,
    index: ComponentIndex,
    customs: &'t mut Vec<CustomGrouping>,
}

macro_rules! outputs_and_resources {
    ($handle:ident) => {
        impl $handle<'_> {
            /// Declares the default stream, with the fields of `T`.
            pub fn emits<T: Tuple>(self) -> Self {
                self.emits_schema(DEFAULT_STREAM, T::schema())
            }

            /// Declares a stream of this name, with the fields of `T`.
            pub fn emits_on<T: Tuple>(self, stream: &str) -> Self {
                self.emits_schema(stream, T::schema())
            }

            /// Declares a stream whose fields are known at run time only.
            pub fn emits_schema(self, stream: &str, schema: Schema) -> Self {
                self.part.component.outputs.push(Stream { name: stream.to_owned(), schema });
                self
            }

            /// Sets an entry of the configuration for this component alone: one of
            /// [`COMPONENT_KEYS`](egret_dataplane::plan::config::COMPONENT_KEYS). A wrong one is reported when the
            /// topology is built.
            pub fn config(self, key: &str, value: impl std::fmt::Display) -> Self {
                let set = self.part.component.config.set_of_component(key, &value.to_string());
                self.part.config_problems.extend(set.err());
                self
            }

            /// The memory that each task is counted with, in bytes.
            pub fn ram_bytes(self, bytes: u64) -> Self {
                self.part.ram_bytes = Some(bytes);
                self
            }

            /// The processor time that each task is counted with, in thousandths of a core.
            pub fn cpu_millis(self, millis: u64) -> Self {
                self.part.cpu_millis = Some(millis);
                self
            }

            /// The disk that each task is counted with, in bytes.
            pub fn disk_bytes(self, bytes: u64) -> Self {
                self.part.disk_bytes = Some(bytes);
                self
            }
        }
    };
}

outputs_and_resources!(SpoutHandle);
outputs_and_resources!(BoltHandle);

impl<'t> SpoutHandle<'t> {
    pub(super) fn new(part: &'t mut Part) -> Self {
        Self { part }
    }
}

macro_rules! plain_groupings {
    ($($(#[doc = $doc:literal])* $name:ident, $name_on:ident => $grouping:ident;)*) => {
        impl BoltHandle<'_> {$(
            $(#[doc = $doc])*
            pub fn $name(self, from: &str) -> Self {
                self.reads(from, DEFAULT_STREAM, Grouping::$grouping)
            }

            #[doc = concat!("As [`", stringify!($name), "`](Self::", stringify!($name), "), from the stream of this name.")]
            pub fn $name_on(self, from: &str, stream: &str) -> Self {
                self.reads(from, stream, Grouping::$grouping)
            }
        )*}
    };
}

plain_groupings! {
    /// Reads `from`, its tuples spread evenly over the tasks.
    shuffle, shuffle_on => Shuffle;
    /// Reads `from`, its tuples spread evenly over the tasks in the emitter's container, or over all if there are none.
    local_or_shuffle, local_or_shuffle_on => LocalOrShuffle;
    /// Reads `from`, every tuple on every task.
    all, all_on => All;
    /// Reads `from`, every tuple on the task with the lowest id.
    global, global_on => Global;
    /// Reads `from`, with no preference.
    none, none_on => None;
    /// Reads `from`, which names the task for each tuple.
    direct, direct_on => Direct;
}

macro_rules! key_groupings {
    ($($(#[doc = $doc:literal])* $name:ident, $name_on:ident => $grouping:ident;)*) => {
        impl BoltHandle<'_> {$(
            $(#[doc = $doc])*
            pub fn $name<S: Into<String>>(self, from: &str, key: impl IntoIterator<Item = S>) -> Self {
                self.$name_on(from, DEFAULT_STREAM, key)
            }

            #[doc = concat!("As [`", stringify!($name), "`](Self::", stringify!($name), "), from the stream of this name.")]
            pub fn $name_on<S: Into<String>>(
                self,
                from: &str,
                stream: &str,
                key: impl IntoIterator<Item = S>,
            ) -> Self {
                let key = key.into_iter().map(Into::into).collect();
                self.reads(from, stream, Grouping::$grouping(key))
            }
        )*}
    };
}

key_groupings! {
    /// Reads `from`, tuples whose fields of these names are equal on the same task.
    fields, fields_on => Fields;
    /// Reads `from`, tuples whose fields of these names are equal on two tasks, evenly.
    partial_key, partial_key_on => PartialKey;
}

impl<'t> BoltHandle<'t> {
    pub(super) fn new(
        part: &'t mut Part,
        index: ComponentIndex,
        customs: &'t mut Vec<CustomGrouping>,
    ) -> Self {
        Self { part, index, customs }
    }

    /// Reads `from`, each tuple on the tasks that the function chooses.
    ///
    /// ```
    /// # use egret::TopologyBuilder;
    /// # fn wire(bolt: egret::topology::BoltHandle<'_>) {
    /// bolt.custom("numbers", |tuple| {
    ///     let n = tuple.field("n").and_then(|n| n.as_u64()).unwrap_or(0);
    ///     tuple.choose(n as usize % tuple.count());
    /// });
    /// # }
    /// ```
    pub fn custom(self, from: &str, choose: impl Fn(&mut Targets<'_>) + Send + Sync + 'static) -> Self {
        self.custom_on(from, DEFAULT_STREAM, choose)
    }

    /// As [`custom`](Self::custom), from the stream of this name.
    pub fn custom_on(
        self,
        from: &str,
        stream: &str,
        choose: impl Fn(&mut Targets<'_>) + Send + Sync + 'static,
    ) -> Self {
        let input = self.part.component.inputs.len();
        self.customs.push(CustomGrouping { reader: self.index, input, function: Arc::new(choose) });
        self.reads(from, stream, Grouping::Custom)
    }

    fn reads(self, from: &str, stream: &str, grouping: Grouping) -> Self {
        let (from, stream) = (from.to_owned(), stream.to_owned());
        self.part.component.inputs.push(Input { from, stream, grouping });
        self
    }
}
