//! Who gets what: every grouping through the emitter, down to the blocks.

use crate::kit::{Ignore, Log, Nothing, Word, archives, counts, emitter, emitter_of, one_reader};
use egret::collector::{Counters, Emitter};
use egret::topology::BoltHandle;
use egret::{BoltCollector, EmitError, Record, SpoutCollector, TaskId, TopologyBuilder, Tuple, Value};
use egret_dataplane::frame::Destination::{self, Broadcast, Task};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

fn collector(
    tasks: u32,
    wire: impl for<'t> FnOnce(BoltHandle<'t>) -> BoltHandle<'t>,
) -> (SpoutCollector<u64>, Rc<RefCell<Log>>) {
    let (emitter, log) = emitter(&one_reader(tasks, wire));
    (SpoutCollector::new(emitter), log)
}

/// Emits words and says who got how many.
fn spread<'w>(
    tasks: u32,
    words: impl IntoIterator<Item = &'w str>,
    wire: impl for<'t> FnOnce(BoltHandle<'t>) -> BoltHandle<'t>,
) -> BTreeMap<Destination, u64> {
    let (mut out, log) = collector(tasks, wire);
    for (n, word) in words.into_iter().enumerate() {
        out.emit(&Word { word, n: n as u64 }).untracked().unwrap();
    }
    out.emitter().flush();
    assert!(!out.emitter().has_open_blocks());
    counts(&log.borrow())
}

fn counters(out: &mut SpoutCollector<u64>) -> Counters {
    out.emitter().counters
}

#[test]
fn shuffle_spreads_three_three_four() {
    let got = spread(3, ["x"; 10], |b| b.shuffle("source"));
    let mut numbers: Vec<_> = got.into_values().collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [3, 3, 4]);
}

#[test]
fn none_is_done_as_shuffle() {
    let got = spread(2, ["x"; 10], |b| b.none("source"));
    assert!(got.into_values().eq([5, 5]));
}

#[test]
fn local_or_shuffle_stays_in_the_container() {
    // Of the tasks 2 to 7, the kit's plan has 4 and 7 beside task 1.
    let got = spread(6, ["x"; 10], |b| b.local_or_shuffle("source"));
    assert_eq!(got, BTreeMap::from([(Task(TaskId(4)), 5), (Task(TaskId(7)), 5)]));
    // Of the tasks 2 and 3, none is.
    let got = spread(2, ["x"; 10], |b| b.local_or_shuffle("source"));
    assert_eq!(got.len(), 2);
}

#[test]
fn fields_keep_a_key_on_one_task() {
    let words = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let (mut out, log) = collector(4, |b| b.fields("source", ["word"]));
    for n in 0..400 {
        out.emit(&Word { word: words[n % 8], n: n as u64 }).untracked().unwrap();
    }
    out.emitter().flush();
    let mut tasks: BTreeMap<String, BTreeSet<Destination>> = BTreeMap::new();
    for (target, tuples) in archives(&log.borrow()) {
        for tuple in tuples {
            tasks.entry(Word::read(&tuple).unwrap().word.to_owned()).or_default().insert(target);
        }
    }
    assert_eq!(tasks.len(), 8);
    assert!(tasks.values().all(|t| t.len() == 1), "{tasks:?}");
}

/// One hot key, 90 % of 10,000 tuples, is on exactly two tasks of four, within 10 % of each other.
#[test]
fn partial_key_halves_a_hot_key() {
    let cold: Vec<String> = (0..1000).map(|i| format!("cold-{i}")).collect();
    let (mut out, log) = collector(4, |b| b.partial_key("source", ["word"]));
    for n in 0..10_000_usize {
        let word = if n % 10 == 9 { &cold[n / 10] } else { "hot" };
        out.emit(&Word { word, n: n as u64 }).untracked().unwrap();
    }
    out.emitter().flush();
    let mut hot: BTreeMap<Destination, u64> = BTreeMap::new();
    for (target, tuples) in archives(&log.borrow()) {
        let count = tuples.iter().filter(|t| Word::read(t).unwrap().word == "hot").count();
        *hot.entry(target).or_default() += count as u64;
    }
    let hot: Vec<u64> = hot.into_values().filter(|&n| n > 0).collect();
    assert_eq!((hot.len(), hot.iter().sum::<u64>()), (2, 9000));
    assert!(hot[0].abs_diff(hot[1]) * 10 <= hot[0].max(hot[1]), "{hot:?}");
}

