//! What a spout emits with.

use super::emitter::RootSource;
use super::{EmitError, Emitter, Fields, Payload, Rooted, SpoutEmission, Target};
use crate::ledger::{Closed, Ledger, Outcome};
use crate::tuple::{Tuple, Value};
use egret_dataplane::frame::Root;
use egret_dataplane::ids::{Incarnation, TaskId};
use std::collections::VecDeque;

/// Emits a spout's tuples. `Id` is the type of the ids that come back by [`Spout::ack`](crate::Spout::ack).
pub struct SpoutCollector<Id> {
    pub(crate) emitter: Emitter,
    source: Option<RootSource>,
    /// The ids of the trees in flight, by slot of the ledger.
    ids: Vec<Option<Id>>,
    /// How many were emitted with an id.
    begun: u64,
    /// The root that is being emitted. Found outside of an emission, that one ended in a panic.
    emitting: Option<u64>,
    /// Ids whose trees have ended, in order, not given to the spout: those that had to make room within a call of
    /// `next_tuple`, and in `ATMOST_ONCE` all that were emitted in it.
    ended: VecDeque<(Id, Outcome)>,
    /// Memory for what the ledger hands out.
    closed: Vec<Closed>,
}

impl<Id> SpoutCollector<Id> {
    /// Over an emitter; the runtime and tests make it.
    #[must_use]
    pub fn new(emitter: Emitter) -> Self {
        let source = emitter.root_source();
        let (ids, ended, closed) = (Vec::new(), VecDeque::new(), Vec::new());
        Self { emitter, source, ids, begun: 0, emitting: None, ended, closed }
    }

    /// Begins to emit a tuple.
    #[inline]
    pub fn emit<'c, T: Tuple>(&'c mut self, tuple: &'c T) -> SpoutEmission<'c, Id, &'c T> {
        SpoutEmission::new(self, tuple)
    }

    /// Begins to emit a tuple whose fields are known at run time only: one value for each of the stream.
    #[inline]
    pub fn emit_values<'c>(&'c mut self, values: &'c [Value<'c>]) -> SpoutEmission<'c, Id, Fields<'c>> {
        SpoutEmission::new(self, Fields(values))
    }

    /// The emitter below.
    pub fn emitter(&mut self) -> &mut Emitter {
        &mut self.emitter
    }

    /// Emits the root of a tree. Without a ledger its id is acked as soon as it may be.
    #[inline(always)]
    pub(super) fn emit_with_id(
        &mut self,
        payload: &impl Payload,
        target: Target<'_>,
        id: Id,
    ) -> Result<(), EmitError> {
        let root = match &self.source {
            Some(source) => Some(self.begin(source.spout, source.incarnation)?),
            None => None,
        };
        let emitted = self.emitter.emit(payload, target, root.map_or(Rooted::No, Rooted::In));
        match root {
            Some(root) => self.end(root, emitted, id),
            None => emitted.map(|_| self.ended.push_back((id, Outcome::Acked))),
        }
    }

    #[inline(always)]
    fn begin(&mut self, spout: TaskId, incarnation: Incarnation) -> Result<Root, EmitError> {
        let begun = self.source.as_ref().and_then(|source| source.ledger.borrow_mut().begin());
        let id = match begun {
            Some(id) => id,
            None => self.wait_for_room()?,
        };
        self.emitting = Some(id);
        Ok(Root { spout, incarnation, id })
    }

    /// The root was emitted, or not.
    #[inline(always)]
    fn end(&mut self, root: Root, emitted: Result<u64, EmitError>, id: Id) -> Result<(), EmitError> {
        self.emitting = None;
        let Some(source) = &self.source else { return Ok(()) };
        let mut ledger = source.ledger.borrow_mut();
        match emitted {
            Ok(edges) => {
                ledger.commit(root.id, edges);
                let slot = Ledger::slot_of(root.id);
                if slot >= self.ids.len() {
                    // The ledger adds one slot at a time.
                    self.ids.resize_with(slot + 1, || None);
                }
                self.ids[slot] = Some(id);
                self.begun += 1;
                Ok(())
            }
            Err(error) => {
                ledger.abandon(root.id);
                Err(error)
            }
        }
    }

    /// As many trees are in flight as may be, within one call of `next_tuple`. Those that end meanwhile are put aside.
    #[cold]
    fn wait_for_room(&mut self) -> Result<u64, EmitError> {
        loop {
            self.collect();
            if let Some(root) = self.source.as_ref().and_then(|s| s.ledger.borrow_mut().begin()) {
                return Ok(root);
            }
            self.emitter.flush();
            self.emitter.outlet().wait_for_closed()?;
        }
    }

    /// Fetches the ids of the trees that have ended; whether there are any. All at once, so that the processor waits for
    /// many of them at a time: they lie where they were put long ago.
    #[inline]
    fn collect(&mut self) -> bool {
        let Some(source) = &self.source else { return false };
        if let Some(root) = self.emitting.take() {
            source.ledger.borrow_mut().abandon(root);
        }
        if !source.ledger.borrow_mut().take_closed(&mut self.closed) {
            return false;
        }
        for closed in self.closed.drain(..) {
            // An id was kept for each root; without it there is nobody to tell.
            let id = self.ids.get_mut(closed.slot()).and_then(Option::take);
            self.ended.extend(id.map(|id| (id, closed.outcome())));
        }
        true
    }

    /// Whether there is an id to give to the spout.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        !self.ended.is_empty()
            || self.source.as_ref().is_some_and(|source| source.ledger.borrow().has_closed())
    }

    /// The next id to give to the spout, counted. To be called when no call of the spout is under way: only then has it
    /// noted the ids that it emitted (STORM-2957).
    #[inline]
    pub(crate) fn next_ended(&mut self) -> Option<(Id, Outcome)> {
        let mut ended = self.ended.pop_front();
        if ended.is_none() && self.collect() {
            ended = self.ended.pop_front();
        }
        if let Some((_, outcome)) = &ended {
            let counters = &mut self.emitter.counters;
            match outcome {
                Outcome::Acked => counters.acked += 1,
                Outcome::Failed => counters.failed += 1,
                Outcome::TimedOut => counters.timed_out += 1,
            }
        }
        ended
    }

    /// How many were emitted with an id so far.
    #[inline]
    pub(crate) fn begun(&self) -> u64 {
        self.begun
    }

    /// How many may be emitted with an id before as many trees are in flight as may be.
    #[inline]
    pub(crate) fn room(&self) -> u64 {
        self.source.as_ref().map_or(u64::MAX, |source| u64::from(source.ledger.borrow().room()))
    }
}
