//! What a seed stands for.

use egret::TopologyBuilder;
use egret_dataplane::simulation::Dice;
use std::time::Duration;

/// What the topology promises for each tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `ATMOST_ONCE`.
    AtMostOnce,
    /// `ATLEAST_ONCE`.
    AtLeastOnce,
}

/// How a bolt reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grouping {
    Shuffle,
    LocalOrShuffle,
    Fields,
    PartialKey,
    All,
    Global,
}

/// Copies of tuples that are executed in a scenario at most, when nothing goes wrong.
const MAX_EXECUTIONS: u64 = 20_000;
/// What is added to a tuple at most, in bytes.
pub(super) const MAX_PADDING: usize = 300 << 10;

const GROUPINGS: [Grouping; 6] = [
    Grouping::Shuffle,
    Grouping::LocalOrShuffle,
    Grouping::Fields,
    Grouping::PartialKey,
    Grouping::All,
    Grouping::Global,
];

/// One component.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) parallelism: u32,
    /// Whom it reads, by index, and how; a spout nobody.
    pub(super) inputs: Vec<(usize, Grouping)>,
    /// Tuples that a spout task emits.
    pub(super) count: u64,
    /// What a bolt emits for each that it executes, when somebody reads it.
    pub(super) fan_out: u32,
    /// What a call takes, most of the time.
    pub(super) takes: Duration,
    /// One call in so many takes a thousand times that; 0 for none.
    pub(super) slow_every: u64,
    /// One call in so many fails its root, when that is the first emission of its id; 0 for none.
    pub(super) fail_every: u64,
    /// What a spout waits after so many emissions.
    pub(super) wait: Duration,
    pub(super) burst: u64,
    /// Bytes that are added to each tuple of it.
    pub(super) padding: usize,
}

/// Tuples that need a block of a larger class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Large {
    /// The component that emits them.
    part: usize,
    /// One in so many of what it emits.
    every: u64,
    /// What is added to each.
    pub(super) bytes: usize,
}

impl Large {
    /// Whether the `seq`-th tuple of a process of this component is one.
    pub(super) fn is(&self, part: usize, seq: u64) -> bool {
        part == self.part && seq.is_multiple_of(self.every)
    }
}

/// A topology, and what happens to it.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its seed.
    pub seed: u64,
    /// What is promised.
    pub mode: Mode,
    /// Containers beside that of the tmaster.
    pub containers: u32,
    pub(super) parts: Vec<Part>,
    pub(super) large: Option<Large>,
    pub(super) config: Vec<(&'static str, String)>,
    /// Trees that a spout task may have in flight.
    pub(super) max_pending: u64,
    /// Whether tuples for a task that is behind are dropped.
    pub(super) drops: bool,
    /// Whether anything goes wrong.
    pub has_faults: bool,
    /// How long things go wrong.
    pub fault_time: Duration,
    /// From one fault to the next, on the average.
    pub(super) fault_gap: Duration,
    /// Half of what goes wrong are courses of events around the tmaster.
    pub(super) around_tmaster: bool,
    /// The slowest process is as many times slower than the fastest.
    pub(super) spread: u64,
    pub(super) max_delay: Duration,
    /// How long bolts keep an input until they ack it, in inputs.
    pub(super) keeps: usize,
    /// Something of it is drawn apart that seeds did not have at first.
    pub is_newer: bool,
}

