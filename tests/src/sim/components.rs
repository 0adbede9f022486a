//! The spouts and bolts of a scenario.

use super::journal::{Item, Journal};
use super::scenario::{Grouping, MAX_PADDING, Part, Scenario};
use egret::collector::Held;
use egret::{
    Blueprint, Bolt, BoltCollector, Context, Input, Next, Spout, SpoutCollector, TaskId, TopologyBuilder,
    Tuple,
};
use egret_dataplane::host;
use egret_dataplane::simulation::Dice;
use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Tuple)]
struct Wire<'a> {
    root: u64,
    key: u64,
    from: u32,
    process: u32,
    seq: u64,
    padding: &'a [u8],
}

/// How many keys there are.
const KEYS: u64 = 7;

/// The topology of a scenario, whose components write into `journal`.
pub(super) fn blueprint(scenario: &Arc<Scenario>, journal: &Journal) -> Blueprint {
    let mut t = TopologyBuilder::new(scenario.name());
    scenario.configure(&mut t);
    for (index, part) in scenario.parts.iter().enumerate() {
        let (of, journal) = (scenario.clone(), journal.clone());
        let id = Scenario::id(index);
        if part.inputs.is_empty() {
            t.spout(id, part.parallelism, move || {
                Source(Common::new(&of, index, &journal), Emits::default())
            })
            .emits::<Wire<'_>>();
            continue;
        }
        let bolt = t.bolt(id, part.parallelism, move || Relay {
            common: Common::new(&of, index, &journal),
            held: VecDeque::new(),
        });
        let mut bolt = bolt.emits::<Wire<'_>>();
        for (from, how) in &part.inputs {
            let from = Scenario::id(*from);
            bolt = match how {
                Grouping::Shuffle => bolt.shuffle(&from),
                Grouping::LocalOrShuffle => bolt.local_or_shuffle(&from),
                Grouping::Fields => bolt.fields(&from, ["key"]),
                Grouping::PartialKey => bolt.partial_key(&from, ["key"]),
                Grouping::All => bolt.all(&from),
                Grouping::Global => bolt.global(&from),
            };
        }
    }
    t.build()
        .unwrap_or_else(|problems| panic!("the scenario of seed {} is invalid: {problems:?}", scenario.seed))
}

/// What spouts and bolts have alike.
struct Common {
    scenario: Arc<Scenario>,
    part: usize,
    journal: Journal,
    task: TaskId,
    process: u32,
    seq: u64,
    calls: u64,
}

impl Common {
    fn new(scenario: &Arc<Scenario>, part: usize, journal: &Journal) -> Self {
        let (scenario, journal) = (scenario.clone(), journal.clone());
        Self { scenario, part, journal, task: TaskId(0), process: 0, seq: 0, calls: 0 }
    }

    fn begin(&mut self, context: &Context) {
        (self.task, self.process) = (context.task(), context.incarnation().0);
    }

    fn part(&self) -> &Part {
        &self.scenario.parts[self.part]
    }

    fn copies(&self) -> u64 {
        self.scenario.copies(self.part)
    }

    /// A call takes its time.
    fn work(&mut self) {
        self.calls += 1;
        let (takes, slow_every) = (self.part().takes, self.part().slow_every);
        if !takes.is_zero() {
            let is_slow = slow_every > 0 && self.calls.is_multiple_of(slow_every);
            host::sleep(if is_slow { takes * 1000 } else { takes });
        }
    }

    fn item(&mut self, root: u64, key: u64) -> Item {
        self.seq += 1;
        Item { root, key, from: self.task.0, process: self.process, seq: self.seq }
    }

    fn wire<'a>(&self, item: Item, padding: &'a [u8]) -> Wire<'a> {
        let large = self.scenario.large.filter(|large| large.is(self.part, item.seq));
        let padding = &padding[..large.map_or(self.part().padding, |large| large.bytes)];
        Wire {
            root: item.root,
            key: item.key,
            from: item.from,
            process: item.process,
            seq: item.seq,
            padding,
        }
    }
}

static PADDING: [u8; MAX_PADDING] = [7; MAX_PADDING];

