//! Blocks on their way from spouts over a stmgr to bolts and home again: real threads over real rings, parkers and a pool, all
//! tiny, each side with mappings of its own as processes have them. `tests/loom` has the parts under every interleaving.

use super::map::Mapping;
use super::ring::{LINE, RingLayout};
use super::{Consumer, Descriptor, DescriptorKind, Parker, Pool, PoolConfig, Producer, Sleep, Waker};
use crate::ids::{BlockId, TaskId};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Each with other numbers of instances and blocks, and another length of the rings.
const ROUNDS: u64 = 10;
/// Of each spout in a round.
const TUPLES: u32 = 250;
/// Nobody has to wait so long: who does was not woken.
const DEADLINE: Duration = Duration::from_secs(20);
/// When a full ring is tried again.
const FULL_RING: Duration = Duration::from_millis(1);

/// A mapping, as the processes at its two ends have it.
fn mappings() -> [Arc<Mapping>; 2] {
    let here = Mapping::create("handover-test", 4096).unwrap();
    let there = Mapping::attach(here.duplicate_fd().unwrap()).unwrap();
    [Arc::new(here), Arc::new(there)]
}

fn ring(capacity: usize) -> (Producer, Consumer) {
    let [here, there] = mappings();
    let layout = RingLayout { cursors: 0, slots: 2 * LINE, capacity };
    (Producer::new(here, layout), Consumer::new(there, layout))
}

/// What a thread does between two things, for a seed the same.
struct Whims(u64);

impl Whims {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn dawdle(&mut self) {
        match self.below(16) {
            0 | 1 => thread::yield_now(),
            2 => thread::park_timeout(Duration::from_micros(self.below(50))),
            _ => {}
        }
    }
}

fn sleep(parker: &Parker, how: Sleep, ready: impl Fn() -> bool) {
    let start = Instant::now();
    parker.park(how, &ready, Some(DEADLINE));
    assert!(start.elapsed() < DEADLINE || !ready(), "a wake-up was lost");
}

fn push(ring: &mut Producer, descriptor: Descriptor) {
    while ring.push(descriptor).is_err() {
        thread::yield_now();
    }
}

/// What a block holds: who wrote it, as the how-manieth for its reader.
fn content(spout: u32, number: u32) -> [u8; 512] {
    let mut bytes = [number as u8; 512];
    bytes[..4].copy_from_slice(&spout.to_le_bytes());
    bytes[508..].copy_from_slice(&number.to_le_bytes());
    bytes
}

struct Spout {
    task: u32,
    pool: Arc<Pool>,
    free: Vec<BlockId>,
    out: Producer,
    grants: Consumer,
    parker: Parker,
    stmgr: Waker,
    whims: Whims,
}

impl Spout {
    fn run(mut self, bolts: u32) {
        let quota = self.free.len();
        let mut sent = vec![0; bolts as usize];
        for _ in 0..TUPLES {
            self.wait_until_free(1);
            let block = self.free.pop().unwrap();
            let bolt = self.whims.below(bolts.into()) as u32;
            let number = &mut sent[bolt as usize];
            let mut owned = self.pool.claim(block).expect("it is nobody's");
            owned.bytes_mut()[..512].copy_from_slice(&content(self.task, *number));
            drop(owned);
            *number += 1;
            self.whims.dawdle();
            let kind = DescriptorKind::Data;
            push(&mut self.out, Descriptor { kind, block, target: bolt, used: 512, count: 1 });
            self.stmgr.wake();
        }
        // Every block comes home.
        self.wait_until_free(quota);
        self.free.sort_unstable_by_key(|block| block.0);
        self.free.dedup();
        assert_eq!(self.free.len(), quota);
        push(&mut self.out, Descriptor::end(TaskId(self.task)));
        self.stmgr.wake();
    }

    fn wait_until_free(&mut self, count: usize) {
        while self.free.len() < count {
            match self.grants.pop() {
                Some(grant) => self.free.push(grant.block),
                None => sleep(&self.parker, Sleep::Light, || self.grants.has_some()),
            }
        }
    }
}

struct Bolt {
    pool: Arc<Pool>,
    incoming: Consumer,
    done: Producer,
    parker: Parker,
    stmgr: Waker,
    whims: Whims,
}

impl Bolt {
    /// Gives how many it has got from each spout.
    fn run(mut self, spouts: u32) -> Vec<u32> {
        let mut next = vec![0; spouts as usize];
        loop {
            let Some(descriptor) = self.incoming.pop() else {
                sleep(&self.parker, Sleep::Deep, || self.incoming.has_some());
                continue;
            };
            if descriptor.kind == DescriptorKind::End {
                return next;
            }
            let block = self.pool.claim(descriptor.block).expect("it is nobody else's");
            let spout = u32::from_le_bytes(block.bytes()[..4].try_into().unwrap());
            let number = &mut next[spout as usize];
            assert_eq!(block.bytes()[..512], content(spout, *number), "in its order, and whole");
            *number += 1;
            self.whims.dawdle();
            drop(block);
            push(&mut self.done, Descriptor::of_block(DescriptorKind::Done, descriptor.block));
            self.stmgr.nudge();
        }
    }
}

/// One instance, as the stmgr sees it.
struct Local {
    from: Consumer,
    to: Producer,
    pending: VecDeque<Descriptor>,
    waker: Waker,
}

