//! What acks, fails, anchors and held inputs come to, record by record.

use crate::kit::{Aligned, Ignore, Log, Word, blocks, emitter_of, table};
use egret::ledger::{Ledger, Limits, SharedLedger};
use egret::topology::{BoltRunner, Runner, SpoutRunner};
use egret::{
    Acked, Anchor, Blueprint, Bolt, BoltCollector, Held, Input, Next, Spout, SpoutCollector, TaskId,
    TopologyBuilder,
};
use egret_dataplane::frame::{AckKind, AckReader, BatchReader};
use egret_dataplane::ids::Incarnation;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

const INCARNATION: Incarnation = Incarnation(3);

/// `source` (1) → `middle` (2) → `sink` (3), tracked.
fn blueprint(mode: &str) -> Blueprint {
    let mut t = TopologyBuilder::new("acks");
    t.config("topology.reliability.mode", mode);
    t.spout("source", 1, || crate::kit::Nothing).emits::<Word>().emits_on::<Word>("unread");
    t.basic_bolt("middle", 1, || Ignore).shuffle("source").emits::<Word>();
    t.basic_bolt("sink", 1, || Ignore).shuffle("middle");
    t.build().unwrap()
}

fn ledger(max_pending: u32) -> SharedLedger {
    Rc::new(RefCell::new(Ledger::new(Limits { max_pending, timeout_us: 1_000_000 })))
}

fn spout_of(runner: &mut Runner) -> &mut dyn SpoutRunner {
    let Runner::Spout(spout) = runner else { panic!("a spout") };
    spout.as_mut()
}

/// Emits so many ids in each call, and notes each only after it was emitted.
struct Noting {
    in_a_call: u64,
    next: u64,
    noted: BTreeMap<u64, ()>,
    told: Rc<RefCell<Vec<(char, u64)>>>,
}

impl Noting {
    fn tell(&mut self, what: char, id: u64) {
        assert!(self.noted.remove(&id).is_some(), "{id} comes back before it was noted");
        self.told.borrow_mut().push((what, id));
    }
}

impl Spout for Noting {
    type Id = u64;

    fn next_tuple(&mut self, out: &mut SpoutCollector<u64>) -> egret::Result<Next> {
        for _ in 0..self.in_a_call {
            out.emit(&Word { word: "x", n: self.next }).id(self.next)?;
            self.noted.insert(self.next, ());
            self.next += 1;
        }
        Ok(Next::Emitted)
    }

    fn ack(&mut self, id: u64) {
        self.tell('a', id);
    }

    fn fail(&mut self, id: u64) {
        self.tell('f', id);
    }
}

type Tracked = (Runner, SharedLedger, Rc<RefCell<Vec<(char, u64)>>>, Rc<RefCell<Log>>);

fn noting(in_a_call: u64, max_pending: u32) -> Tracked {
    let told = Rc::new(RefCell::new(Vec::new()));
    let (emitter, log) = emitter_of(&blueprint("ATLEAST_ONCE"), TaskId(1));
    let ledger = ledger(max_pending);
    let spout = Noting { in_a_call, next: 0, noted: BTreeMap::new(), told: told.clone() };
    (Runner::spout(spout, emitter.with_ledger(ledger.clone(), INCARNATION)), ledger, told, log)
}

/// The roots' ids in the blocks pushed so far, with the edges of their tuples.
fn emitted(log: &Rc<RefCell<Log>>) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    for block in blocks(&log.borrow()) {
        let Ok(reader) = BatchReader::new(&block) else { continue };
        for tuple in reader.tuples() {
            let tuple = tuple.unwrap();
            let edge = tuple.edge(reader.header().edge_base, TaskId(2));
            found.extend(tuple.roots.iter().map(|root| (root.id, edge)));
        }
    }
    found
}