impl Scenario {
    /// The scenario of a seed, with faults for at most this long.
    #[must_use]
    pub fn new(seed: u64, most: Duration) -> Self {
        let dice = &mut Dice::new(seed);
        let mode = if dice.once_in(3) { Mode::AtMostOnce } else { Mode::AtLeastOnce };
        let has_faults = !dice.once_in(4);
        let fault_time =
            if has_faults { most.mul_f64(dice.between(1, 100) as f64 / 100.0) } else { most / 20 };
        let mut parts = parts(dice);
        pace(&mut parts, fault_time, dice);
        // Drawn apart, as all that follows and says so: the seeds in `regressions.txt` mean what they meant before.
        let is_gathered = Dice::new(seed ^ 0xb0_067a).once_in(3);
        if is_gathered {
            gather(&mut parts[0], fault_time);
        }
        let gap_ms = *dice.choose(&[30, 200, 1000, 5000, 20_000]).unwrap_or(&1000);
        let tasks: u32 = parts.iter().map(|part| part.parallelism).sum();
        let mut number = |from: &[u64]| dice.choose(from).copied().unwrap_or(1);
        let high_mib = number(&[2, 4, 500, 1000]);
        // A tree that has more for one task than its watermark would be dropped and emitted again for ever.
        let drops = mode == Mode::AtMostOnce && number(&[0, 0, 0, 1]) == 1;
        let (blocks, flush_ms) = (number(&[4, 4, 6, 16, 64]), number(&[1, 5, 20]));
        let large = large(seed, parts.len());
        let max_bytes: u64 = if large.is_some() { 1 << 20 } else { 8 << 10 };
        let (max_pending, timeout_s) = (number(&[1, 3, 17, 200, 5000]), number(&[1, 3, 10, 30]));
        let config = vec![
            ("egret.pool.task.blocks", blocks.to_string()),
            ("egret.tuple.max.bytes", max_bytes.to_string()),
            ("egret.flush.interval.ms", flush_ms.to_string()),
            ("topology.max.spout.pending", max_pending.to_string()),
            ("topology.message.timeout.secs", timeout_s.to_string()),
            ("egret.streammgr.network.backpressure.highwatermark.mb", (high_mib as f64 / 1000.0).to_string()),
            ("egret.streammgr.network.backpressure.lowwatermark.mb", (high_mib as f64 / 2000.0).to_string()),
            ("topology.droptuples.upon.backpressure", drops.to_string()),
        ];
        Self {
            seed,
            mode,
            containers: dice.between(1, 4.min(u64::from(tasks))) as u32,
            parts,
            large,
            config,
            max_pending,
            drops,
            has_faults,
            fault_time,
            fault_gap: Duration::from_millis(gap_ms),
            // Drawn apart.
            around_tmaster: Dice::new(seed ^ 0x7a_57e5).once_in(4),
            spread: *dice.choose(&[1, 4, 30, 300]).unwrap_or(&4),
            max_delay: Duration::from_micros(*dice.choose(&[60, 500, 5_000, 80_000]).unwrap_or(&500)),
            is_newer: is_gathered || large.is_some(),
            keeps: if dice.once_in(3) { dice.between(1, 20) as usize } else { 0 },
        }
    }

    /// The same without a timeout that could save it: it completes only if whatever is lost fails at once.
    #[must_use]
    pub fn without_timeouts(mut self) -> Self {
        let timeout = self.config.iter_mut().find(|(key, _)| *key == "topology.message.timeout.secs");
        timeout.into_iter().for_each(|(_, secs)| *secs = (24 * 3600).to_string());
        self
    }

    /// The same with more that goes wrong around the tmaster.
    #[must_use]
    pub fn around_tmaster(mut self) -> Self {
        self.around_tmaster = true;
        self
    }

    /// How many copies a tuple of this component has: one for each reader, or one for each of its tasks.
    pub(super) fn copies(&self, part: usize) -> u64 {
        readers(&self.parts, part).map(|(_, copies)| copies).sum()
    }

    /// The topology's name.
    #[must_use]
    pub fn name(&self) -> String {
        format!("seed-{}", self.seed)
    }

    /// The name of a component.
    pub(super) fn id(part: usize) -> String {
        format!("c{part}")
    }

    pub(super) fn configure(&self, t: &mut TopologyBuilder) {
        t.config("topology.containers", self.containers);
        t.config(
            "topology.reliability.mode",
            match self.mode {
                Mode::AtMostOnce => "ATMOST_ONCE",
                Mode::AtLeastOnce => "ATLEAST_ONCE",
            },
        );
        for (key, value) in &self.config {
            t.config(key, value);
        }
    }
}