#[derive(Default)]
struct Emits {
    again: VecDeque<u64>,
    next: u64,
}

struct Source(Common, Emits);

impl Spout for Source {
    /// The id, and the number of the root.
    type Id = (u64, u64);

    fn open(&mut self, context: &Context) -> egret::Result<()> {
        self.0.begin(context);
        let (again, next) = self.0.journal.to_emit(self.0.task, self.0.scenario.mode);
        self.1 = Emits { again: again.into(), next };
        Ok(())
    }

    fn next_tuple(&mut self, out: &mut SpoutCollector<(u64, u64)>) -> egret::Result<Next> {
        let Self(common, emits) = self;
        let id = match emits.again.pop_front() {
            Some(id) => id,
            None if emits.next < common.part().count => emits.next,
            None => return Ok(Next::Exhausted),
        };
        common.work();
        emits.next = emits.next.max(id + 1);
        let copies = common.copies();
        let root = common.journal.begin(common.task, common.process, id, copies);
        let item = common.item(root, Dice::new(id ^ u64::from(common.task.0) << 32).below(KEYS));
        if let Err(error) = out.emit(&common.wire(item, &PADDING)).id((id, root)) {
            common.journal.abandon(root, copies);
            emits.again.push_back(id);
            return Err(error);
        }
        let (wait, burst) = (common.part().wait, common.part().burst);
        Ok(if wait.is_zero() || !common.calls.is_multiple_of(burst) {
            Next::Emitted
        } else {
            Next::Wait(wait)
        })
    }

    fn ack(&mut self, (_, root): (u64, u64)) {
        self.0.journal.ended(self.0.task, self.0.process, root, true);
    }

    fn fail(&mut self, (id, root): (u64, u64)) {
        self.0.journal.ended(self.0.task, self.0.process, root, false);
        self.1.again.push_back(id);
    }
}

struct Relay {
    common: Common,
    /// Inputs that are acked later.
    held: VecDeque<(Held, u64)>,
}

impl Relay {
    fn ack_held(&mut self, keep: usize, out: &mut BoltCollector) -> egret::Result<()> {
        while self.held.len() > keep
            && let Some((input, root)) = self.held.pop_front()
        {
            self.common.journal.shrink(root);
            out.ack(&input)?;
        }
        Ok(())
    }
}

impl Bolt for Relay {
    fn prepare(&mut self, context: &Context) -> egret::Result<()> {
        self.common.begin(context);
        Ok(())
    }

    fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> egret::Result<()> {
        let common = &mut self.common;
        let wire = input.get::<Wire<'_>>()?;
        let item =
            Item { root: wire.root, key: wire.key, from: wire.from, process: wire.process, seq: wire.seq };
        let read_by = Journal::read_by(&common.scenario, common.part, input.source().0);
        common.journal.execute(common.task, common.process, item, &read_by);
        common.work();
        let fail_every = common.part().fail_every;
        if fail_every > 0 && common.calls.is_multiple_of(fail_every) && common.journal.may_fail(item.root) {
            return out.fail(input);
        }
        let copies = common.copies();
        if copies > 0 {
            for turn in 0..common.part().fan_out {
                common.journal.grow(item.root, copies);
                let child = common.item(item.root, (item.key + u64::from(turn)) % KEYS);
                out.emit(&common.wire(child, &PADDING)).anchor(input)?;
            }
        }
        if common.scenario.keeps > 0 {
            self.held.push_back((input.hold(), item.root));
            return self.ack_held(self.common.scenario.keeps, out);
        }
        common.journal.shrink(item.root);
        out.ack(input)
    }

    fn idle(&mut self, out: &mut BoltCollector) -> egret::Result<()> {
        self.ack_held(0, out)
    }

    fn finish(&mut self, out: &mut BoltCollector) -> egret::Result<()> {
        self.ack_held(0, out)?;
        let common = &mut self.common;
        let copies = common.copies();
        if copies > 0 {
            common.journal.grow(0, copies);
            let last = common.item(0, 0);
            out.emit(&common.wire(last, &PADDING)).unanchored()?;
        }
        common.journal.finish(common.task, common.process);
        Ok(())
    }
}