#[test]
fn all_is_one_block_that_counts_for_every_task() {
    let (mut out, log) = collector(3, |b| b.all("source"));
    for n in 0..10 {
        out.emit(&Word { word: "x", n }).untracked().unwrap();
    }
    out.emitter().flush();
    assert_eq!(counts(&log.borrow()), BTreeMap::from([(Broadcast(0), 10)]));
    assert_eq!(counters(&mut out), Counters { emitted: 10, sent: 30, ..Counters::default() });
}

#[test]
fn global_is_the_lowest_task() {
    let got = spread(3, ["x", "y", "z"], |b| b.global("source"));
    assert_eq!(got, BTreeMap::from([(Task(TaskId(2)), 3)]));
}

/// BR-023: a bad target is an error to the emitter.
#[test]
fn direct_reaches_readers_only() {
    let (mut out, log) = collector(2, |b| b.direct("source"));
    let word = Word { word: "x", n: 1 };
    out.emit(&word).direct(TaskId(3)).untracked().unwrap();
    for foreign in [TaskId(1), TaskId(4), TaskId(0), TaskId(u32::MAX)] {
        let error = out.emit(&word).direct(foreign).untracked().unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(EmitError::NotAReader { .. })), "{error}");
        assert!(error.to_string().ends_with("tasks 2 to 3 do"), "{error}");
    }
    let error = out.emit(&word).untracked().unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(EmitError::DirectNeeded { .. })), "{error}");
    out.emitter().flush();
    assert_eq!(counts(&log.borrow()), BTreeMap::from([(Task(TaskId(3)), 1)]));
    assert_eq!(counters(&mut out), Counters { emitted: 1, sent: 1, ..Counters::default() });
}

#[test]
fn custom_chooses_exactly_those() {
    let even = |tuple: &mut egret::Targets<'_>| match tuple.field("n").and_then(|n| n.as_u64()) {
        Some(n) if n % 2 == 0 => {
            tuple.choose(0);
            tuple.choose(2);
            tuple.choose(2);
        }
        Some(13) => tuple.choose(tuple.count()),
        _ => {}
    };
    let (mut out, log) = collector(3, |b| b.custom("source", even));
    for n in 0..10 {
        out.emit(&Word { word: "x", n }).untracked().unwrap();
    }
    let error = out.emit(&Word { word: "x", n: 13 }).untracked().unwrap_err();
    assert_eq!(
        error.to_string(),
        "a custom grouping on stream `default` of `source` chose task number 3 of 3; the first is number 0"
    );
    out.emitter().flush();
    assert_eq!(counts(&log.borrow()), BTreeMap::from([(Task(TaskId(2)), 5), (Task(TaskId(4)), 5)]));
    assert_eq!(counters(&mut out), Counters { emitted: 10, sent: 10, ..Counters::default() });
}

#[derive(Tuple)]
struct Number {
    n: u64,
}

#[test]
fn each_stream_goes_to_its_own_readers() {
    let mut t = TopologyBuilder::new("streams");
    t.spout("source", 1, || Nothing)
        .emits::<Word>()
        .emits_on::<Number>("numbers")
        .emits_on::<Number>("unread");
    t.basic_bolt("words", 1, || Ignore).shuffle("source");
    t.basic_bolt("numbers", 1, || Ignore).shuffle_on("source", "numbers");
    t.basic_bolt("both", 1, || Ignore).global("source").all_on("source", "numbers");
    let (emitter, log) = emitter(&t.build().unwrap());
    let mut out = SpoutCollector::<u64>::new(emitter);
    out.emit(&Word { word: "x", n: 1 }).untracked().unwrap();
    out.emit(&Number { n: 1 }).on("numbers").untracked().unwrap();
    out.emit(&Number { n: 1 }).on("unread").untracked().unwrap();
    out.emitter().flush();
    let expected = [(Task(TaskId(2)), 1), (Task(TaskId(3)), 1), (Task(TaskId(4)), 1), (Broadcast(0), 1)];
    assert_eq!(counts(&log.borrow()), BTreeMap::from(expected));
    assert_eq!(counters(&mut out), Counters { emitted: 3, sent: 4, ..Counters::default() });
}

#[test]
fn wrong_streams_and_fields_are_errors() {
    let (mut out, log) = collector(1, |b| b.shuffle("source"));
    let error = out.emit(&Number { n: 1 }).untracked().unwrap_err();
    assert_eq!(
        error.to_string(),
        "component `source` emits (`n`: u64) on stream `default`, which is declared with (`word`: str, `n`: u64)"
    );
    let error = out.emit_values(&[Value::Str("x")]).untracked().unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(EmitError::WrongFields { .. })), "{error}");
    let error = out.emit(&Number { n: 1 }).on("numbers").untracked().unwrap_err();
    assert_eq!(error.to_string(), "component `source` emits on stream `numbers`, but declares `default`");
    out.emit_values(&[Value::Str("x"), Value::U64(1)]).untracked().unwrap();
    out.emitter().flush();
    let sent = archives(&log.borrow());
    assert_eq!(Word::read(&sent[0].1[0]).unwrap(), Word { word: "x", n: 1 });
    assert_eq!(counters(&mut out).emitted, 1);
}