/// Who reads a component, by index, and how many copies of each tuple it gets.
fn readers(parts: &[Part], part: usize) -> impl Iterator<Item = (usize, u64)> {
    let inputs = parts.iter().enumerate().flat_map(|(index, reader)| {
        reader.inputs.iter().map(move |(from, how)| (index, reader.parallelism, *from, *how))
    });
    let of_it = inputs.filter(move |(_, _, from, _)| *from == part);
    of_it.map(|(index, parallelism, _, how)| {
        (index, if how == Grouping::All { parallelism.into() } else { 1 })
    })
}

/// How many copies are executed for each that a component emits.
fn executions(parts: &[Part], part: usize) -> u64 {
    let further = |reader: usize| 1 + u64::from(parts[reader].fan_out) * executions(parts, reader);
    readers(parts, part).map(|(reader, copies)| copies * further(reader)).sum()
}

/// Bounds what there is to do, and spreads some of it over the time of the faults, that of the first spout always:
/// else they would come to a topology that has completed.
fn pace(parts: &mut [Part], fault_time: Duration, dice: &mut Dice) {
    let spouts: Vec<usize> = (0..parts.len()).filter(|&part| parts[part].count > 0).collect();
    for &spout in &spouts {
        let each = u64::from(parts[spout].parallelism) * executions(parts, spout);
        let most = MAX_EXECUTIONS / spouts.len() as u64 / each.max(1);
        parts[spout].count = parts[spout].count.min(most.max(1));
        let burst = *dice.choose(&[1, 4, 4, 50]).unwrap_or(&4);
        if dice.once_in(2) || spout == 0 {
            parts[spout].burst = burst;
            parts[spout].wait = fault_time * burst as u32 / parts[spout].count.max(burst) as u32;
        }
    }
}

/// Has a spout emit in a few large bursts what it would have spread, so that things go wrong under load, too.
fn gather(spout: &mut Part, fault_time: Duration) {
    spout.burst = (spout.count / 4).max(1);
    spout.wait = fault_time * spout.burst as u32 / spout.count.max(1) as u32;
}

/// Drawn apart.
fn large(seed: u64, parts: usize) -> Option<Large> {
    let dice = &mut Dice::new(seed ^ 0x1a_76e1);
    let chosen = dice.once_in(4);
    let part = dice.below(parts as u64) as usize;
    let &(every, bytes) = dice.choose(&[(1, 20 << 10), (3, 20 << 10), (20, MAX_PADDING)])?;
    chosen.then_some(Large { part, every, bytes })
}

fn parts(dice: &mut Dice) -> Vec<Part> {
    let spouts = dice.between(1, 2) as usize;
    let bolts = dice.between(1, 4) as usize;
    (0..spouts + bolts).map(|index| part(dice, index, spouts)).collect()
}

fn part(dice: &mut Dice, index: usize, spouts: usize) -> Part {
    let is_spout = index < spouts;
    let count = *dice.choose(&[1, 20, 300, 1500]).unwrap_or(&20);
    let mut inputs: Vec<(usize, Grouping)> = Vec::new();
    if !is_spout {
        for _ in 0..dice.between(1, 2) {
            let from = dice.below(index as u64) as usize;
            let how = *dice.choose(&GROUPINGS).unwrap_or(&Grouping::Shuffle);
            if inputs.iter().all(|(other, _)| *other != from) {
                inputs.push((from, how));
            }
        }
    }
    Part {
        parallelism: dice.between(1, 3) as u32,
        inputs,
        count: if is_spout { count } else { 0 },
        fan_out: *dice.choose(&[1, 1, 1, 2, 3]).unwrap_or(&1),
        takes: Duration::from_micros(*dice.choose(&[0, 0, 5, 200]).unwrap_or(&0)),
        slow_every: *dice.choose(&[0, 0, 50]).unwrap_or(&0),
        fail_every: *dice.choose(&[0, 0, 40]).unwrap_or(&0),
        wait: Duration::ZERO,
        burst: 1,
        padding: *dice.choose(&[0, 0, 100, 3000]).unwrap_or(&0),
    }
}
