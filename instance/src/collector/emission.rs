//! An emission being described: the call that ends the chain emits.

use super::{Anchor, BoltCollector, InNone, Payload, SpoutCollector, Target};
use crate::Result;
use egret_dataplane::ids::TaskId;

/// A tuple that a bolt is about to emit; [`anchor`](Self::anchor), [`anchors`](Self::anchors) or
/// [`unanchored`](Self::unanchored) emits it.
#[must_use = "the tuple is emitted by `.anchor(input)`, `.anchors(&[..])` or `.unanchored()`"]
pub struct BoltEmission<'c, P> {
    collector: &'c mut BoltCollector,
    payload: P,
    target: Target<'c>,
}

impl<'c, P: Payload> BoltEmission<'c, P> {
    #[inline]
    pub(super) fn new(collector: &'c mut BoltCollector, payload: P) -> Self {
        Self { collector, payload, target: Target::default() }
    }

    /// Emits on this stream instead of the default one.
    #[inline]
    pub fn on(mut self, stream: &'c str) -> Self {
        self.target.stream = Some(stream);
        self
    }

    /// Emits to this task only, which must read the stream by direct grouping.
    #[inline]
    pub fn direct(mut self, task: TaskId) -> Self {
        self.target.direct = Some(task);
        self
    }

    /// Emits as part of the input's tuple tree: the tree is complete when this tuple is acked too.
    ///
    /// # Errors
    /// [`EmitError`](super::EmitError), as [`Error`](crate::Error).
    #[inline(always)]
    pub fn anchor(self, input: &impl Anchor) -> Result<()> {
        Ok(self.collector.emit_anchored(&self.payload, self.target, input)?)
    }

    /// Emits as part of the trees of several inputs: an [`Input`](crate::Input), or any number of
    /// [`Held`](crate::Held) ones.
    ///
    /// # Errors
    /// [`EmitError`](super::EmitError), as [`Error`](crate::Error).
    #[inline]
    pub fn anchors(self, inputs: &[&dyn Anchor]) -> Result<()> {
        Ok(self.collector.emit_joined(&self.payload, self.target, inputs)?)
    }

    /// Emits as part of no tree.
    ///
    /// # Errors
    /// [`EmitError`](super::EmitError), as [`Error`](crate::Error).
    #[inline(always)]
    pub fn unanchored(self) -> Result<()> {
        self.collector.emitter.emit(&self.payload, self.target, InNone)?;
        Ok(())
    }
}

/// A tuple that a spout is about to emit; [`id`](Self::id) or [`untracked`](Self::untracked) emits it.
#[must_use = "the tuple is emitted by `.id(id)` or `.untracked()`"]
pub struct SpoutEmission<'c, Id, P> {
    collector: &'c mut SpoutCollector<Id>,
    payload: P,
    target: Target<'c>,
}

impl<'c, Id, P: Payload> SpoutEmission<'c, Id, P> {
    #[inline]
    pub(super) fn new(collector: &'c mut SpoutCollector<Id>, payload: P) -> Self {
        Self { collector, payload, target: Target::default() }
    }

    /// Emits on this stream instead of the default one.
    #[inline]
    pub fn on(mut self, stream: &'c str) -> Self {
        self.target.stream = Some(stream);
        self
    }

    /// Emits to this task only, which must read the stream by direct grouping.
    #[inline]
    pub fn direct(mut self, task: TaskId) -> Self {
        self.target.direct = Some(task);
        self
    }

    /// Emits with an id that comes back by [`Spout::ack`](crate::Spout::ack) or
    /// [`Spout::fail`](crate::Spout::fail), never before [`Spout::next_tuple`](crate::Spout::next_tuple) has
    /// returned. In `ATMOST_ONCE` it is acked then. In `ATLEAST_ONCE` this waits while
    /// `topology.max.spout.pending` trees are in flight.
    ///
    /// # Errors
    /// [`EmitError`](super::EmitError), as [`Error`](crate::Error); the id does not come back then.
    #[inline(always)]
    pub fn id(self, id: Id) -> Result<()> {
        Ok(self.collector.emit_with_id(&self.payload, self.target, id)?)
    }

    /// Emits with an id that the collector numbers, in the order of emission; says which. For spouts that keep
    /// what they need of a tuple by themselves, and would only have a number for it.
    #[inline(always)]
    pub(crate) fn numbered(self) -> Result<u64>
    where
        Id: From<u64>,
    {
        Ok(self.collector.emit_numbered(&self.payload, self.target)?)
    }

    /// Emits without tracking.
    ///
    /// # Errors
    /// [`EmitError`](super::EmitError), as [`Error`](crate::Error).
    #[inline]
    pub fn untracked(self) -> Result<()> {
        self.collector.emitter.emit(&self.payload, self.target, InNone)?;
        Ok(())
    }
}
