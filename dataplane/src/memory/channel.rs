//! Everything that one instance shares with its stmgr beside the pool: two rings, a parker, counters, one word that
//! holds a spout, and one that says what dies with a bolt.
//!
//! ```text
//!  0        8         12     128              192       256     384       512            768           1024
//!  | magic  | version | –    | 8 counters u64 | unnamed | held  | asleep  | out: head,   | in: head,   | slots of out | slots of in |
//!  |  u64   |   u32   |      |                | u32     | u32   | u32     | tail (lines) | tail        |
//! ```
//!
//! Each registration gets a new channel, so nothing of a dead process reaches its successor.

use super::map::Mapping;
use super::park::{Parker, Waker};
use super::pool::PoolError;
use super::ring::{Consumer, LINE, Producer, RingLayout};
use crate::ids::{Incarnation, TaskId};
use crate::message::TaskCounters;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const MAGIC: u64 = u64::from_le_bytes(*b"EGRTCHAN");
const VERSION: u32 = 5;
const COUNTERS: usize = 128;
const UNNAMED: usize = 192;
const HELD: usize = 256;
const ASLEEP: usize = 384;
const OUT_CURSORS: usize = 512;
const IN_CURSORS: usize = 768;
const SLOTS: usize = 1024;

/// Slots of the ring from the stmgr to the instance. What does not fit waits in the stmgr.
pub const IN_SLOTS: usize = 1024;

/// Slots of the ring from the instance to the stmgr: one for each block the instance can hold, which are its quota
/// (at most 8,192) and what came in and is not consumed, one for its end, and the [`UNPUBLISHED_MAX`](super::ring::UNPUBLISHED_MAX). The stmgr never has
/// more than that outstanding, so what the instance rightly says always fits.
pub const OUT_SLOTS: usize = 16_384;

const BYTES: usize = SLOTS + (IN_SLOTS + OUT_SLOTS) * 16;
const OUT: RingLayout = RingLayout { cursors: OUT_CURSORS, slots: SLOTS, capacity: OUT_SLOTS };
const IN: RingLayout = RingLayout { cursors: IN_CURSORS, slots: SLOTS + OUT_SLOTS * 16, capacity: IN_SLOTS };

const _: () = assert!(COUNTERS + 8 * 8 <= UNNAMED && UNNAMED + 4 <= HELD);
const _: () = assert!(HELD + LINE <= ASLEEP && ASLEEP + 4 <= OUT_CURSORS);
const _: () = assert!(OUT_CURSORS + 2 * LINE <= IN_CURSORS && IN_CURSORS + 2 * LINE <= SLOTS);

/// One side's view of a channel.
pub struct ChannelEnd {
    /// Descriptors to the other side.
    pub producer: Producer,
    /// Descriptors from the other side.
    pub consumer: Consumer,
    /// The instance's counters.
    pub counters: Counters,
    /// Whether the instance, a spout, is held.
    pub hold: Hold,
}

/// A mapped channel, before it is split into what its side needs.
pub struct Channel {
    map: Arc<Mapping>,
}

impl Channel {
    /// Makes a channel; the stmgr's part.
    ///
    /// # Errors
    /// When the kernel refuses memory or files.
    pub fn create() -> io::Result<Self> {
        let map = Mapping::create("egret-channel", BYTES)?;
        map.words64(0, 1)[0].store(MAGIC, Ordering::Relaxed);
        map.word(8).store(VERSION, Ordering::Relaxed);
        Ok(Self { map: Arc::new(map) })
    }

    /// Maps a channel that the stmgr made; the instance's part.
    ///
    /// # Errors
    /// [`PoolError`] when it cannot be mapped or is no channel of this version.
    pub fn attach(fd: OwnedFd) -> Result<Self, PoolError> {
        let map = Mapping::attach(fd).map_err(|source| PoolError::Map { bytes: BYTES, source })?;
        let fits = map.len() == BYTES && map.words64(0, 1)[0].load(Ordering::Relaxed) == MAGIC;
        if !fits || map.word(8).load(Ordering::Relaxed) != VERSION {
            return Err(PoolError::NotAPool);
        }
        Ok(Self { map: Arc::new(map) })
    }

    /// The file, to hand to the instance.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn duplicate_fd(&self) -> io::Result<OwnedFd> {
        self.map.duplicate_fd()
    }

    /// The stmgr's ends. To be taken once.
    #[must_use]
    pub fn stmgr_end(&self) -> ChannelEnd {
        self.end(IN, OUT)
    }

    /// The instance's ends. To be taken once.
    #[must_use]
    pub fn instance_end(&self) -> ChannelEnd {
        self.end(OUT, IN)
    }

    fn end(&self, produce: RingLayout, consume: RingLayout) -> ChannelEnd {
        ChannelEnd {
            producer: Producer::new(self.map.clone(), produce),
            consumer: Consumer::new(self.map.clone(), consume),
            counters: self.counters(),
            hold: Hold { map: self.map.clone() },
        }
    }

    /// The instance's counters, apart from the ends.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters { map: self.map.clone() }
    }

    /// Where the instance's task thread sleeps.
    #[must_use]
    pub fn instance_parker(&self) -> Parker {
        Parker::new(self.map.clone(), ASLEEP)
    }

    /// Wakes the instance's task thread.
    #[must_use]
    pub fn instance_waker(&self) -> Waker {
        Waker::futex(self.map.clone(), ASLEEP)
    }
}

