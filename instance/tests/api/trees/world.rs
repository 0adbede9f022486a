//! A topology in one thread whose bolts do anything they may, and whose blocks arrive in any order.

use super::model::{Model, Roots, Told};
use crate::kit::{Aligned, Log, Word, emitter_of, table};
use egret::ledger::{Ledger, Limits, SharedLedger};
use egret::topology::Runner;
use egret::{Anchor, Blueprint, Bolt, BoltCollector, Error, Held, Input, Next, Spout, SpoutCollector};
use egret::{TaskId, TopologyBuilder};
use egret_dataplane::frame::{AckKind, AckReader, BatchReader, Destination, Root};
use egret_dataplane::ids::Incarnation;
use std::cell::RefCell;
use std::rc::Rc;

pub(crate) const TIMEOUT_US: u64 = 30_000_000;
const SPOUTS: u32 = 2;

type Shared = Rc<RefCell<Model>>;

/// Emits trees with ids, and notes each only after it was emitted.
struct Source {
    model: Shared,
    left: Rc<RefCell<usize>>,
}

impl Spout for Source {
    type Id = u64;

    fn next_tuple(&mut self, out: &mut SpoutCollector<u64>) -> egret::Result<Next> {
        if *self.left.borrow() == 0 {
            return Ok(Next::Exhausted);
        }
        *self.left.borrow_mut() -= 1;
        let n = self.model.borrow().next_tuple();
        let before = out.emitter().counters.sent;
        out.emit(&Word { word: "root", n }).id(n)?;
        let copies = out.emitter().counters.sent - before;
        self.model.borrow_mut().emitted(Roots::from([(n, true)]), copies);
        Ok(Next::Emitted)
    }

    fn ack(&mut self, id: u64) {
        self.model.borrow_mut().told(id, Told::Acked);
    }

    fn fail(&mut self, id: u64) {
        self.model.borrow_mut().told(id, Told::Failed);
    }
}

/// Emits, anchors, holds, acks and fails at random, and tells the model what it does.
struct Anything {
    model: Shared,
    emits: bool,
    held: Vec<(u64, Held)>,
}

impl Anything {
    fn emit(&self, out: &mut BoltCollector, anchors: &[(&dyn Anchor, u64, bool)]) -> egret::Result<()> {
        let (n, roots) = {
            let model = self.model.borrow();
            let tuples: Vec<_> = anchors.iter().map(|&(_, tuple, open)| (tuple, open)).collect();
            (model.next_tuple(), model.union(&tuples))
        };
        let before = out.emitter().counters.sent;
        let anchors: Vec<_> = anchors.iter().map(|&(anchor, ..)| anchor).collect();
        out.emit(&Word { word: ["x", "y", "z"][n as usize % 3], n }).anchors(&anchors)?;
        let copies = out.emitter().counters.sent - before;
        self.model.borrow_mut().emitted(roots, copies);
        Ok(())
    }

    /// A child of the input, and maybe of others that are kept, some of them named twice.
    fn emit_some(&self, out: &mut BoltCollector, input: &Input<'_>, n: u64, open: bool) -> egret::Result<()> {
        let mut anchors: Vec<(&dyn Anchor, u64, bool)> = vec![(input, n, open)];
        while !self.held.is_empty() && anchors.len() < 5 && self.model.borrow_mut().chance(40) {
            let (tuple, held) = &self.held[self.model.borrow_mut().below(self.held.len())];
            anchors.push((held, *tuple, true));
        }
        if self.model.borrow_mut().chance(50) {
            anchors.reverse();
        }
        self.emit(out, &anchors)
    }

    fn settle(&self, out: &mut BoltCollector, input: &impl Anchor, n: u64) -> egret::Result<()> {
        let choice = self.model.borrow_mut().below(100);
        match choice {
            // Forgotten.
            0 => {}
            1..4 => {
                out.fail(input)?;
                out.ack(input)?;
                self.model.borrow_mut().failed(n);
            }
            _ => {
                out.ack(input)?;
                if choice < 30 {
                    out.ack(input)?;
                    out.fail(input)?;
                }
                self.model.borrow_mut().acked(n);
            }
        }
        Ok(())
    }
}