#[derive(Tuple)]
struct Blob<'a> {
    bytes: &'a [u8],
}

/// BR-038: exactly the maximum passes, one more is an error, and the emitter goes on.
#[test]
fn a_tuple_over_the_limit_is_an_error() {
    let mut t = TopologyBuilder::new("large");
    t.config("egret.tuple.max.bytes", "1MiB");
    t.spout("source", 1, || Nothing).emits::<Blob>();
    t.basic_bolt("sink", 1, || Ignore).shuffle("source");
    let (emitter, log) = emitter(&t.build().unwrap());
    let mut out = SpoutCollector::<u64>::new(emitter);
    let bytes = vec![7; (1 << 20) + 1];
    let overhead = Blob { bytes: &[] }.encoded_len();
    for len in [1, 64 << 10, (1 << 20) - overhead] {
        out.emit(&Blob { bytes: &bytes[..len] }).untracked().unwrap();
    }
    for len in [(1 << 20) - overhead + 1, bytes.len()] {
        let error = out.emit(&Blob { bytes: &bytes[..len] }).untracked().unwrap_err();
        let Some(EmitError::TooLarge { bytes, limit: 1_048_576 }) = error.downcast_ref() else {
            panic!("{error}")
        };
        assert!(*bytes > 1 << 20);
    }
    out.emit(&Blob { bytes: &bytes[..3] }).untracked().unwrap();
    out.emitter().flush();
    let sent: Vec<_> = archives(&log.borrow()).into_iter().flat_map(|(_, tuples)| tuples).collect();
    let lens: Vec<_> = sent.iter().map(|t| Blob::read(t).unwrap().bytes.len()).collect();
    assert_eq!(lens, [1, 64 << 10, (1 << 20) - overhead, 3]);
    assert!(sent.iter().all(|t| Blob::read(t).unwrap().bytes.iter().all(|&b| b == 7)));
}

/// BR-038: what does not fit one block goes on in the next, in order.
#[test]
fn batches_split() {
    let (mut out, log) = collector(1, |b| b.shuffle("source"));
    let word = "w".repeat(1000);
    for n in 0..100 {
        out.emit(&Word { word: &word, n }).untracked().unwrap();
    }
    out.emitter().flush();
    let sent = archives(&log.borrow());
    assert!(sent.len() > 5, "{} blocks", sent.len());
    let numbers: Vec<_> = sent.iter().flat_map(|(_, t)| t.iter().map(|t| Word::read(t).unwrap().n)).collect();
    assert!(numbers.into_iter().eq(0..100));
}

/// With more destinations than blocks it pushes what it holds before it waits.
#[test]
fn an_emitter_that_waits_holds_nothing() {
    let (mut out, log) = collector(8, |b| b.shuffle("source"));
    log.borrow_mut().quota = 3;
    for n in 0..80 {
        out.emit(&Word { word: "x", n }).untracked().unwrap();
    }
    out.emitter().flush();
    assert!(log.borrow().waits > 0);
    assert_eq!(counts(&log.borrow()).into_values().collect::<Vec<_>>(), [10; 8]);
}

#[test]
fn an_ending_instance_says_so() {
    let (mut out, log) = collector(1, |b| b.shuffle("source"));
    log.borrow_mut().stopped = true;
    let error = out.emit(&Word { word: "x", n: 1 }).id(1).unwrap_err();
    assert!(error.is_stopped());
    assert_eq!(counters(&mut out), Counters::default());
}

#[test]
fn an_unknown_task_has_no_emitter() {
    let blueprint = one_reader(1, |b| b.shuffle("source"));
    let (outlet, _) = crate::kit::KitOutlet::new(1 << 20);
    let plan = crate::kit::plan(blueprint.topology());
    assert!(Emitter::new(&plan, TaskId(3), &[], 0, outlet).is_err());
}

#[test]
fn a_sink_emits_on_no_stream() {
    let blueprint = one_reader(1, |b| b.shuffle("source"));
    let (emitter, _) = emitter_of(&blueprint, TaskId(2));
    let error = BoltCollector::new(emitter).emit(&Number { n: 1 }).unanchored().unwrap_err();
    assert_eq!(error.to_string(), "component `sink` emits on stream `default`, but declares no stream");
}
