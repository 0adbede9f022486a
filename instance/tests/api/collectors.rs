//! Components behind their runners: acks, inputs, basic bolts, passing on.

use crate::kit::{Nothing, Word, archives, blocks, counts, emitter, emitter_of, one_reader, table};
use egret::collector::{Counters, InputError};
use egret::topology::{Factory, Runner};
use egret::{BasicBolt, BasicCollector, Blueprint, Bolt, BoltCollector, Input, Next, Spout, SpoutCollector};
use egret::{TaskId, TopologyBuilder, Tuple, TupleError};
use egret_dataplane::ids::StreamIndex;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Emits numbered words with ids and notes an id only after it was emitted, as STORM-2957 did.
struct Tracked {
    left: u64,
    pending: BTreeMap<u64, &'static str>,
    acked: Rc<RefCell<Vec<u64>>>,
}

impl Spout for Tracked {
    type Id = u64;

    fn next_tuple(&mut self, out: &mut SpoutCollector<u64>) -> egret::Result<Next> {
        if self.left == 0 {
            return Ok(Next::Exhausted);
        }
        for _ in 0..2 {
            out.emit(&Word { word: "x", n: self.left }).id(self.left)?;
            self.pending.insert(self.left, "x");
            self.left -= 1;
        }
        Ok(Next::Emitted)
    }

    fn ack(&mut self, id: u64) {
        assert!(self.pending.remove(&id).is_some(), "{id} is acked before it was noted");
        self.acked.borrow_mut().push(id);
    }

    fn close(&mut self) {
        assert!(self.pending.is_empty());
    }
}

fn spout(runner: &mut Runner) -> &mut dyn egret::topology::SpoutRunner {
    let Runner::Spout(spout) = runner else { panic!("a spout") };
    spout.as_mut()
}

fn bolt(runner: &mut Runner) -> &mut dyn egret::topology::BoltRunner {
    let Runner::Bolt(bolt) = runner else { panic!("a bolt") };
    bolt.as_mut()
}

/// BR-007: without tracking, an id is acked after `next_tuple` has returned.
#[test]
fn acks_come_after_the_spout_has_noted_its_ids() {
    let (emitter, _) = emitter(&one_reader(1, |b| b.shuffle("source")));
    let acked = Rc::new(RefCell::new(Vec::new()));
    let tracked = Tracked { left: 10, pending: BTreeMap::new(), acked: acked.clone() };
    let mut runner = Runner::spout(tracked, emitter);
    let spout = spout(&mut runner);
    assert_eq!(spout.next_tuples(3).unwrap(), Next::Emitted);
    assert_eq!(acked.borrow()[..], [10, 9, 8, 7, 6, 5]);
    assert_eq!(spout.next_tuples(100).unwrap(), Next::Exhausted);
    spout.close();
    let expected = Counters { emitted: 10, sent: 10, acked: 10, ..Counters::default() };
    assert_eq!(spout.emitter().counters, expected);
}

/// Passes words on, typed or as they are, and refuses some.
struct Relay;

impl Bolt for Relay {
    fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> egret::Result<()> {
        let Word { word, n } = input.get::<Word>()?;
        match word {
            "fail" => return out.fail(input),
            "error" => return Err(egret::Error::msg("no good")),
            "copy" => out.emit(&Word { word, n }).anchors(&[input, input])?,
            _ => out.forward(input)?.anchor(input)?,
        }
        out.ack(input)
    }
}

fn relay() -> Blueprint {
    let mut t = TopologyBuilder::new("relay");
    t.spout("source", 1, || Nothing).emits::<Word>();
    t.bolt("relay", 1, || Relay).shuffle("source").emits::<Word>();
    t.bolt("sink", 2, || Relay).fields("relay", ["word"]);
    t.build().unwrap()
}

/// The blocks of these words, as the source emits them.
fn emitted(blueprint: &Blueprint, words: &[&str]) -> Vec<crate::kit::Aligned> {
    let (emitter, log) = emitter(blueprint);
    let mut out = SpoutCollector::<()>::new(emitter);
    for (n, word) in words.iter().enumerate() {
        out.emit(&Word { word, n: n as u64 }).untracked().unwrap();
    }
    out.emitter().flush();
    blocks(&log.borrow())
}

#[test]
fn a_block_goes_on_after_an_error() {
    let blueprint = relay();
    let words = ["a", "a word of some length", "error", "fail", "copy"];
    let blocks = emitted(&blueprint, &words);
    let (emitter, log) = emitter_of(&blueprint, TaskId(2));
    let mut runner = blueprint.factory(TaskId(2)).unwrap().make(emitter);
    let table = table(&blueprint, 2);
    let mut block = table.open(&blocks[0]).unwrap();
    let relay = bolt(&mut runner);
    assert_eq!(relay.execute(&mut block, 100).unwrap_err().to_string(), "no good");
    relay.execute(&mut block, 100).unwrap();
    relay.execute(&mut block, 100).unwrap();
    relay.emitter().flush();
    let expected = Counters { emitted: 3, sent: 3, executed: 5, acked: 3, failed: 1, timed_out: 0 };
    assert_eq!(relay.emitter().counters, expected);
    let mut sent: Vec<_> = archives(&log.borrow()).into_iter().flat_map(|(_, tuples)| tuples).collect();
    sent.sort_by_key(|t| Word::read(t).unwrap().n);
    let sent: Vec<_> = sent.iter().map(|t| Word::read(t).unwrap()).collect();
    let expected = [(0, words[0]), (1, words[1]), (4, words[4])].map(|(n, word)| Word { word, n });
    assert_eq!(sent, expected);
}

