//! What a spout emits with.

use super::emitter::RootSource;
use super::{EmitError, Emitter, Fields, Payload, SpoutEmission, Target};
use crate::ledger::{Closed, Ledger, Outcome};
use crate::tuple::{Tuple, Value};
use egret_dataplane::frame::Root;
use std::collections::VecDeque;

/// Emits a spout's tuples. `Id` is the type of the ids that come back by [`Spout::ack`](crate::Spout::ack).
pub struct SpoutCollector<Id> {
    pub(crate) emitter: Emitter,
    source: Option<RootSource>,
    /// The ids of the trees in flight, by slot of the ledger.
    ids: Vec<Option<Id>>,
    /// How many were emitted with an id.
    begun: u64,
    /// Ids whose trees have ended, in order, not given to the spout: those that had to make room within a call of
    /// `next_tuple`, and in `ATMOST_ONCE` all that were emitted in it. After them come those of `closed` from
    /// `given` on.
    ended: VecDeque<(Id, Outcome)>,
    closed: Vec<Closed>,
    given: usize,
}

impl<Id> SpoutCollector<Id> {
    /// Over an emitter; the runtime and tests make it.
    #[must_use]
    pub fn new(emitter: Emitter) -> Self {
        let source = emitter.root_source();
        let (ids, ended, closed) = (Vec::new(), VecDeque::new(), Vec::new());
        Self { emitter, source, ids, begun: 0, ended, closed, given: 0 }
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
    #[inline]
    pub(super) fn emit_with_id(
        &mut self,
        payload: &impl Payload,
        target: Target<'_>,
        id: Id,
    ) -> Result<(), EmitError> {
        let Some(source) = &self.source else {
            self.emitter.emit(payload, target, &[])?;
            self.ended.push_back((id, Outcome::Acked));
            return Ok(());
        };
        self.begun += 1;
        let begun = source.ledger.borrow_mut().begin();
        let (spout, incarnation) = (source.spout, source.incarnation);
        let root = match begun {
            Some(id) => Root { spout, incarnation, id },
            None => Root { spout, incarnation, id: self.wait_for_room()? },
        };
        self.keep(root.id, id);
        let emitted = self.emitter.emit(payload, target, std::slice::from_ref(&root));
        self.emitted(root.id, emitted)
    }

    #[inline]
    fn keep(&mut self, root: u64, id: Id) {
        let slot = Ledger::slot_of(root);
        if slot >= self.ids.len() {
            // The ledger adds one slot at a time.
            self.ids.resize_with(slot + 1, || None);
        }
        self.ids[slot] = Some(id);
    }

    #[inline]
    fn emitted(&mut self, root: u64, emitted: Result<u64, EmitError>) -> Result<(), EmitError> {
        let Some(source) = &self.source else { return emitted.map(drop) };
        match emitted {
            Ok(edges) => {
                source.ledger.borrow_mut().commit(root, edges);
                Ok(())
            }
            Err(error) => {
                source.ledger.borrow_mut().abandon(root);
                self.ids[Ledger::slot_of(root)] = None;
                Err(error)
            }
        }
    }

    /// As many trees are in flight as may be, within one call of `next_tuple`. Those that end meanwhile are put aside.
    #[cold]
    fn wait_for_room(&mut self) -> Result<u64, EmitError> {
        loop {
            while let Some(ended) = self.next_closed() {
                self.ended.push_back(ended);
            }
            if let Some(root) = self.source.as_ref().and_then(|s| s.ledger.borrow_mut().begin()) {
                return Ok(root);
            }
            self.emitter.flush();
            self.emitter.outlet().wait_for_closed()?;
        }
    }

    #[inline]
    fn next_closed(&mut self) -> Option<(Id, Outcome)> {
        loop {
            while let Some(closed) = self.closed.get(self.given) {
                self.given += 1;
                // An id was kept for each root; without it there is nobody to tell.
                if let Some(id) = self.ids.get_mut(closed.slot()).and_then(Option::take) {
                    return Some((id, closed.outcome()));
                }
            }
            self.closed.clear();
            self.given = 0;
            if !self.source.as_ref()?.ledger.borrow_mut().take_closed(&mut self.closed) {
                return None;
            }
        }
    }

    /// Whether there is an id to give to the spout.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        !self.ended.is_empty()
            || !self.closed.is_empty()
            || self.source.as_ref().is_some_and(|source| source.ledger.borrow().has_closed())
    }

    /// The next id to give to the spout, counted. To be called when no call of the spout is under way: only then has it
    /// noted the ids that it emitted (STORM-2957).
    #[inline]
    pub(crate) fn next_ended(&mut self) -> Option<(Id, Outcome)> {
        let ended = match self.ended.pop_front() {
            Some(ended) => Some(ended),
            None => self.next_closed(),
        };
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
