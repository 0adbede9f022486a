//! Three processes in a row: one writes tuples into blocks, one passes the descriptors on, one (or several) reads them.
//!
//! ```text
//!             data             data
//!  emitter ─────────► relay ─────────► reader …
//!          ◄─────────       ◄─────────
//!        grants, acks      done, acks
//! ```
//!
//! A block begins with the number of its first root and the base of its edges. With `tracked` the emitter notes the edge of
//! each tuple in a ledger; the reader writes the edges of a block's tuples into a block of acks, which begins with the number
//! of their first root; and the emitter xors each into its entry.

mod emitter;
mod reader;
mod relay;

use super::{Stage, run_stages};
use crate::clock::now_ns;
use crate::sample::Cost;
use anyhow::{Context, Result};
use egret_dataplane::ids::{BlockId, ContainerId};
use egret_dataplane::memory::{
    Channel, ChannelEnd, Class, Descriptor, DescriptorKind, OwnedBlock, Parker, Pool, PoolConfig, Sleep,
    Waker,
};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

/// Bytes before the tuples of a block: first root, edge base.
const BLOCK_HEADER: usize = 16;
/// Bytes before the payload of a tuple: its length, its number.
const TUPLE_HEADER: usize = 16;
/// Bytes before the edges of a block of acks: first root.
const ACK_HEADER: usize = 8;
/// Trees in flight at most, as by Egret's default.
const MAX_PENDING: u64 = 65_536;

/// How long after one tuple has come back the next is due, where they are sent one at a time.
pub(crate) const PING_NS: u64 = 20_000;

/// What flows, and through what.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// How many tuples.
    pub tuples: u64,
    /// Bytes of each, its number included.
    pub tuple_bytes: usize,
    /// Processes that read; each reads all of them.
    pub readers: u32,
    /// Whether each tuple has an edge, which the reader tells, and an entry in a ledger, which it is xored into.
    pub tracked: bool,
    /// Sends one tuple at a time, each due some time after the one before has come back, and logs here how long each took
    /// from when it was due to its reader.
    pub latencies: Option<PathBuf>,
    /// Turns that a process without work spins before it sleeps.
    pub spin_turns: u64,
}

/// A process of the row.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Part {
    /// Writes.
    Emitter,
    /// Passes on.
    Relay,
    /// Reads; which of the readers.
    Reader(u32),
}

/// Where the shared memory is: paths of the files that the starter holds open.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Shared {
    pool: PathBuf,
    /// Of the emitter, of each reader, and last one whose parker is the relay's.
    channels: Vec<PathBuf>,
}