/// The word by which a stmgr holds a spout: it can wait behind nothing. Only the stmgr writes it.
pub struct Hold {
    map: Arc<Mapping>,
}

impl Hold {
    /// Holds the spout or lets it go on. One that is let go on may sleep: wake it afterwards.
    pub fn set(&self, held: bool) {
        self.map.word(HELD).store(u32::from(held), Ordering::Relaxed);
    }

    /// Whether the spout is to emit nothing for now.
    #[inline]
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.map.word(HELD).load(Ordering::Relaxed) != 0
    }
}

/// The counters of one instance process, written by it and readable by its stmgr even after it died.
pub struct Counters {
    map: Arc<Mapping>,
}

impl Counters {
    fn cells(&self) -> &[AtomicU64] {
        self.map.words64(COUNTERS, 8)
    }

    /// Publishes the counters and the gauge, all but `cpu_us`. A reader may see some of them newer than others.
    #[inline]
    pub fn store(&self, counters: &TaskCounters) {
        let values = [
            counters.emitted,
            counters.sent,
            counters.executed,
            counters.acked,
            counters.failed,
            counters.timed_out,
        ];
        for (cell, value) in self.cells().iter().zip(values) {
            cell.store(value, Ordering::Relaxed);
        }
        self.cells()[7].store(counters.pending, Ordering::Relaxed);
    }

    /// Publishes whether the process has tuples of trees in hand which none of the blocks that it was handed, and has not
    /// said done of, names: its death takes them along. To be said before the done that makes it so, and taken back
    /// only when everything of them is pushed.
    #[inline]
    pub fn store_unnamed(&self, has_unnamed: bool) {
        // Release: what has been pushed is seen by whoever sees that nothing is left.
        self.map.word(UNNAMED).store(u32::from(has_unnamed), Ordering::Release);
    }

    /// What was published last with [`store_unnamed`](Self::store_unnamed).
    #[must_use]
    pub fn has_unnamed(&self) -> bool {
        self.map.word(UNNAMED).load(Ordering::Acquire) != 0
    }

    /// Publishes the CPU time of the process.
    pub fn store_cpu_us(&self, cpu_us: u64) {
        self.cells()[6].store(cpu_us, Ordering::Relaxed);
    }

    /// Reads the counters of `task`'s process.
    #[must_use]
    pub fn load(&self, task: TaskId, incarnation: Incarnation) -> TaskCounters {
        let cell = |i: usize| self.cells()[i].load(Ordering::Relaxed);
        TaskCounters {
            task,
            incarnation,
            emitted: cell(0),
            sent: cell(1),
            executed: cell(2),
            acked: cell(3),
            failed: cell(4),
            timed_out: cell(5),
            cpu_us: cell(6),
            pending: cell(7),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::BlockId;
    use crate::memory::{Descriptor, DescriptorKind};

    #[test]
    fn both_sides_meet() {
        let channel = Channel::create().unwrap();
        let instance = Channel::attach(channel.duplicate_fd().unwrap()).unwrap();
        let (mut stmgr, mut instance) = (channel.stmgr_end(), instance.instance_end());
        let grant = Descriptor::of_block(DescriptorKind::Grant, BlockId(5));
        let end = Descriptor::end(TaskId(9));
        stmgr.producer.push(grant).unwrap();
        instance.producer.push(end).unwrap();
        assert_eq!(instance.consumer.pop(), Some(grant));
        assert_eq!(stmgr.consumer.pop(), Some(end));
        stmgr.hold.set(true);
        assert!(instance.hold.is_set());
        let counters =
            TaskCounters { emitted: 1, sent: 2, timed_out: 6, pending: 8, ..TaskCounters::default() };
        instance.counters.store(&counters);
        instance.counters.store_cpu_us(7);
        instance.counters.store_unnamed(true);
        let seen = stmgr.counters.load(TaskId(3), Incarnation(1));
        assert!(stmgr.counters.has_unnamed());
        instance.counters.store_unnamed(false);
        assert!(!stmgr.counters.has_unnamed());
        assert_eq!((seen.emitted, seen.sent, seen.timed_out, seen.cpu_us, seen.pending), (1, 2, 6, 7, 8));
    }

    #[test]
    fn a_pool_is_no_channel() {
        let map = Mapping::create("x", BYTES).unwrap();
        assert!(matches!(Channel::attach(map.duplicate_fd().unwrap()), Err(PoolError::NotAPool)));
    }
}