struct Stmgr {
    spouts: Vec<Local>,
    bolts: Vec<Local>,
    quota: u32,
    parker: Parker,
    whims: Whims,
}

impl Stmgr {
    fn run(mut self) {
        let (mut away, mut ended) = (0, 0);
        loop {
            let mut worked = false;
            for descriptor in self.spouts.iter_mut().flat_map(|spout| std::iter::from_fn(|| spout.from.pop()))
            {
                worked = true;
                if descriptor.kind == DescriptorKind::End {
                    ended += 1;
                } else {
                    away += 1;
                    self.bolts[descriptor.target as usize].pending.push_back(descriptor);
                }
            }
            for done in self.bolts.iter_mut().flat_map(|bolt| std::iter::from_fn(|| bolt.from.pop())) {
                worked = true;
                away -= 1;
                let grant = Descriptor::of_block(DescriptorKind::Grant, done.block);
                self.spouts[(done.block.0 / self.quota) as usize].pending.push_back(grant);
            }
            self.whims.dawdle();
            if ended == self.spouts.len() {
                assert_eq!(away, 0, "who has all its blocks ends");
                self.bolts.iter_mut().for_each(|bolt| {
                    push(&mut bolt.to, Descriptor::end(TaskId(0)));
                    bolt.waker.wake();
                });
                return;
            }
            let is_stuck = self.deliver();
            if !worked {
                self.sleep(is_stuck, away);
            }
        }
    }

    /// Says whether a ring was full.
    fn deliver(&mut self) -> bool {
        let mut is_stuck = false;
        for (local, is_spout) in
            self.spouts.iter_mut().map(|l| (l, true)).chain(self.bolts.iter_mut().map(|l| (l, false)))
        {
            while let Some(&descriptor) = local.pending.front() {
                if local.to.push(descriptor).is_err() {
                    is_stuck = true;
                    break;
                }
                local.pending.pop_front();
                if is_spout { local.waker.nudge() } else { local.waker.wake() }
            }
        }
        is_stuck
    }

    /// Deep only where no block is away: what bolts say of one does not wake a deep sleeper.
    fn sleep(&self, is_stuck: bool, away: u32) {
        let how = if away == 0 { Sleep::Deep } else { Sleep::Light };
        let ready = || self.spouts.iter().chain(&self.bolts).any(|local| local.from.has_some());
        if is_stuck {
            self.parker.park(how, ready, Some(FULL_RING));
        } else {
            sleep(&self.parker, how, ready);
        }
    }
}

fn round(seed: u64) {
    let mut whims = Whims(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (spouts, bolts) = (1 + whims.below(2) as u32, 1 + whims.below(2) as u32);
    let quota = 1 + whims.below(5) as u32;
    let capacity = 1 << whims.below(4);
    let config = PoolConfig { counts: [spouts * quota, 0, 0], max_tuple_bytes: 4096 };
    let pool = Arc::new(Pool::create(&config).unwrap());
    let attach = || Arc::new(Pool::attach(pool.duplicate_fd().unwrap()).unwrap());
    let [bed, bed_of_others] = mappings();
    let stmgr_waker = || Waker::futex(bed_of_others.clone(), 0);
    let local = |whims: &mut Whims| {
        let ((to, incoming), (out, from)) = (ring(capacity), ring(capacity));
        let [here, there] = mappings();
        let waker = Waker::futex(here, 0);
        let whims = Whims(whims.0.wrapping_add(2 * whims.below(1 << 20)));
        (Local { from, to, pending: VecDeque::new(), waker }, out, incoming, Parker::new(there, 0), whims)
    };
    let mut stmgr = Stmgr {
        spouts: Vec::new(),
        bolts: Vec::new(),
        quota,
        parker: Parker::new(bed, 0),
        whims: Whims(seed | 1),
    };
    let mut emitting = Vec::new();
    for task in 0..spouts {
        let (at_stmgr, out, grants, parker, own) = local(&mut whims);
        stmgr.spouts.push(at_stmgr);
        let free = (task * quota..(task + 1) * quota).map(BlockId).collect();
        let spout =
            Spout { task, pool: attach(), free, out, grants, parker, stmgr: stmgr_waker(), whims: own };
        emitting.push(thread::spawn(move || spout.run(bolts)));
    }
    let mut reading = Vec::new();
    for _ in 0..bolts {
        let (at_stmgr, done, incoming, parker, own) = local(&mut whims);
        stmgr.bolts.push(at_stmgr);
        let bolt = Bolt { pool: attach(), incoming, done, parker, stmgr: stmgr_waker(), whims: own };
        reading.push(thread::spawn(move || bolt.run(spouts)));
    }
    stmgr.run();
    emitting.into_iter().for_each(|spout| spout.join().unwrap());
    let arrived: u32 = reading.into_iter().flat_map(|bolt| bolt.join().unwrap()).sum();
    assert_eq!(arrived, spouts * TUPLES, "nothing is lost");
}

#[test]
fn blocks_arrive_in_order_and_come_home() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first: u64 = number("EGRET_TEST_SEED").unwrap_or_else(|| std::process::id().into());
    let rounds = number("EGRET_TEST_ROUNDS").unwrap_or(ROUNDS);
    for seed in first..first + rounds {
        println!("EGRET_TEST_SEED={seed}");
        round(seed);
    }
}
