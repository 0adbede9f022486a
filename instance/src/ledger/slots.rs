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
//! The life of a slot: free → [`begin`](Ledger::begin) → [`commit`](Ledger::commit) → closed, when its tree is complete, fails or
//! times out → handed out by [`next_closed`](Ledger::next_closed) → free. While it is being emitted, acks may come for it
//! already: its value holds a placeholder until `commit`, so they do not complete it.

use super::latency::CompleteLatency;
use super::timeouts::Timeouts;
use super::window::Window;

const SLOT_BITS: u32 = 24;
const SLOT_MASK: u64 = (1 << SLOT_BITS) - 1;
const GENERATION: u64 = 1 << SLOT_BITS;
/// Turned over in the id of a slot that is not in flight.
const NOT_IN_FLIGHT: u64 = 1;
/// The value of a root that is being emitted: any odd number, as improbable as an xor of edges as any other.
const PLACEHOLDER: u64 = 0xd6e8_feb8_6659_fd93;
/// The stamp of a root whose turn is not over.
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

/// A tree that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Its slot, which is free again.
    pub slot: u32,
    /// How it ended.
    pub outcome: Outcome,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    id: u64,
    value: u64,
    /// The end of the turn that emitted it, in microseconds.
    stamp_us: u64,
}

/// See the [module](self).
pub struct Ledger {
    /// As many as were ever in flight at once.
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Emitted since the last stamp.
    fresh: Vec<u32>,
    /// Closed and, from `handed_out` on, not handed out.
    closed: Vec<Closed>,
    handed_out: usize,
    in_flight: u32,
    max_pending: u32,
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
            free: Vec::new(),
            fresh: Vec::new(),
            closed: Vec::new(),
            handed_out: 0,
            in_flight: 0,
            max_pending,
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
        self.in_flight
    }

    /// Whether no root may be emitted now: [`begin`](Self::begin) would refuse.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.in_flight >= self.window.limit()
            || (self.free.is_empty() && self.slots.len() >= self.max_pending as usize)
    }

    /// Opens a root that is about to be emitted, and says its id; `None` when as many are in flight as may be, or as
    /// many closed ones are not handed out.
    #[inline]
    pub fn begin(&mut self) -> Option<u64> {
        if self.in_flight >= self.window.limit() {
            return None;
        }
        let index = match self.free.pop() {
            Some(index) => index as usize,
            None => self.add_slot()?,
        };
        let slot = self.slots.get_mut(index)?;
        let id = (slot.id ^ NOT_IN_FLIGHT).wrapping_add(GENERATION);
        *slot = Slot { id, value: PLACEHOLDER, stamp_us: UNSTAMPED };
        self.in_flight += 1;
        Some(id)
    }

    #[cold]
    fn add_slot(&mut self) -> Option<usize> {
        let index = self.slots.len();
        if index >= self.max_pending as usize {
            return None;
        }
        self.slots.push(Slot { id: index as u64 ^ NOT_IN_FLIGHT, value: 0, stamp_us: UNSTAMPED });
        Some(index)
    }

    /// The root is emitted, and this is the xor of the edges of its copies. Without any it is complete.
    #[inline]
    pub fn commit(&mut self, id: u64, edges: u64) {
        self.ack(id, edges ^ PLACEHOLDER);
        self.fresh.push(Self::slot_of(id) as u32);
    }

    /// The root was not emitted: it is as if it had not been begun.
    #[cold]
    pub fn abandon(&mut self, id: u64) {
        let index = Self::slot_of(id);
        match self.slots.get_mut(index) {
            Some(slot) if slot.id == id => {
                slot.id ^= NOT_IN_FLIGHT;
                self.in_flight -= 1;
                self.free.push(index as u32);
            }
            // It failed before it was emitted in full.
            _ => {
                if let Some(at) = self.closed.iter().rposition(|c| c.slot as usize == index) {
                    self.closed.remove(at);
                    self.free.push(index as u32);
                }
            }
        }
    }

    /// Xors an edge, or several, into a tree. A root that is not in flight is left out.
    #[inline]
    pub fn ack(&mut self, id: u64, xor: u64) {
        let Some(slot) = self.slots.get_mut(Self::slot_of(id)) else { return };
        if slot.id != id {
            return;
        }
        slot.value ^= xor;
        if slot.value == 0 {
            let took_us = self.now_us.saturating_sub(slot.stamp_us);
            slot.id ^= NOT_IN_FLIGHT;
            if took_us != self.run_us {
                self.end_run();
                self.run_us = took_us;
            }
            self.run += 1;
            self.in_flight -= 1;
            self.closed.push(Closed { slot: Self::slot_of(id) as u32, outcome: Outcome::Acked });
        }
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

    fn close(&mut self, index: usize, outcome: Outcome) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.id ^= NOT_IN_FLIGHT;
            self.in_flight -= 1;
            self.closed.push(Closed { slot: index as u32, outcome });
        }
    }

    /// The next tree that has ended, in the order in which they did. Its slot may be begun again at once.
    #[inline]
    pub fn next_closed(&mut self) -> Option<Closed> {
        let closed = self.closed.get(self.handed_out).copied();
        match closed {
            Some(closed) => {
                self.handed_out += 1;
                self.free.push(closed.slot);
            }
            None => {
                self.closed.clear();
                self.handed_out = 0;
            }
        }
        closed
    }

    /// Whether there is a tree to hand out.
    #[inline]
    #[must_use]
    pub fn has_closed(&self) -> bool {
        self.closed.len() > self.handed_out
    }

    /// Acks that come from now on came at this time.
    #[inline]
    pub fn set_now(&mut self, now_us: u64) {
        self.end_run();
        self.now_us = now_us;
    }

    fn end_run(&mut self) {
        if self.run > 0 {
            self.latency.record(self.run_us, self.run);
            self.window.completed(self.run_us, self.run);
            self.run = 0;
        }
    }

    /// The turn is over, or about to wait: what it has emitted so far may take its time from now on.
    #[inline]
    pub fn stamp(&mut self, now_us: u64) {
        if !self.fresh.is_empty() {
            for index in self.fresh.drain(..) {
                if let Some(slot) = self.slots.get_mut(index as usize) {
                    slot.stamp_us = now_us;
                }
            }
            self.timeouts.emitted(now_us);
        }
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
        let before = self.in_flight;
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
        if self.in_flight < before {
            self.window.timed_out(now_us);
        }
        self.timeouts.looked(now_us, oldest);
    }

    /// When [`expire`](Self::expire) should be called next; `None` while nothing is in flight.
    #[must_use]
    pub fn next_look_us(&self) -> Option<u64> {
        self.timeouts.next_us().filter(|_| self.in_flight > 0)
    }

    /// Whether nothing is in flight and nothing is left to hand out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.in_flight == 0 && !self.has_closed() && self.free.len() == self.slots.len()
    }

    /// How many slots it has made: as many as were ever taken at once.
    #[must_use]
    pub fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// What is to be handed out.
    #[cfg(test)]
    pub(super) fn closed(&self) -> &[Closed] {
        &self.closed
    }

    /// How many entries it has memory for, of whatever kind.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.slots.capacity() + self.free.capacity() + self.fresh.capacity() + self.closed.capacity()
    }

    /// How long complete trees took.
    pub fn latency(&mut self) -> &mut CompleteLatency {
        self.end_run();
        &mut self.latency
    }
}
