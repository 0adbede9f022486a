//! A lock-free queue of descriptors from one process to another.
//!
//! One producer, one consumer. The two cursors count descriptors since the start and only grow; a slot is
//! `cursor % capacity`. Each side owns one cursor, keeps its own value in private memory, and keeps the last value
//! it saw of the other's, so that the other side's cache line is read only when that view runs out (the ring of
//! Lamport, with the cached cursors of FastForward and of Vyukov's SPSC queue).
//!
//! 1. The producer writes a slot, then publishes its cursor with release. SYNC(ring-filled)
//! 2. The consumer sees that cursor with acquire, so it sees the slot. SYNC(ring-filled)
//! 3. The consumer reads the slot, then publishes its cursor with release. SYNC(ring-drained)
//! 4. The producer sees that cursor with acquire, so it may overwrite the slot. SYNC(ring-drained)
//!
//! The other process may be hostile or torn: a cursor that claims more than the capacity marks the ring corrupt, and
//! it then stays full or empty for good. Slots are atomics, so a torn slot is a wrong descriptor, never undefined.

use super::atomics::{AtomicU64, Ordering};
use super::descriptor::Descriptor;
use super::map::Mapping;
use std::sync::Arc;

/// Bytes between things that different processes write.
pub(crate) const LINE: usize = 128;

/// The consumer publishes its cursor at least every this many descriptors.
const PUBLISH_EVERY: u64 = 32;

/// So many slots may be free that the producer takes for full.
pub const UNPUBLISHED_MAX: usize = PUBLISH_EVERY as usize - 1;

/// The ring has no free slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ring is full")]
pub struct Full;

/// Where a ring lies in a mapping: its two cursors, a line each, then its slots elsewhere.
#[derive(Clone, Copy)]
pub(crate) struct RingLayout {
    pub(crate) cursors: usize,
    pub(crate) slots: usize,
    pub(crate) capacity: usize,
}

struct Shared {
    map: Arc<Mapping>,
    layout: RingLayout,
    corrupt: bool,
}

impl Shared {
    fn new(map: Arc<Mapping>, layout: RingLayout) -> Self {
        assert!(layout.capacity.is_power_of_two());
        Self { map, layout, corrupt: false }
    }

    /// Written by the producer.
    fn head(&self) -> &AtomicU64 {
        &self.map.words64(self.layout.cursors, 1)[0]
    }

    /// Written by the consumer.
    fn tail(&self) -> &AtomicU64 {
        &self.map.words64(self.layout.cursors + LINE, 1)[0]
    }

    fn slot(&self, cursor: u64) -> &[AtomicU64] {
        let index = cursor as usize & (self.layout.capacity - 1);
        self.map.words64(self.layout.slots + index * 16, 2)
    }

    fn check(&mut self, used: u64) -> bool {
        self.corrupt |= used > self.layout.capacity as u64;
        !self.corrupt
    }
}

/// The sending end.
pub struct Producer {
    shared: Shared,
    head: u64,
    tail_seen: u64,
}

impl Producer {
    pub(crate) fn new(map: Arc<Mapping>, layout: RingLayout) -> Self {
        Self { shared: Shared::new(map, layout), head: 0, tail_seen: 0 }
    }

    /// Appends a descriptor. The consumer may have to be woken after it.
    ///
    /// # Errors
    /// [`Full`] when the consumer has not yet taken enough, or the ring is corrupt.
    #[inline]
    pub fn push(&mut self, descriptor: Descriptor) -> Result<(), Full> {
        if self.head.wrapping_sub(self.tail_seen) >= self.shared.layout.capacity as u64 {
            // SYNC(ring-drained)
            self.tail_seen = self.shared.tail().load(Ordering::Acquire);
            let used = self.head.wrapping_sub(self.tail_seen);
            if !self.shared.check(used) || used == self.shared.layout.capacity as u64 {
                return Err(Full);
            }
        }
        let words = descriptor.to_words();
        let slot = self.shared.slot(self.head);
        slot[0].store(words[0], Ordering::Relaxed);
        slot[1].store(words[1], Ordering::Relaxed);
        self.head = self.head.wrapping_add(1);
        // SYNC(ring-filled)
        self.shared.head().store(self.head, Ordering::Release);
        Ok(())
    }

    /// Whether the consumer has said that it took everything.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        // SYNC(ring-drained)
        self.shared.tail().load(Ordering::Acquire) == self.head
    }

    /// Whether the consumer claimed an impossible position.
    #[must_use]
    pub fn is_corrupt(&self) -> bool {
        self.shared.corrupt
    }
}

/// The receiving end.
pub struct Consumer {
    shared: Shared,
    tail: u64,
    head_seen: u64,
}

impl Consumer {
    pub(crate) fn new(map: Arc<Mapping>, layout: RingLayout) -> Self {
        Self { shared: Shared::new(map, layout), tail: 0, head_seen: 0 }
    }

    /// Takes the oldest descriptor, or `None` when there is none now (or none ever again: see
    /// [`is_corrupt`](Self::is_corrupt)).
    #[inline]
    pub fn pop(&mut self) -> Option<Descriptor> {
        if self.tail == self.head_seen && !self.refresh() {
            return None;
        }
        let slot = self.shared.slot(self.tail);
        let words = [slot[0].load(Ordering::Relaxed), slot[1].load(Ordering::Relaxed)];
        self.tail = self.tail.wrapping_add(1);
        if self.tail == self.head_seen || self.tail.is_multiple_of(PUBLISH_EVERY) {
            // SYNC(ring-drained)
            self.shared.tail().store(self.tail, Ordering::Release);
        }
        let descriptor = Descriptor::from_words(words);
        self.shared.corrupt |= descriptor.is_none();
        descriptor
    }

    /// Whether a descriptor waits. Also true for a corrupt ring, so that its reader wakes up to that.
    #[must_use]
    pub fn has_some(&self) -> bool {
        // SYNC(ring-filled)
        self.shared.corrupt || self.shared.head().load(Ordering::Acquire) != self.tail
    }

    /// Whether the producer claimed an impossible position or wrote an unknown descriptor.
    #[must_use]
    pub fn is_corrupt(&self) -> bool {
        self.shared.corrupt
    }

    fn refresh(&mut self) -> bool {
        if self.shared.corrupt {
            return false;
        }
        // SYNC(ring-filled)
        let head = self.shared.head().load(Ordering::Acquire);
        if !self.shared.check(head.wrapping_sub(self.tail)) {
            return false;
        }
        self.head_seen = head;
        head != self.tail
    }
}
