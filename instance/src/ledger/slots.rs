//! The roots in flight, in an array.
//!
//! ```text
//!  root id:  63                24          0
//!            | generation      | slot      |
//! ```
//!
//! A slot serves one root after the other, each with the next generation, so an id is never that of two roots (in 2^40
//! uses of a slot), and an ack that comes late, or twice, or for nothing finds another id in its slot and is left out.
//! A slot that is not in flight keeps its last id with the lowest bit turned over: that is an id of another slot, so
//! nothing can meet it.
//!
//! The life of a slot: free → [`open`](Ledger::open) → closed, when its tree is complete, fails or times out → handed out by
//! [`next_closed`](Ledger::next_closed) → free. While a root is being emitted acks may come for it already, if its emission
//! has to wait. Then [`begin`](Ledger::begin) and [`commit`](Ledger::commit) take the place of `open`: in between the value
//! holds a placeholder, so that acks do not complete it. Slots that are not in flight wait in one queue (`idle`), so
//! those of trees that end in order are used in order, and lie in the cache when they are.

use super::idle::Idle;
use super::latency::CompleteLatency;
use super::timeouts::Timeouts;
use super::window::Window;
use egret_dataplane::mutants::{self, Mutant};

const SLOT_BITS: u32 = 24;
const SLOT_MASK: u64 = (1 << SLOT_BITS) - 1;
const GENERATION: u64 = 1 << SLOT_BITS;
/// Turned over in the id of a slot that is not in flight.
const NOT_IN_FLIGHT: u64 = 1;
/// The value of a root that is being emitted: any odd number, as improbable as an xor of edges as any other.
const PLACEHOLDER: u64 = 0xd6e8_feb8_6659_fd93;
/// The stamp of a root that is being emitted.
const UNSTAMPED: u64 = u64::MAX;

/// What a ledger allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Roots in flight at most, from 1 to 2^24.
    pub max_pending: u32,
    /// What a tree may take at most, in microseconds.
    pub timeout_us: u64,
}

/// How a tree ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every tuple of it was acked.
    Acked,
    /// A tuple of it failed, or is known to be lost.
    Failed,
    /// It took too long.
    TimedOut,
}

/// A tree that ended: its slot, and how.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Closed(u32);

impl Closed {
    #[inline]
    pub(super) fn new(slot: usize, outcome: Outcome) -> Self {
        Self(slot as u32 | (outcome as u32) << SLOT_BITS)
    }

    /// Its slot.
    #[inline]
    #[must_use]
    pub fn slot(self) -> usize {
        Ledger::slot_of(u64::from(self.0))
    }

    /// How it ended.
    #[inline]
    #[must_use]
    pub fn outcome(self) -> Outcome {
        match self.0 >> SLOT_BITS {
            0 => Outcome::Acked,
            1 => Outcome::Failed,
            _ => Outcome::TimedOut,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    id: u64,
    value: u64,
    /// The beginning of the turn that emitted it, or the end if that was long.
    stamp_us: u64,
}

/// See the [module](self).
pub struct Ledger {
    /// As many as were ever in flight at once.
    slots: Vec<Slot>,
    /// Those that are not in flight.
    idle: Idle,
    max_pending: u32,
    /// When this turn began, and whether it has emitted a root.
    turn_us: u64,
    has_emitted: bool,
    /// When the acks came that are applied now.
    now_us: u64,
    /// Trees completed at `now_us` that all took `run_us`.
    run: u64,
    run_us: u64,
    timeouts: Timeouts,
    window: Window,
    latency: CompleteLatency,
}

impl Ledger {
    /// An empty ledger.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let max_pending = limits.max_pending.clamp(1, 1 << SLOT_BITS);
        Self {
            slots: Vec::new(),
            idle: Idle::default(),
            max_pending,
            turn_us: 0,
            has_emitted: false,
            now_us: 0,
            run: 0,
            run_us: 0,
            timeouts: Timeouts::new(limits.timeout_us),
            window: Window::new(max_pending, limits.timeout_us),
            latency: CompleteLatency::default(),
        }
    }

    /// The slot of a root.
    #[inline]
    #[must_use]
    pub fn slot_of(id: u64) -> usize {
        (id & SLOT_MASK) as usize
    }

    /// How many roots are in flight.
    #[inline]
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        (self.slots.len() - self.idle.len()) as u32
    }

