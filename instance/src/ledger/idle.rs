//! The slots that are not in flight, in the order in which they were closed.
//!
//! ```text
//!  | free: may be begun          | closed: to be handed out      |
//!  ^ begun                       ^ told                          ^ closed
//! ```
//!
//! One ring and three cursors that only grow: each step of a slot's life moves one of them, and nothing is copied.

use super::slots::{Closed, Outcome};

/// See the [module](self).
#[derive(Default)]
pub(super) struct Idle {
    /// A power of two of them, or none.
    ring: Vec<Closed>,
    begun: u64,
    told: u64,
    closed: u64,
}

impl Idle {
    #[inline]
    fn at(&self, cursor: u64) -> Option<Closed> {
        self.ring.get(cursor as usize & self.ring.len().wrapping_sub(1)).copied()
    }

    fn set(&mut self, cursor: u64, entry: Closed) {
        let mask = self.ring.len().wrapping_sub(1);
        if let Some(place) = self.ring.get_mut(cursor as usize & mask) {
            *place = entry;
        }
    }

    /// How many slots there are here.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.closed.wrapping_sub(self.begun) as usize
    }

    /// How many of them may be begun.
    #[inline]
    pub(super) fn free(&self) -> usize {
        self.told.wrapping_sub(self.begun) as usize
    }

    /// Whether one is to be handed out.
    #[inline]
    pub(super) fn has_closed(&self) -> bool {
        self.closed != self.told
    }

    /// Has room for so many slots from now on.
    #[cold]
    pub(super) fn make_room(&mut self, slots: usize) {
        if slots > self.ring.len() {
            let entries: Vec<Closed> =
                (0..self.len() as u64).filter_map(|i| self.at(self.begun + i)).collect();
            let (free, len) = (self.free() as u64, self.len() as u64);
            self.ring = entries;
            self.ring.resize(slots.next_power_of_two(), Closed::new(0, Outcome::Failed));
            (self.begun, self.told, self.closed) = (0, free, len);
        }
    }

    /// The slot that is begun next.
    #[inline]
    pub(super) fn next(&self) -> Option<usize> {
        if self.free() == 0 { None } else { self.at(self.begun).map(Closed::slot) }
    }

    /// It is.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.begun = self.begun.wrapping_add(1);
    }

    /// A slot is closed.
    #[inline]
    pub(super) fn close(&mut self, closed: Closed) {
        self.set(self.closed, closed);
        self.closed = self.closed.wrapping_add(1);
    }

    /// Hands out the next one. It is free from now on.
    #[inline]
    pub(super) fn tell(&mut self) -> Option<Closed> {
        if !self.has_closed() {
            return None;
        }
        let closed = self.at(self.told);
        self.told = self.told.wrapping_add(1);
        closed
    }

    /// A slot is free that was begun or is new: it is the next one.
    #[cold]
    pub(super) fn put_back(&mut self, index: usize) {
        self.begun = self.begun.wrapping_sub(1);
        self.set(self.begun, Closed::new(index, Outcome::Failed));
    }

    /// Takes out a slot that is to be handed out; whether there was one.
    #[cold]
    pub(super) fn take_closed(&mut self, index: usize) -> bool {
        let mut cursors = (0..self.closed.wrapping_sub(self.told)).map(|i| self.told.wrapping_add(i));
        let Some(mut at) = cursors.rfind(|&cursor| self.at(cursor).is_some_and(|c| c.slot() == index)) else {
            return false;
        };
        self.closed = self.closed.wrapping_sub(1);
        while at != self.closed {
            let next = at.wrapping_add(1);
            if let Some(entry) = self.at(next) {
                self.set(at, entry);
            }
            at = next;
        }
        true
    }

    /// How many entries it has memory for.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.ring.capacity()
    }
}
