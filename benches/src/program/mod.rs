//! The topology that most suites run: one kind of spout, one kind of bolt. This program is its own topology program.
//!
//! Per tuple the two do what the stages of [`floors::row`](crate::floors::row) do: the spout writes a number and a payload, the bolt reads
//! every byte of them.

mod sink;
mod source;

use anyhow::Result;
use egret::{TopologyBuilder, Tuple};
use serde::{Deserialize, Serialize};
use sink::Sink;
use source::Source;
use std::path::PathBuf;

/// The name of the spout.
pub const SOURCE: &str = "source";
/// The name of the bolt.
pub const SINK: &str = "sink";
/// Bytes of a tuple besides its payload.
pub const NUMBER_BYTES: usize = 8;

/// What flows.
#[derive(Tuple, Clone, Copy, Debug)]
pub struct Item<'a> {
    /// Its number, or the time at which it was to be emitted, in nanoseconds of the [clock](crate::clock).
    pub n: u64,
    /// As many bytes as were asked for.
    pub payload: &'a [u8],
}

/// A topology.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    /// Its name.
    pub name: String,
    /// Tasks of the spout.
    pub sources: u32,
    /// Tasks of the bolt.
    pub sinks: u32,
    /// Who gets a tuple.
    pub grouping: Grouping,
    /// What is emitted.
    pub load: Load,
    /// Bytes of each tuple's payload.
    pub payload_bytes: usize,
    /// Where the bolt, which then has one task, logs what each tuple took.
    pub latencies: Option<PathBuf>,
}

/// Who gets a tuple.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Grouping {
    /// One task in turn.
    Shuffle,
    /// One task of the emitter's container in turn.
    Local,
    /// All tasks.
    All,
}

/// What is emitted.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Load {
    /// So many tuples over all tasks, as fast as possible.
    Count(u64),
    /// So many tuples over all tasks, at this many per second whatever the topology does: an open loop.
    Paced(u64, f64),
    /// Nothing for so many seconds.
    Idle(f64),
}

impl Spec {
    /// One spout task, one bolt task and so many tuples.
    #[must_use]
    pub fn row(name: &str, tuples: u64, tuple_bytes: usize) -> Self {
        Self {
            name: name.to_owned(),
            sources: 1,
            sinks: 1,
            grouping: Grouping::Shuffle,
            load: Load::Count(tuples),
            payload_bytes: tuple_bytes.saturating_sub(NUMBER_BYTES),
            latencies: None,
        }
    }

    /// As an argument for this program.
    ///
    /// # Errors
    /// When a path in it is not UTF-8.
    pub fn to_arg(&self) -> Result<String> {
        Ok(serde_json::to_string(self)?)
    }

    /// Its components.
    #[must_use]
    pub fn builder(self) -> TopologyBuilder {
        let mut topology = TopologyBuilder::new(&self.name);
        let (load, payload_bytes) = (self.load, self.payload_bytes);
        topology.spout(SOURCE, self.sources, move || Source::new(load, payload_bytes)).emits::<Item>();
        let latencies = self.latencies;
        let sink = topology.bolt(SINK, self.sinks, move || Sink::new(latencies.clone()));
        match self.grouping {
            Grouping::Shuffle => sink.shuffle(SOURCE),
            Grouping::Local => sink.local_or_shuffle(SOURCE),
            Grouping::All => sink.all(SOURCE),
        };
        topology
    }
}