    /// How many roots may be emitted now.
    #[inline]
    #[must_use]
    pub fn room(&self) -> u32 {
        let slots = self.idle.free() + self.max_pending as usize - self.slots.len();
        self.window.limit().saturating_sub(self.in_flight()).min(slots as u32)
    }

    /// The id of the root that is emitted next; `None` when as many are in flight as may be, or as many closed ones are not
    /// handed out. It is followed by [`open`](Self::open), or [`begin`](Self::begin), or nothing.
    #[inline]
    pub fn next_id(&mut self) -> Option<u64> {
        if self.in_flight() >= self.window.limit() {
            return None;
        }
        let index = match self.idle.next() {
            Some(index) => index,
            None => self.add_slot()?,
        };
        self.slots.get(index).map(|slot| (slot.id ^ NOT_IN_FLIGHT).wrapping_add(GENERATION))
    }

    #[cold]
    fn add_slot(&mut self) -> Option<usize> {
        let index = self.slots.len();
        if index >= self.max_pending as usize {
            return None;
        }
        self.slots.push(Slot { id: index as u64 ^ NOT_IN_FLIGHT, value: 0, stamp_us: UNSTAMPED });
        self.idle.make_room(self.slots.len());
        self.idle.put_back(index);
        Some(index)
    }

    /// The root with the [next id](Self::next_id) is emitted, and this is the xor of the edges of its copies. Without any it
    /// is complete.
    #[inline]
    pub fn open(&mut self, id: u64, edges: u64) {
        debug_assert_eq!(self.idle.next(), Some(Self::slot_of(id)));
        self.idle.begin();
        self.has_emitted = true;
        let index = Self::slot_of(id);
        if let Some(slot) = self.slots.get_mut(index) {
            *slot = Slot { id, value: edges, stamp_us: self.turn_us };
            if edges == 0 {
                self.complete(index);
            }
        }
    }

    /// The root with the [next id](Self::next_id) is being emitted, and that takes a while.
    #[cold]
    pub fn begin(&mut self, id: u64) {
        debug_assert_eq!(self.idle.next(), Some(Self::slot_of(id)));
        self.idle.begin();
        if let Some(slot) = self.slots.get_mut(Self::slot_of(id)) {
            *slot = Slot { id, value: PLACEHOLDER, stamp_us: UNSTAMPED };
        }
    }

    /// A root that was [begun](Self::begin) is emitted, and this is the xor of the edges of its copies.
    #[cold]
    pub fn commit(&mut self, id: u64, edges: u64) {
        self.has_emitted = true;
        if let Some(slot) = self.slots.get_mut(Self::slot_of(id)) {
            slot.stamp_us = self.turn_us;
        }
        self.ack(id, edges ^ PLACEHOLDER);
    }

    /// A root that was [begun](Self::begin) was not emitted: it is as if it had not been begun.
    #[cold]
    pub fn abandon(&mut self, id: u64) {
        let index = Self::slot_of(id);
        match self.slots.get_mut(index) {
            Some(slot) if slot.id == id => slot.id ^= NOT_IN_FLIGHT,
            // It failed before it was emitted in full.
            _ if self.idle.take_closed(index) => {}
            _ => return,
        }
        self.idle.put_back(index);
    }

    /// Xors an edge, or several, into a tree. A root that is not in flight is left out.
    #[inline(always)]
    pub fn ack(&mut self, id: u64, xor: u64) {
        let Some(slot) = self.slots.get_mut(Self::slot_of(id)) else { return };
        if slot.id != id {
            return;
        }
        slot.value ^= xor;
        if slot.value == 0 || mutants::is(Mutant::LedgerEarly) {
            self.complete(Self::slot_of(id));
        }
    }

    #[inline]
    fn complete(&mut self, index: usize) {
        let stamp_us = self.slots.get(index).map_or(self.now_us, |slot| slot.stamp_us);
        self.close(index, Outcome::Acked);
        self.count(self.now_us.saturating_sub(stamp_us));
    }