/// BR-007, and `max.spout.pending` within a call: what must end to make room is told after the call.
#[test]
fn a_call_that_emits_more_than_may_be_pending_waits_and_is_told_afterwards() {
    let (mut runner, ledger, told, log) = noting(5, 2);
    let (acker, acked) = (ledger.clone(), RefCell::new(0));
    let pushed = log.clone();
    log.borrow_mut().close_one = Some(Box::new(move || {
        assert_eq!(acker.borrow().in_flight(), 2);
        let (id, edge) = emitted(&pushed)[*acked.borrow()];
        *acked.borrow_mut() += 1;
        acker.borrow_mut().ack(id, edge);
    }));
    let spout = spout_of(&mut runner);
    assert_eq!(spout.next_tuples(1).unwrap(), Next::Emitted);
    assert_eq!(told.borrow()[..], [('a', 0), ('a', 1), ('a', 2)]);
    assert_eq!(ledger.borrow().in_flight(), 2);
    // Full: it is not called at all.
    assert_eq!(spout.next_tuples(10).unwrap(), Next::Emitted);
    assert_eq!(spout.emitter().counters.emitted, 5);
    ledger.borrow_mut().fail_all();
    assert!(spout.deliver());
    assert_eq!(told.borrow()[3..], [('f', 3), ('f', 4)]);
    assert!(ledger.borrow().is_empty());
    let counters = spout.emitter().counters;
    assert_eq!((counters.acked, counters.failed, counters.timed_out), (3, 2, 0));
}

/// Stopped while it waits for room: the emission fails and its id does not come back, the others do.
#[test]
fn a_stop_ends_the_wait_for_room() {
    let (mut runner, ledger, told, _log) = noting(3, 2);
    let spout = spout_of(&mut runner);
    assert!(spout.next_tuples(1).unwrap_err().is_stopped());
    ledger.borrow_mut().fail_all();
    assert!(spout.deliver());
    assert_eq!(told.borrow().len(), 2);
    assert!(ledger.borrow().is_empty());
}

#[test]
fn nobody_reads_it_so_it_is_complete_and_errors_leave_nothing() {
    struct Unread(Rc<RefCell<u64>>);
    impl Spout for Unread {
        type Id = ();
        fn next_tuple(&mut self, out: &mut SpoutCollector<()>) -> egret::Result<Next> {
            out.emit(&Word { word: "x", n: 1 }).on("unread").id(())?;
            assert_eq!(*self.0.borrow(), 0, "not within the call");
            assert!(out.emit(&Word { word: "x", n: 2 }).on("undeclared").id(()).is_err());
            Ok(Next::Exhausted)
        }
        fn ack(&mut self, (): ()) {
            *self.0.borrow_mut() += 1;
        }
    }
    let (emitter, _) = emitter_of(&blueprint("ATLEAST_ONCE"), TaskId(1));
    let (acked, ledger) = (Rc::new(RefCell::new(0)), ledger(10));
    let mut runner = Runner::spout(Unread(acked.clone()), emitter.with_ledger(ledger.clone(), INCARNATION));
    assert_eq!(spout_of(&mut runner).next_tuples(5).unwrap(), Next::Exhausted);
    assert_eq!(*acked.borrow(), 1);
    assert!(ledger.borrow().is_empty());
}

/// A panic within an emission, of a custom grouping, leaves no tree behind that nobody could end.
#[test]
fn a_root_whose_emission_panicked_never_was() {
    let mut t = TopologyBuilder::new("acks");
    t.config("topology.reliability.mode", "ATLEAST_ONCE");
    t.spout("source", 1, || crate::kit::Nothing).emits::<Word>();
    let is_first = AtomicBool::new(true);
    t.basic_bolt("sink", 1, || Ignore).custom("source", move |targets| {
        assert!(!is_first.swap(false, Ordering::Relaxed), "no choice");
        targets.choose(0);
    });
    let (emitter, log) = emitter_of(&t.build().unwrap(), TaskId(1));
    let (ledger, told) = (ledger(10), Rc::default());
    let spout = Noting { in_a_call: 1, next: 0, noted: BTreeMap::new(), told: Rc::clone(&told) };
    let mut runner = Runner::spout(spout, emitter.with_ledger(ledger.clone(), INCARNATION));
    let spout = spout_of(&mut runner);
    assert!(catch_unwind(AssertUnwindSafe(|| spout.next_tuples(1))).is_err());
    assert!(ledger.borrow().is_empty());
    assert!(!spout.deliver());
    assert!(ledger.borrow().is_empty());
    // Its id is the next one's.
    assert_eq!(spout.next_tuples(1).unwrap(), Next::Emitted);
    spout.emitter().flush();
    ack_emitted(&ledger, &log);
    spout.deliver();
    assert_eq!(told.borrow()[..], [('a', 0)]);
    assert!(ledger.borrow().is_empty());
}

