//! What a spout emits with.

use super::emitter::RootSource;
use super::{EmitError, Emitter, Fields, InNone, Payload, Rooted, SpoutEmission, Target};
use crate::ledger::{Outcome, SharedLedger};
use crate::numbered::Numbered;
use crate::tuple::{Tuple, Value};
use egret_dataplane::frame::Root;
use std::cell::Cell;
use std::collections::VecDeque;

/// Emits a spout's tuples. `Id` is the type of the ids that come back by [`Spout::ack`](crate::Spout::ack).
pub struct SpoutCollector<Id> {
    pub(crate) emitter: Emitter,
    source: Option<RootSource>,
    /// The ids of the trees in flight, by the number of their root.
    ids: Numbered<Id>,
    /// Ids that the ledger has forgotten and the spout was not told of: those that had to make room within a call of
    /// `next_tuple`, and in `ATMOST_ONCE` all that were emitted in it.
    aside: VecDeque<(Id, Outcome)>,
}

impl<Id> SpoutCollector<Id> {
    /// Over an emitter; the runtime and tests make it.
    #[must_use]
    pub fn new(emitter: Emitter) -> Self {
        let source = emitter.root_source();
        let most = source.as_ref().map_or(0, |source| source.ledger.borrow().max_pending() as usize);
        Self { emitter, source, ids: Numbered::new(most), aside: VecDeque::new() }
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
        message: Id,
    ) -> Result<(), EmitError> {
        let Some(source) = &self.source else {
            self.emitter.emit(payload, target, &InNone)?;
            self.aside.push_back((message, Outcome::Acked));
            return Ok(());
        };
        let next = source.ledger.borrow_mut().next_id();
        let id = match next {
            Some(id) => id,
            None => self.wait_for_room()?,
        };
        self.emit_root(payload, target, id, message)
    }

    #[inline(always)]
    fn emit_root(
        &mut self,
        payload: &impl Payload,
        target: Target<'_>,
        root: u64,
        id: Id,
    ) -> Result<(), EmitError> {
        let Some(source) = &self.source else { return Ok(()) };
        let begun = Begun { ledger: &source.ledger, id: root, is: Cell::new(false) };
        let of_root = Root { id: root, ..source.root };
        let edges = self.emitter.emit(payload, target, &Emitting { root: of_root, begun: &begun })?;
        begun.done(edges);
        self.ids.push_as(root, id);
        Ok(())
    }

    /// As many trees are in flight as may be, within one call of `next_tuple`. Those that end meanwhile are put aside.
    #[cold]
    fn wait_for_room(&mut self) -> Result<u64, EmitError> {
        loop {
            self.put_aside();
            if let Some(root) = self.source.as_ref().and_then(|s| s.ledger.borrow_mut().next_id()) {
                return Ok(root);
            }
            self.emitter.flush();
            self.emitter.outlet().wait_for_closed()?;
        }
    }

    fn put_aside(&mut self) {
        let Some(source) = &self.source else { return };
        let mut ledger = source.ledger.borrow_mut();
        while let Some(ended) = ledger.next_ended() {
            self.aside.extend(self.ids.remove(ended.id).map(|id| (id, ended.outcome)));
        }
    }

    /// Whether there is an id to give to the spout.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        !self.aside.is_empty()
            || self.source.as_ref().is_some_and(|source| source.ledger.borrow().has_ended())
    }

    /// Tells the ids of the trees that have ended, in order, and counts them. To be called when no call of the spout is
    /// under way: only then has it noted the ids that it emitted (STORM-2957). When `tell` panics the id at hand is
    /// gone, the others are not.
    #[inline]
    pub(crate) fn tell_ended(&mut self, mut tell: impl FnMut(Id, Outcome)) {
        let counters = &mut self.emitter.counters;
        while let Some((id, outcome)) = self.aside.pop_front() {
            counters.ended(outcome);
            tell(id, outcome);
        }
        let Some(source) = &self.source else { return };
        let mut ledger = source.ledger.borrow_mut();
        while let Some(ended) = ledger.next_ended() {
            // An id was kept for each root; without it there is nobody to tell.
            if let Some(id) = self.ids.remove(ended.id) {
                counters.ended(ended.outcome);
                tell(id, ended.outcome);
            }
        }
    }

    /// Whether as many trees are in flight as may be.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.source.as_ref().is_some_and(|source| source.ledger.borrow().is_full())
    }
}

/// A root that is being emitted.
struct Emitting<'a> {
    root: Root,
    begun: &'a Begun<'a>,
}

impl Rooted for Emitting<'_> {
    #[inline(always)]
    fn only(&self) -> Option<Root> {
        Some(self.root)
    }

    fn before_waiting(&self) {
        if !self.begun.is.replace(true) {
            self.begun.ledger.borrow_mut().begin(self.root.id);
        }
    }
}

/// Whether the ledger knows of a root that is being emitted: only when the emission may have to wait. When it is not
/// emitted after all, because of an error or a panic, the ledger forgets it.
struct Begun<'a> {
    ledger: &'a SharedLedger,
    id: u64,
    is: Cell<bool>,
}

impl Begun<'_> {
    /// The root is emitted, with these edges.
    #[inline(always)]
    fn done(&self, edges: u64) {
        let mut ledger = self.ledger.borrow_mut();
        if self.is.replace(false) {
            ledger.commit(self.id, edges);
        } else {
            ledger.open(self.id, edges);
        }
    }
}

impl Drop for Begun<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.is.get() {
            self.ledger.borrow_mut().abandon(self.id);
        }
    }
}