    #[inline]
    fn count(&mut self, took_us: u64) {
        if took_us != self.run_us {
            self.end_run();
            self.run_us = took_us;
        }
        self.run += 1;
    }

    /// A tree has failed. A root that is not in flight is left out.
    pub fn fail(&mut self, id: u64) {
        let index = Self::slot_of(id);
        if self.slots.get(index).is_some_and(|slot| slot.id == id) {
            self.close(index, Outcome::Failed);
        }
    }

    /// Every tree in flight has failed.
    pub fn fail_all(&mut self) {
        for index in 0..self.slots.len() {
            if self.is_in_flight(index) {
                self.close(index, Outcome::Failed);
            }
        }
    }

    fn is_in_flight(&self, index: usize) -> bool {
        self.slots.get(index).is_some_and(|slot| Self::slot_of(slot.id) == index)
    }

    #[inline]
    fn close(&mut self, index: usize, outcome: Outcome) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.id ^= NOT_IN_FLIGHT;
            self.idle.close(Closed::new(index, outcome));
        }
    }

    /// Hands out the next tree that has ended, in the order in which they did. Its slot may be begun again at once.
    #[inline]
    pub fn next_closed(&mut self) -> Option<Closed> {
        self.idle.tell()
    }

    /// Whether there is a tree to hand out.
    #[inline]
    #[must_use]
    pub fn has_closed(&self) -> bool {
        self.idle.has_closed()
    }

    /// Acks that come from now on came at this time.
    #[inline]
    pub fn set_now(&mut self, now_us: u64) {
        self.end_run();
        self.now_us = now_us;
    }

    #[inline(never)]
    fn end_run(&mut self) {
        if self.run > 0 {
            self.latency.record(self.run_us, self.run);
            self.window.completed(self.run_us, self.run, u64::from(self.in_flight()) + self.run, self.now_us);
            self.run = 0;
        }
    }

    /// A turn is over, or about to wait, and the next begins. The time of what it has emitted begins now.
    #[inline]
    pub fn turn(&mut self, now_us: u64) {
        if self.has_emitted {
            self.has_emitted = false;
            if self.timeouts.was_long(self.turn_us, now_us) {
                self.stamp_again(now_us);
            } else {
                self.timeouts.stamped(self.turn_us);
            }
        }
        self.turn_us = now_us;
    }

    #[cold]
    fn stamp_again(&mut self, now_us: u64) {
        for slot in self.slots.iter_mut().filter(|slot| slot.stamp_us == self.turn_us) {
            slot.stamp_us = now_us;
        }
        self.timeouts.stamped(now_us);
    }

    /// Closes the trees that took too long, if it is time to look for them.
    #[inline]
    pub fn expire(&mut self, now_us: u64) {
        if self.timeouts.is_due(now_us) {
            self.look(now_us);
        }
    }

    #[cold]
    fn look(&mut self, now_us: u64) {
        let mut oldest: Option<u64> = None;
        let before = self.in_flight();
        for index in 0..self.slots.len() {
            let stamp_us = self.slots.get(index).map_or(UNSTAMPED, |slot| slot.stamp_us);
            if stamp_us == UNSTAMPED || !self.is_in_flight(index) {
                continue;
            }
            if self.timeouts.is_over(stamp_us, now_us) {
                self.close(index, Outcome::TimedOut);
            } else {
                oldest = Some(oldest.map_or(stamp_us, |oldest| oldest.min(stamp_us)));
            }
        }
        if self.in_flight() < before {
            self.window.timed_out(now_us);
        }
        self.timeouts.looked(now_us, oldest);
    }

    /// When [`expire`](Self::expire) should be called next; `None` while nothing is in flight.
    #[must_use]
    pub fn next_look_us(&self) -> Option<u64> {
        self.timeouts.next_us().filter(|_| self.in_flight() > 0)
    }

    /// Whether nothing is in flight and nothing is left to hand out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.idle.free() == self.slots.len()
    }

    /// How many slots it has made: as many as were ever taken at once.
    #[must_use]
    pub fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// How many entries it has memory for, of whatever kind.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.slots.capacity() + self.idle.capacity()
    }

    /// How long complete trees took.
    pub fn latency(&mut self) -> &mut CompleteLatency {
        self.end_run();
        &mut self.latency
    }
}