fn ack_emitted(ledger: &SharedLedger, log: &Rc<RefCell<Log>>) {
    emitted(log).into_iter().for_each(|(id, edge)| ledger.borrow_mut().ack(id, edge));
}

/// Asks for one of the ids that it is told at once.
struct Picky {
    picked: Rc<RefCell<Vec<u64>>>,
    panics: bool,
}

impl Spout for Picky {
    type Id = u64;

    fn next_tuple(&mut self, out: &mut SpoutCollector<u64>) -> egret::Result<Next> {
        (10..15).try_for_each(|n| out.emit(&Word { word: "x", n }).id(n))?;
        Ok(Next::Emitted)
    }

    fn ack_all(&mut self, ids: &mut Acked<'_, u64>) {
        self.picked.borrow_mut().extend(ids.next());
        assert!(!std::mem::take(&mut self.panics), "after the first one");
    }
}

#[test]
fn what_a_spout_does_not_ask_for_it_is_not_told_and_after_a_panic_it_is_told_the_rest() {
    for panics in [false, true] {
        let (emitter, log) = emitter_of(&blueprint("ATLEAST_ONCE"), TaskId(1));
        let (ledger, picked) = (ledger(10), Rc::default());
        let spout = Picky { picked: Rc::clone(&picked), panics };
        let mut runner = Runner::spout(spout, emitter.with_ledger(ledger.clone(), INCARNATION));
        let spout = spout_of(&mut runner);
        assert_eq!(spout.next_tuples(1).unwrap(), Next::Emitted);
        spout.emitter().flush();
        ack_emitted(&ledger, &log);
        assert_eq!(catch_unwind(AssertUnwindSafe(|| spout.deliver())).is_err(), panics);
        assert!(!spout.deliver());
        assert_eq!(picked.borrow()[..], if panics { vec![10, 11] } else { vec![10] });
        assert_eq!(spout.emitter().counters.acked, 5);
        assert!(ledger.borrow().is_empty());
    }
}

/// A block of `count` tracked words of the source.
fn block(count: u64) -> (Aligned, Vec<(u64, u64)>) {
    let (mut runner, _, _, log) = noting(count, 100);
    assert_eq!(spout_of(&mut runner).next_tuples(1).unwrap(), Next::Emitted);
    runner.emitter().flush();
    let emitted = emitted(&log);
    (blocks(&log.borrow()).remove(0), emitted)
}

