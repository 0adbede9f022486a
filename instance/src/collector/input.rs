//! The tuples that a bolt executes.

use super::{Held, StreamInfo, Tie};
use crate::tuple::{Row, Tuple, TupleError};
use egret_dataplane::frame::{BatchReader, FRESH, Malformed, Roots, Tuples, edge};
use egret_dataplane::ids::{ComponentIndex, StreamIndex, TaskId};
use egret_dataplane::plan::{Topology, config};

/// A tuple to execute. It lies in a block of shared memory and is read there.
pub struct Input<'a> {
    stream: &'a StreamInfo,
    source: TaskId,
    bytes: &'a [u8],
    tie: &'a Tie,
}

impl<'a> Input<'a> {
    /// The tuple as a `T`, borrowing from the block.
    ///
    /// # Errors
    /// [`TupleError`] when the stream carries other fields, or the tuple is damaged.
    #[inline]
    pub fn get<T: Tuple>(&self) -> Result<T::View<'a>, TupleError> {
        self.stream.check_read::<T>()?;
        T::read(self.bytes)
    }

    /// The tuple as a row, for components that take whatever they get.
    ///
    /// # Errors
    /// [`TupleError::Corrupt`] when it is too short for its fields.
    #[inline]
    pub fn row(&self) -> Result<Row<'a>, TupleError> {
        Row::new(self.stream.layout(), self.bytes)
    }

    /// The component and the task that emitted it.
    #[must_use]
    pub fn source(&self) -> (&'a str, TaskId) {
        (self.stream.component(), self.source)
    }

    /// Whether this component emitted it.
    #[must_use]
    pub fn is_from(&self, component: &str) -> bool {
        self.stream.component() == component
    }

    /// The name of the stream it came on.
    #[must_use]
    pub fn stream(&self) -> &'a str {
        self.stream.name()
    }

    /// Its archive.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Takes over the input for later: from now on the [`Held`] is what is acked or failed; an ack or fail of the input
    /// itself does nothing. What was anchored on it so far is part of that.
    #[must_use = "an input that is neither acked nor failed times out"]
    pub fn hold(&self) -> Held {
        Held::new(self.tie.take())
    }

    #[inline]
    pub(super) fn own_tie(&self) -> &Tie {
        self.tie
    }
}

/// Why a block is not executed.
#[derive(thiserror::Error, Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputError {
    /// It is no batch.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The task does not read what it holds.
    #[error("a block of task {source_task}, stream number {stream}, came to a task that does not read it")]
    NotRead {
        /// Who emitted it.
        source_task: TaskId,
        /// On which of its streams.
        stream: StreamIndex,
    },
}

/// The streams that a bolt reads.
pub struct InputTable {
    topology: Topology,
    task: TaskId,
    /// Whether tuples may belong to trees.
    is_tracking: bool,
    streams: Vec<(ComponentIndex, StreamIndex, StreamInfo)>,
}

impl InputTable {
    /// The inputs of a task; none for an unknown task or a spout.
    #[must_use]
    pub fn new(topology: &Topology, task: TaskId) -> Self {
        let inputs =
            topology.component_of(task).map(|(c, _)| topology.components[c.0 as usize].inputs.as_slice());
        let resolve = |input: &egret_dataplane::plan::Input| {
            let from = topology.component(&input.from)?;
            let component = &topology.components[from.0 as usize];
            let stream = component.stream(&input.stream)?;
            Some((from, stream, StreamInfo::new(&component.id, &component.outputs[stream.0 as usize])))
        };
        let streams = inputs.unwrap_or_default().iter().filter_map(resolve).collect();
        let is_tracking = topology.config.is(config::RELIABILITY_MODE, "ATLEAST_ONCE");
        Self { topology: topology.clone(), task, is_tracking, streams }
    }

    /// The tuples of a block.
    ///
    /// # Errors
    /// [`InputError`] when it is no batch, or none that this task reads.
    pub fn open<'a>(&'a self, bytes: &'a [u8]) -> Result<InputBlock<'a>, InputError> {
        let reader = BatchReader::new(bytes)?;
        let header = reader.header();
        let component = self.topology.component_of(header.source).map(|(component, _)| component);
        let known = |(c, s, _): &&(ComponentIndex, StreamIndex, StreamInfo)| {
            (Some(*c), *s) == (component, header.stream)
        };
        match self.streams.iter().find(known) {
            Some((_, _, stream)) => Ok(InputBlock {
                stream,
                source: header.source,
                tuples: if self.is_tracking { reader.tuples() } else { reader.tuples().without_roots() },
                edge_base: header.edge_base,
                task: self.task,
                fresh_edge: edge(header.edge_base, FRESH, self.task),
                at_hand: Tie::default(),
            }),
            None => Err(InputError::NotRead { source_task: header.source, stream: header.stream }),
        }
    }
}

/// Walks the tuples of a block. After an error in user code the walk may go on with the next tuple.
pub struct InputBlock<'a> {
    stream: &'a StreamInfo,
    source: TaskId,
    tuples: Tuples<'a>,
    edge_base: u64,
    /// The task that gets it.
    task: TaskId,
    /// The edge of each tuple that is fresh.
    fresh_edge: u64,
    /// How the tuple at hand is tied; the next one's replaces it.
    at_hand: Tie,
}

impl InputBlock<'_> {
    /// The tuple at hand, which is the next one.
    #[inline(always)]
    pub(crate) fn next_input(&mut self) -> Result<Option<Input<'_>>, Malformed> {
        self.at_hand.reset();
        match self.tuples.next() {
            Some(Ok(tuple)) => {
                match tuple.roots {
                    Roots::None => {}
                    Roots::One(root) if tuple.place == FRESH => {
                        self.at_hand.tie_to_one(root, self.fresh_edge);
                    }
                    roots => self.at_hand.tie_to(roots, tuple.edge(self.edge_base, self.task)),
                }
                let (bytes, tie) = (tuple.archive, &self.at_hand);
                Ok(Some(Input { stream: self.stream, source: self.source, bytes, tie }))
            }
            Some(Err(error)) => Err(error),
            None => Ok(None),
        }
    }

    /// How many of the tuples so far the bolt keeps, by way of [`Input::hold`], of those that belong to trees.
    #[must_use]
    pub fn kept(&self) -> u32 {
        self.at_hand.kept()
    }

    /// How the tuple at hand is tied.
    pub(super) fn at_hand(&self) -> &Tie {
        &self.at_hand
    }
}
