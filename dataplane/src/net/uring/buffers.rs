//! The ring of receive buffers that the kernel picks from.
//!
//! The kernel takes buffers from its head, this side puts them back at its tail. A buffer is the kernel's from
//! [`RecvRing::provide`] until a completion names it.

use super::ring::Ring;
use io_uring::types::BufRingEntry;
use memmap2::MmapMut;
use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

/// The number by which receives name this ring.
pub(super) const GROUP: u16 = 0;

pub(super) struct RecvRing {
    entries: MmapMut,
    memory: MmapMut,
    count: u16,
    buffer_bytes: usize,
    tail: u16,
    available: u16,
}

impl RecvRing {
    /// `count` must be a power of two.
    pub(super) fn new(ring: &Ring, count: u16, buffer_bytes: usize) -> io::Result<Self> {
        let entries = MmapMut::map_anon(count as usize * size_of::<BufRingEntry>())?;
        let memory = MmapMut::map_anon(count as usize * buffer_bytes)?;
        // SAFETY: the mapping holds `count` entries, begins at a page, and lives as long as the ring (see Drop of the
        // reactor).
        unsafe {
            ring.submitter().register_buf_ring_with_flags(entries.as_ptr() as u64, count, GROUP, 0)?;
        }
        let mut buffers = Self { entries, memory, count, buffer_bytes, tail: 0, available: 0 };
        (0..count).for_each(|index| buffers.provide(index));
        Ok(buffers)
    }

    /// Buffers that the kernel can pick.
    pub(super) fn available(&self) -> u16 {
        self.available
    }

    /// A completion has named a buffer.
    pub(super) fn taken(&mut self) {
        self.available -= 1;
    }

    /// Gives a buffer to the kernel.
    pub(super) fn provide(&mut self, index: u16) {
        assert!(index < self.count && self.available < self.count, "a buffer comes back once");
        let base = self.entries.as_mut_ptr().cast::<BufRingEntry>();
        let address = self.memory.as_ptr() as u64 + u64::from(index) * self.buffer_bytes as u64;
        // SAFETY: the index is below `count`, and the kernel does not read an entry at or behind the tail. The tail
        // lies within the first entry (in a field that the setters do not touch), aligned to 2.
        unsafe {
            let entry = &mut *base.add((self.tail & (self.count - 1)) as usize);
            entry.set_addr(address);
            entry.set_len(self.buffer_bytes as u32);
            entry.set_bid(index);
            self.tail = self.tail.wrapping_add(1);
            let tail = BufRingEntry::tail(base).cast_mut().cast::<u16>();
            // Release: the kernel sees the entry before the tail.
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
        self.available += 1;
    }

    /// The first `len` bytes of a buffer that a completion has named.
    pub(super) fn bytes(&self, index: u16, len: usize) -> &[u8] {
        assert!(index < self.count && len <= self.buffer_bytes);
        // SAFETY: within the mapping; the buffer is this side's until it is provided again, which takes the RecvBuf.
        unsafe {
            std::slice::from_raw_parts(self.memory.as_ptr().add(index as usize * self.buffer_bytes), len)
        }
    }

    /// Never unmaps the memory.
    pub(super) fn leak(&mut self) {
        for map in [&mut self.entries, &mut self.memory] {
            if let Ok(empty) = MmapMut::map_anon(1) {
                std::mem::forget(std::mem::replace(map, empty));
            }
        }
    }
}