type Script = Box<dyn FnMut(u64, &Input<'_>, &mut BoltCollector) -> egret::Result<()>>;

struct Scripted(Script);

impl Bolt for Scripted {
    fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> egret::Result<()> {
        let n = input.get::<Word>()?.n;
        (self.0)(n, input, out)
    }
}

/// What a bolt that does this tells of each root, and the edges that it emitted for each.
#[derive(Debug, Default, PartialEq)]
struct Said {
    acks: BTreeMap<u64, Vec<u64>>,
    fails: Vec<u64>,
    emitted: BTreeMap<u64, Vec<u64>>,
}

fn run(
    mode: &str,
    block: &[u8],
    script: impl FnMut(u64, &Input<'_>, &mut BoltCollector) -> egret::Result<()> + 'static,
) -> Said {
    let blueprint = blueprint(mode);
    let (emitter, log) = emitter_of(&blueprint, TaskId(2));
    let mut runner = Runner::bolt(Scripted(Box::new(script)), emitter);
    let table = table(&blueprint, 2);
    let mut block = table.open(block).unwrap();
    let Runner::Bolt(bolt) = &mut runner else { panic!("a bolt") };
    execute(bolt.as_mut(), &mut block);
    runner.emitter().flush();
    said(&log)
}

fn execute(bolt: &mut dyn BoltRunner, block: &mut egret::collector::InputBlock<'_>) {
    loop {
        match bolt.execute(block, 10) {
            Ok(true) => {}
            Ok(false) => return,
            Err(_) => bolt.fail(block).unwrap(),
        }
    }
}

fn said(log: &Rc<RefCell<Log>>) -> Said {
    let mut said = Said::default();
    for block in blocks(&log.borrow()) {
        if let Ok(reader) = AckReader::new(&block) {
            let header = reader.header();
            assert_eq!(
                (header.source, header.owner.spout(), header.owner.incarnation()),
                (TaskId(2), TaskId(1), INCARNATION)
            );
            for record in reader.records() {
                for id in record.ids() {
                    match header.kind {
                        AckKind::Ack => said.acks.entry(id).or_default().push(record.xor),
                        AckKind::Fail => said.fails.push(id),
                    }
                }
            }
        } else {
            let reader = BatchReader::new(&block).unwrap();
            for tuple in reader.tuples() {
                let tuple = tuple.unwrap();
                let edge = tuple.edge(reader.header().edge_base, TaskId(3));
                tuple.roots.iter().for_each(|root| said.emitted.entry(root.id).or_default().push(edge));
            }
        }
    }
    said
}

fn word(n: u64) -> Word<'static> {
    Word { word: "y", n }
}

#[test]
fn an_ack_brings_the_edges_along() {
    let (block, roots) = block(2);
    let said = run("ATLEAST_ONCE", &block, |n, input, out| {
        for _ in 0..=n {
            out.emit(&word(n)).anchor(input)?;
        }
        out.emit(&word(n)).unanchored()?;
        out.ack(input)?;
        out.ack(input)?;
        out.fail(input)
    });
    assert!(said.fails.is_empty());
    for (n, (root, edge)) in roots.into_iter().enumerate() {
        assert_eq!(said.emitted[&root].len(), n + 1);
        let edges = said.emitted[&root].iter().fold(edge, |all, edge| all ^ edge);
        assert_eq!(said.acks[&root], [edges]);
    }
}

/// Two anchors with a root in common: it is once in the tuple, and one of the two acks brings the edge along.
#[test]
fn shared_roots_are_counted_once() {
    let (block, roots) = block(2);
    let said = run("ATLEAST_ONCE", &block, {
        let mut first: Option<Held> = None;
        move |n, input, out| {
            let Some(held) = first.take() else {
                first = Some(input.hold());
                return out.ack(input);
            };
            let anchors: [&dyn Anchor; 4] = [input, &held, input, &held];
            out.emit(&word(n)).anchors(&anchors)?;
            out.ack(&held)?;
            out.ack(input)
        }
    });
    for (root, edge) in roots {
        assert_eq!(said.emitted[&root].len(), 1);
        assert_eq!(said.acks[&root], [edge ^ said.emitted[&root][0]]);
    }
}

/// What is anchored on an input that was acked is told apart, unless another anchor can still bring it along.
#[test]
fn late_anchors() {
    let (one, roots) = block(1);
    let said = run("ATLEAST_ONCE", &one, |n, input, out| {
        out.ack(input)?;
        out.emit(&word(n)).anchor(input)
    });
    let (root, edge) = roots[0];
    assert_eq!(said.acks[&root], [edge, said.emitted[&root][0]]);

    let (two, roots) = block(1);
    let said = run("ATLEAST_ONCE", &two, |n, input, out| {
        out.emit(&word(n)).anchor(input)?;
        let held = input.hold();
        // Both have the root; the input's ack is out of its hands.
        out.emit(&word(n)).anchors(&[input, &held])?;
        out.emit(&word(n)).anchors(&[&held, input])?;
        out.ack(input)?;
        out.ack(&held)
    });
    let (root, edge) = roots[0];
    assert_eq!(said.acks[&root], [said.emitted[&root].iter().fold(edge, |all, edge| all ^ edge)]);
}

#[test]
fn errors_fail_what_was_not_acked() {
    let (block, roots) = block(4);
    let said = run("ATLEAST_ONCE", &block, |n, input, out| {
        match n {
            0 => {}
            1 => out.ack(input)?,
            2 => out.fail(input)?,
            _ => drop(input.hold()),
        }
        Err(egret::Error::msg("no good"))
    });
    assert_eq!(said.fails, [roots[0].0, roots[2].0, roots[3].0]);
    assert_eq!(said.acks.into_keys().collect::<Vec<_>>(), [roots[1].0]);
}

#[test]
fn at_most_once_has_no_roots() {
    let (block, _) = block(2);
    let said = run("ATMOST_ONCE", &block, |n, input, out| {
        out.emit(&word(n)).anchor(input)?;
        out.emit(&word(n)).anchors(&[input, &input.hold()])?;
        out.ack(input)?;
        out.fail(input)
    });
    assert_eq!(said, Said::default());
}