/// What is passed on unread is routed by its key like what was emitted typed.
#[test]
fn forwarded_and_typed_tuples_share_a_key() {
    let blueprint = relay();
    let keys: Vec<String> = (0..50).map(|i| format!("key {i} of fifty")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let blocks = emitted(&blueprint, &keys);
    let (emitter, forwarded) = emitter_of(&blueprint, TaskId(2));
    let mut runner = Runner::bolt(Relay, emitter);
    let table = table(&blueprint, 2);
    bolt(&mut runner).execute(&mut table.open(&blocks[0]).unwrap(), 100).unwrap();
    runner.emitter().flush();
    let (emitter, typed) = emitter_of(&blueprint, TaskId(2));
    let mut out = BoltCollector::new(emitter);
    for (n, word) in keys.iter().enumerate() {
        out.emit(&Word { word, n: n as u64 }).unanchored().unwrap();
    }
    out.emitter().flush();
    assert_eq!(counts(&forwarded.borrow()), counts(&typed.borrow()));
    assert_eq!(forwarded.borrow().pushed, typed.borrow().pushed);
}

#[derive(Tuple, Debug)]
struct Other {
    #[allow(dead_code)]
    word: String,
}

#[test]
fn inputs_say_where_they_are_from() {
    struct Look;
    impl BasicBolt for Look {
        fn execute(&mut self, input: &Input<'_>, _: &mut BasicCollector<'_>) -> egret::Result<()> {
            assert_eq!(input.source(), ("source", TaskId(1)));
            assert!(input.is_from("source") && !input.is_from("relay"));
            assert_eq!(input.stream(), "default");
            assert_eq!(input.row()?.field("word")?.as_str(), Some("a"));
            let error = input.get::<Other>().unwrap_err();
            assert!(matches!(error, TupleError::WrongType { .. }));
            assert_eq!(
                error.to_string(),
                "stream `default` of `source` carries (`word`: str, `n`: u64), not (`word`: str)"
            );
            Ok(())
        }
    }
    let blueprint = relay();
    let blocks = emitted(&blueprint, &["a"]);
    let (emitter, _) = emitter_of(&blueprint, TaskId(2));
    let mut runner = Factory::basic_bolt(|| Look).make(emitter);
    let table = table(&blueprint, 2);
    bolt(&mut runner).execute(&mut table.open(&blocks[0]).unwrap(), 100).unwrap();
    let expected = Counters { executed: 1, acked: 1, ..Counters::default() };
    assert_eq!(runner.emitter().counters, expected);
}

#[test]
fn blocks_of_others_are_refused() {
    let blueprint = relay();
    let blocks = emitted(&blueprint, &["a"]);
    let refused = |task| table(&blueprint, task).open(&blocks[0]).map(drop).unwrap_err();
    let expected = InputError::NotRead { source_task: TaskId(1), stream: StreamIndex(0) };
    assert_eq!(refused(3), expected);
    assert_eq!(refused(1), expected);
    assert_eq!(refused(99), expected);
    assert!(matches!(table(&blueprint, 2).open(&blocks[0][..40]).map(drop), Err(InputError::Malformed(_))));
}

/// A basic bolt that fails acks nothing.
#[test]
fn a_basic_bolt_acks_only_what_it_executed() {
    struct Odd;
    impl BasicBolt for Odd {
        fn execute(&mut self, input: &Input<'_>, out: &mut BasicCollector<'_>) -> egret::Result<()> {
            let word = input.get::<Word>()?;
            if word.n % 2 == 0 {
                return Err("even".parse::<u64>().unwrap_err().into());
            }
            out.emit(&word)
        }
    }
    let blueprint = relay();
    let blocks = emitted(&blueprint, &["a", "b", "c"]);
    let (emitter, _) = emitter_of(&blueprint, TaskId(2));
    let mut runner = Factory::basic_bolt(|| Odd).make(emitter);
    let table = table(&blueprint, 2);
    let mut block = table.open(&blocks[0]).unwrap();
    let odd = bolt(&mut runner);
    let errors = std::iter::from_fn(|| odd.execute(&mut block, 100).err()).count();
    assert_eq!(errors, 2);
    let expected = Counters { emitted: 1, sent: 1, executed: 3, acked: 1, failed: 0, timed_out: 0 };
    assert_eq!(odd.emitter().counters, expected);
}