impl Bolt for Anything {
    fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> egret::Result<()> {
        let n = input.get::<Word>()?.n;
        let children = if self.emits { self.model.borrow_mut().below(3) } else { 0 };
        for _ in 0..children {
            if self.model.borrow_mut().chance(10) {
                let unanchored = self.model.borrow().next_tuple();
                out.emit(&Word { word: "none", n: unanchored }).unanchored()?;
                self.model.borrow_mut().emitted(Roots::new(), 0);
            } else {
                self.emit_some(out, input, n, true)?;
            }
        }
        if self.model.borrow_mut().chance(1) {
            self.model.borrow_mut().failed(n);
            return Err(Error::msg("no good"));
        }
        if self.model.borrow_mut().chance(25) {
            self.held.push((n, input.hold()));
            out.ack(input)?;
        } else {
            self.settle(out, input, n)?;
            if self.emits && self.model.borrow_mut().chance(20) {
                self.emit_some(out, input, n, false)?;
            }
        }
        while self.held.len() > 6 || (!self.held.is_empty() && self.model.borrow_mut().chance(20)) {
            let which = self.model.borrow_mut().below(self.held.len());
            let (n, held) = self.held.swap_remove(which);
            self.settle(out, &held, n)?;
        }
        Ok(())
    }

    fn idle(&mut self, out: &mut BoltCollector) -> egret::Result<()> {
        for (n, held) in std::mem::take(&mut self.held) {
            out.ack(&held)?;
            self.model.borrow_mut().acked(n);
        }
        Ok(())
    }
}

struct Task {
    runner: Runner,
    log: Rc<RefCell<Log>>,
}