impl Row {
    /// Runs it, with its processes pinned by `policy` as those of a container are.
    ///
    /// # Errors
    /// When a process cannot be started or fails.
    pub fn measure(&self, policy: &str) -> Result<Cost> {
        let pool = Pool::create(&PoolConfig { counts: self.counts(), max_tuple_bytes: 4 << 20 })?;
        let channels = (0..self.readers + 2).map(|_| Channel::create()?.duplicate_fd());
        let channels = channels.collect::<std::io::Result<Vec<_>>>()?;
        let pool = pool.duplicate_fd()?;
        let path =
            |fd: &OwnedFd| PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd()));
        let shared = Shared { pool: path(&pool), channels: channels.iter().map(path).collect() };
        let readers = (0..self.readers).map(Part::Reader);
        let parts = [Part::Emitter, Part::Relay].into_iter().chain(readers);
        let stage = |part| (Stage::Row(part, self.clone(), shared.clone()), ContainerId(1), Stdio::null());
        run_stages(policy, parts.map(stage).collect())
    }

    /// Bytes that a tuple takes in a block.
    fn step(&self) -> usize {
        let payload = self.tuple_bytes.saturating_sub(8);
        (TUPLE_HEADER + payload).next_multiple_of(8)
    }

    fn class(&self) -> Class {
        if self.step() + BLOCK_HEADER <= Pool::STANDARD_BYTES { Class::Standard } else { Class::Medium }
    }

    /// Blocks of each class: for the emitter as many as Egret's default gives a task, and as many for the acks of each reader.
    fn counts(&self) -> [u32; 3] {
        let acks = if self.tracked { 64 * self.readers } else { 0 };
        match self.class() {
            _ if self.latencies.is_some() => [1, 0, 0],
            Class::Standard => [64 + acks, 0, 0],
            _ => [acks, 8, 0],
        }
    }

    /// Does the part of one process.
    pub(super) fn run(&self, part: Part, shared: &Shared) -> Result<()> {
        let open = |path: &PathBuf| -> Result<OwnedFd> {
            let file: File = OpenOptions::new().read(true).write(true).open(path)?;
            Ok(file.into())
        };
        let pool = Arc::new(Pool::attach(open(&shared.pool)?)?);
        let channels = shared.channels.iter().map(|path| Ok(Channel::attach(open(path)?)?));
        let channels = channels.collect::<Result<Vec<_>>>()?;
        let bell = channels.last().context("no channels")?;
        match part {
            Part::Relay => relay::run(self, &channels),
            Part::Emitter => emitter::run(self, Side::new(self, pool, &channels[0], bell)),
            Part::Reader(index) => {
                reader::run(self, index, Side::new(self, pool, &channels[index as usize + 1], bell))
            }
        }
    }

    /// The blocks that a reader writes its acks into.
    fn ack_blocks(&self, pool: &Pool, reader: u32) -> std::ops::Range<u32> {
        let standard = pool.blocks(Class::Standard);
        let acks = 64 * self.readers;
        let first = standard.end - acks + 64 * reader;
        first..first + 64
    }
}

/// What the emitter and the readers have in common.
struct Side {
    pool: Arc<Pool>,
    end: ChannelEnd,
    sleep: Idle,
    relay: Waker,
}

impl Side {
    fn new(row: &Row, pool: Arc<Pool>, channel: &Channel, bell: &Channel) -> Self {
        let sleep = Idle { parker: channel.instance_parker(), spin_turns: row.spin_turns };
        Self { pool, end: channel.instance_end(), sleep, relay: bell.instance_waker() }
    }

    fn claim(&self, block: BlockId) -> Result<OwnedBlock> {
        self.pool.claim(block).context("a block came twice")
    }

    /// The next descriptor, sleeping until there is one.
    fn next(&mut self) -> Descriptor {
        loop {
            if let Some(descriptor) = self.end.consumer.pop() {
                return descriptor;
            }
            self.sleep.until(|| self.end.consumer.has_some());
        }
    }

    /// Hands a block over, of which `used` bytes and `count` entries are in use.
    fn push(&mut self, kind: DescriptorKind, block: OwnedBlock, used: usize, count: u32) -> Result<()> {
        let descriptor = Descriptor { kind, block: block.id(), target: 0, used: used as u32, count };
        drop(block);
        self.end.producer.push(descriptor)?;
        self.relay.wake();
        Ok(())
    }
}

/// How a process waits: some turns awake, then asleep.
struct Idle {
    parker: Parker,
    spin_turns: u64,
}

impl Idle {
    fn until(&self, ready: impl Fn() -> bool) {
        for _ in 0..self.spin_turns {
            if ready() {
                return;
            }
            std::hint::spin_loop();
        }
        self.parker.park(Sleep::Light, ready, None);
    }

    /// Sleeps until it is `due`, with the least that the kernel may add, as a spout does that has nothing to emit before.
    fn until_due(&self, due_ns: u64) {
        while let Some(left @ 1..) = due_ns.checked_sub(now_ns()) {
            self.parker.park(Sleep::Deep, || false, Some(Duration::from_nanos(left)));
        }
    }
}

/// The edge of a tuple: a mix of the block's base and its place there, as both ends work it out.
#[inline]
fn edge(base: u64, index: u64) -> u64 {
    let mixed = (base ^ index).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ mixed >> 32
}
