//! What a spout emits with.

use super::acked::{Acked, Ids};
use super::emitter::RootSource;
use super::{EmitError, Emitter, Fields, InNone, Payload, Rooted, SpoutEmission, Target};
use crate::ledger::{Ended, Outcome};
use crate::topology::Spout;
use crate::tuple::{Tuple, Value};
use egret_dataplane::frame::Root;
use std::collections::VecDeque;

/// Emits a spout's tuples. `Id` is the type of the ids that come back by [`Spout::ack`](crate::Spout::ack).
pub struct SpoutCollector<Id> {
    pub(crate) emitter: Emitter,
    source: Option<RootSource>,
    ids: Ids<Id>,
    /// Trees that have ended and of which the spout is being told.
    telling: Ended,
    /// Whether one that it was told of has failed, since the last telling that came to its end.
    has_failed: bool,
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
        Self {
            emitter,
            source,
            ids: Ids::new(most),
            telling: Ended::NONE,
            has_failed: false,
            aside: VecDeque::new(),
        }
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
            self.emitter.emit(payload, target, InNone)?;
            self.aside.push_back((message, Outcome::Acked));
            return Ok(());
        };
        let root = source.front.next();
        let root = self.emit_root(payload, target, root)?;
        self.ids.put(root, message);
        Ok(())
    }

    /// As [`emit_with_id`](Self::emit_with_id), with the number of the root as its id.
    #[inline(always)]
    pub(super) fn emit_numbered(
        &mut self,
        payload: &impl Payload,
        target: Target<'_>,
    ) -> Result<u64, EmitError>
    where
        Id: From<u64>,
    {
        self.ids.are_numbers();
        let Some(source) = &self.source else {
            let number = self.emitter.counters.emitted;
            self.emitter.emit(payload, target, InNone)?;
            self.aside.push_back((number.into(), Outcome::Acked));
            return Ok(number);
        };
        let root = source.front.next();
        self.emit_root(payload, target, root)
    }

    /// Emits this root, or the next one that the ledger grants; says which.
    #[inline(always)]
    fn emit_root(
        &mut self,
        payload: &impl Payload,
        target: Target<'_>,
        root: Option<u64>,
    ) -> Result<u64, EmitError> {
        let root = match root {
            Some(root) => root,
            None => self.next_granted()?,
        };
        let Some(source) = &self.source else { return Ok(root) };
        let emitting = Emitting { source, id: root };
        let unless_emitted = Abandon(emitting);
        let edges = self.emitter.emit(payload, target, emitting)?;
        std::mem::forget(unless_emitted);
        if !source.front.open(root, edges) {
            emitting.done(edges);
        }
        Ok(root)
    }

    /// The next root, which the ledger has not granted yet.
    #[inline(never)]
    fn next_granted(&mut self) -> Result<u64, EmitError> {
        match self.source.as_ref().and_then(|source| source.ledger.borrow_mut().next_id()) {
            Some(root) => Ok(root),
            None => self.wait_for_room(),
        }
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
        while let Some(mut ended) = ledger.next_ended() {
            let outcome = ended.outcome;
            let ids = std::iter::from_fn(|| self.ids.next_of(&mut ended));
            self.aside.extend(ids.map(|id| (id, outcome)));
        }
    }

    /// Whether there is an id to give to the spout.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        !self.aside.is_empty() || self.source.as_ref().is_some_and(|source| source.front.has_ended())
    }

    /// Tells the spout the ids of the trees that have ended, in order, and counts them; whether one has failed or timed out. To
    /// be called when no call of the spout is under way: only then has it noted the ids that it emitted (STORM-2957). When
    /// the spout panics the id at hand is gone, the others are not.
    #[inline]
    pub(crate) fn tell_ended(&mut self, spout: &mut impl Spout<Id = Id>) -> bool {
        let counters = &mut self.emitter.counters;
        while let Some((id, outcome)) = self.aside.pop_front() {
            counters.ended(outcome);
            if outcome == Outcome::Acked {
                spout.ack(id);
            } else {
                self.has_failed = true;
                spout.fail(id);
            }
        }
        let Some(source) = &self.source else { return std::mem::take(&mut self.has_failed) };
        let mut ledger = source.ledger.borrow_mut();
        loop {
            let outcome = self.telling.outcome;
            if self.telling.mask == 0 {
                let Some(next) = ledger.next_ended() else { return std::mem::take(&mut self.has_failed) };
                self.telling = next;
            } else if outcome == Outcome::Acked {
                let mut acked = Acked::new(&mut self.telling, &mut self.ids, &mut counters.acked);
                spout.ack_all(&mut acked);
                // What it did not ask for it is not told.
                acked.for_each(drop);
            } else if let Some(id) = self.ids.next_of(&mut self.telling) {
                self.has_failed = true;
                counters.ended(outcome);
                spout.fail(id);
            }
        }
    }

    /// Whether as many trees are in flight as may be.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        let is_full = |source: &RootSource| source.front.is_used_up() && source.ledger.borrow().is_full();
        self.source.as_ref().is_some_and(is_full)
    }
}

/// A root that is being emitted. The ledger knows of it only when the emission may have to wait.
// Two words, which are passed in registers.
#[derive(Clone, Copy)]
struct Emitting<'a> {
    source: &'a RootSource,
    id: u64,
}

impl Rooted for Emitting<'_> {
    #[inline(always)]
    fn only(&self) -> Option<Root> {
        Some(Root { id: self.id, ..self.source.root })
    }

    #[inline]
    fn before_waiting(&self) {
        if !self.is_begun() {
            self.source.ledger.borrow_mut().begin(self.id);
        }
    }
}

impl Emitting<'_> {
    /// Whether the ledger knows of it.
    #[inline]
    fn is_begun(self) -> bool {
        self.source.front.has_passed(self.id)
    }

    /// The root is emitted, with these edges, and not by way of the front.
    #[inline(never)]
    fn done(self, edges: u64) {
        let mut ledger = self.source.ledger.borrow_mut();
        if self.is_begun() {
            ledger.commit(self.id, edges);
        } else {
            ledger.open(self.id, edges);
        }
    }

    /// The root is not emitted after all.
    #[cold]
    fn abandon(self) {
        if self.is_begun() {
            self.source.ledger.borrow_mut().abandon(self.id);
        }
    }
}

/// Has the ledger forget a root that is not emitted, because of an error or a panic.
struct Abandon<'a>(Emitting<'a>);

impl Drop for Abandon<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.abandon();
    }
}