pub(crate) struct World {
    pub(crate) model: Shared,
    blueprint: Blueprint,
    /// Task `i + 1` at `i`, spouts first.
    tasks: Vec<Task>,
    pub(crate) ledgers: Vec<SharedLedger>,
    left: Rc<RefCell<usize>>,
    /// Blocks on their way to a task.
    flying: Vec<(TaskId, Aligned)>,
    /// Acks that were applied.
    old: Vec<Aligned>,
    now_us: u64,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut t = TopologyBuilder::new("trees");
        t.config("topology.reliability.mode", "ATLEAST_ONCE");
        t.spout("source", SPOUTS, || crate::kit::Nothing).emits::<Word>();
        t.basic_bolt("a", 3, || crate::kit::Ignore).shuffle("source").emits::<Word>();
        t.basic_bolt("b", 2, || crate::kit::Ignore).all("a").all("source").emits::<Word>();
        t.basic_bolt("c", 2, || crate::kit::Ignore).fields("a", ["word"]).shuffle("b").emits::<Word>();
        t.basic_bolt("d", 1, || crate::kit::Ignore).global("c").all("b");
        let blueprint = t.build().expect("a valid topology");
        let mut world = Self {
            model: Rc::new(RefCell::new(Model::new(seed))),
            blueprint,
            tasks: Vec::new(),
            ledgers: Vec::new(),
            left: Rc::default(),
            flying: Vec::new(),
            old: Vec::new(),
            now_us: 0,
        };
        (1..=world.blueprint.topology().task_count()).for_each(|task| world.add(TaskId(task)));
        world
    }

    fn add(&mut self, task: TaskId) {
        let (emitter, log) = emitter_of(&self.blueprint, task);
        let model = self.model.clone();
        let runner = if task.0 <= SPOUTS {
            let ledger = Ledger::new(Limits { max_pending: 100, timeout_us: TIMEOUT_US });
            let ledger = Rc::new(RefCell::new(ledger));
            self.ledgers.push(ledger.clone());
            let emitter = emitter.with_ledger(ledger, Incarnation(task.0 + 10));
            Runner::spout(Source { model, left: self.left.clone() }, emitter)
        } else {
            let emits = task.0 < self.blueprint.topology().task_count();
            Runner::bolt(Anything { model, emits, held: Vec::new() }, emitter)
        };
        self.tasks.push(Task { runner, log });
    }

    /// Emits so many trees and lets them grow until nothing is on its way.
    pub(crate) fn run(&mut self, trees: usize) {
        *self.left.borrow_mut() = trees;
        loop {
            let step = self.model.borrow_mut().below(10);
            match step {
                0 => self.spouts(),
                1 => self.flush(),
                2 => self.apply_old(),
                _ if !self.flying.is_empty() => self.deliver(),
                _ if self.flush_all() => {}
                _ => {
                    // Only what was forgotten is left.
                    self.model.borrow().check_settled();
                    let done = *self.left.borrow() == 0;
                    self.time_out();
                    if done {
                        break;
                    }
                }
            }
        }
    }

    fn below(&self, n: usize) -> usize {
        self.model.borrow_mut().below(n)
    }

    fn spouts(&mut self) {
        self.now_us += 100;
        for (task, ledger) in self.tasks.iter_mut().zip(&self.ledgers) {
            let Runner::Spout(spout) = &mut task.runner else { panic!("a spout") };
            spout.deliver();
            while ledger.borrow().room() > 0 && spout.next_tuples(1).unwrap() == Next::Emitted {}
            ledger.borrow_mut().turn(self.now_us);
            assert!(ledger.borrow().in_flight() <= 100);
        }
    }

    fn flush(&mut self) {
        let which = self.below(self.tasks.len());
        let emitter = self.tasks[which].runner.emitter();
        if self.model.borrow_mut().chance(50) {
            emitter.flush()
        } else {
            emitter.flush_acks()
        }
        self.collect();
    }

    /// Settles what is kept and flushes; whether something is on its way.
    fn flush_all(&mut self) -> bool {
        self.spouts();
        for task in &mut self.tasks {
            if let Runner::Bolt(bolt) = &mut task.runner {
                bolt.idle().unwrap();
            }
            task.runner.emitter().flush();
        }
        self.collect();
        !self.flying.is_empty()
    }

    fn collect(&mut self) {
        let topology = self.blueprint.topology().clone();
        for task in &self.tasks {
            for (target, bytes) in std::mem::take(&mut task.log.borrow_mut().pushed) {
                let bytes = Aligned::from(bytes.as_slice());
                match target {
                    Destination::Task(task) => self.flying.push((task, bytes)),
                    Destination::Broadcast(number) => {
                        let to = topology.broadcasts()[number as usize].to;
                        let tasks = topology.tasks(to).map(TaskId);
                        self.flying.extend(tasks.map(|task| (task, bytes.clone())));
                    }
                }
            }
        }
    }

    fn deliver(&mut self) {
        let (task, block) = self.flying.swap_remove(self.below(self.flying.len()));
        if task.0 <= SPOUTS {
            self.apply(&block);
            self.old.push(block);
        } else if self.model.borrow_mut().chance(1) {
            self.lose(&block);
        } else {
            self.execute(task, &block);
        }
    }

    fn apply(&mut self, block: &[u8]) {
        self.now_us += 1;
        let reader = AckReader::new(block).unwrap();
        let header = reader.header();
        assert_eq!(header.owner.incarnation(), Incarnation(header.owner.spout().0 + 10));
        let mut ledger = self.ledgers[header.owner.spout().0 as usize - 1].borrow_mut();
        ledger.set_now(self.now_us);
        for record in reader.records() {
            match header.kind {
                AckKind::Ack => ledger.ack_all(record),
                AckKind::Fail => ledger.fail_all_of(record),
            }
        }
    }

    /// What was applied comes once more, when all it was about is over: its places have other roots by now.
    fn apply_old(&mut self) {
        let model = self.model.borrow();
        let over = model.trees.values().all(|tree| tree.told.is_some());
        drop(model);
        if over {
            self.spouts();
            let before: Vec<u32> = self.ledgers.iter().map(|l| l.borrow().in_flight()).collect();
            for block in std::mem::take(&mut self.old) {
                self.apply(&block);
            }
            let after: Vec<u32> = self.ledgers.iter().map(|l| l.borrow().in_flight()).collect();
            assert_eq!(before, after, "late acks closed something");
        }
    }

    fn lose(&mut self, block: &[u8]) {
        for tuple in BatchReader::new(block).unwrap().tuples() {
            let tuple = tuple.unwrap();
            for Root { owner, id } in tuple.roots.iter() {
                self.ledgers[owner.spout().0 as usize - 1].borrow_mut().fail(id);
            }
            let n = <Word<'_> as egret::Tuple>::read(tuple.archive).unwrap().n;
            self.model.borrow_mut().failed(n);
        }
    }

    fn execute(&mut self, task: TaskId, block: &[u8]) {
        let table = table(&self.blueprint, task.0);
        let mut block = table.open(block).unwrap();
        let Runner::Bolt(bolt) = &mut self.tasks[task.0 as usize - 1].runner else { panic!("a bolt") };
        loop {
            match bolt.execute(&mut block, 100) {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => bolt.fail(&block).unwrap(),
            }
        }
    }

    /// Lets time pass until what nobody settles is over.
    fn time_out(&mut self) {
        self.model.borrow_mut().late = true;
        self.now_us += TIMEOUT_US * 11 / 10;
        for ledger in &self.ledgers {
            ledger.borrow_mut().expire(self.now_us);
        }
        self.spouts();
        self.model.borrow_mut().late = false;
        self.flush_all();
    }
}
