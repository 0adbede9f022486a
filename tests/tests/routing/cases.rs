//! The cases by their names in the behaviour suite.

use crate::run::{EPOLL, Outcome, each_layout, run};
use egret_tests::records::{Record, values_of};
use std::collections::{BTreeMap, BTreeSet};

/// `A_0`, `B_1`, … `B_9`, each `times` times, sorted.
fn numbered_words(times: usize) -> Vec<String> {
    let words = (0..10).map(|n| format!("{}_{n}", ["A", "B"][n % 2]));
    let mut words: Vec<_> = words.flat_map(|word| vec![word; times]).collect();
    words.sort();
    words
}

/// The values that each task of a component wrote down, by the task's index.
fn by_index(records: &[Record], component: &str) -> BTreeMap<u32, Vec<String>> {
    let mut tasks: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for record in records.iter().filter(|record| record.component == component) {
        tasks.entry(record.index).or_default().push(record.value.clone());
    }
    tasks
}

fn sorted(mut values: Vec<String>) -> Vec<String> {
    values.sort();
    values
}

#[test]
fn basic_one_task() {
    each_layout("basic_one_task", |outcome| {
        assert_eq!(outcome.values("record"), numbered_words(1));
        assert_eq!(outcome.counts("identity", "executed"), 10);
    });
}

#[test]
fn basic_one_task_over_epoll() {
    assert_eq!(run("basic_one_task", 3, EPOLL).values("record"), numbered_words(1));
}

#[test]
fn all_grouping() {
    each_layout("all_grouping", |outcome| {
        let both = BTreeMap::from([(0, numbered_words(1)), (1, numbered_words(1))]);
        assert_eq!(by_index(&outcome.records, "record"), both);
        assert_eq!(outcome.counts("words", "emitted"), 10);
        assert_eq!(outcome.counts("record", "executed"), 20);
    });
}

#[test]
fn all_grouping_over_epoll() {
    assert_eq!(run("all_grouping", 3, EPOLL).values("record"), numbered_words(2));
}

#[test]
fn fields_grouping() {
    each_layout("fields_grouping", |outcome| {
        assert_eq!(outcome.values("sum"), ["A 200", "B 200", "total 400"]);
    });
}

#[test]
fn shuffle_grouping() {
    each_layout("shuffle_grouping", |outcome| {
        assert_eq!(outcome.values("record"), numbered_words(1));
        let mut spread: Vec<_> = by_index(&outcome.records, "record").values().map(Vec::len).collect();
        spread.sort_unstable();
        assert_eq!(spread, [3, 3, 4]);
    });
}

#[test]
fn one_spout_two_bolts() {
    each_layout("one_spout_two_bolts", |outcome| {
        assert_eq!(outcome.values("first"), numbered_words(1));
        assert_eq!(outcome.values("second"), numbered_words(1));
    });
}

#[test]
fn one_spout_multi_tasks() {
    each_layout("one_spout_multi_tasks", |outcome| {
        assert_eq!(outcome.values("record"), numbered_words(3));
    });
}

#[test]
fn multi_spouts_multi_tasks() {
    each_layout("multi_spouts_multi_tasks", |outcome| {
        assert_eq!(outcome.values("record"), numbered_words(6));
    });
}

/// With BR-023: a bad target is an error to the emitter and nothing else.
#[test]
fn direct_grouping() {
    each_layout("direct_grouping", |outcome| {
        let every_third = |first| sorted((first..30).step_by(3).map(|n: u32| n.to_string()).collect());
        let expected = BTreeMap::from([0, 1, 2].map(|index| (index, every_third(index))));
        assert_eq!(by_index(&outcome.records, "record"), expected);
        assert_eq!(outcome.values("other"), [""; 0]);

        let refusals = outcome.values("numbers");
        let start = |line: &String| line.split_once(':').unwrap().0.to_owned();
        let tried: Vec<_> = refusals.iter().map(start).collect();
        assert_eq!(tried, ["-1", "itself", "nobody", "other", "unknown", "zero"]);
        for refusal in refusals {
            let names_what_is_wrong = refusal.contains("stream `default` of `numbers`");
            assert!(names_what_is_wrong && refusal.contains("direct"), "{refusal}");
        }
    });
}

#[test]
fn custom_grouping() {
    each_layout("custom_grouping", |outcome| {
        let every_second = |first: u32| sorted((first..100).step_by(2).map(|n| n.to_string()).collect());
        let expected = BTreeMap::from([(0, every_second(0)), (1, every_second(1)), (2, every_second(0))]);
        assert_eq!(by_index(&outcome.records, "record"), expected);
    });
}

/// Spout and bolt have three tasks each, so with three containers each holds one of both.
#[test]
fn local_or_shuffle() {
    each_layout("local_or_shuffle", |outcome| {
        assert_eq!(outcome.values("record").len(), 300);
        for record in outcome.records.iter().filter(|record| record.component == "record") {
            let emitter: u32 = record.value.strip_prefix("from ").unwrap().parse().unwrap();
            assert_eq!(outcome.container_of(emitter), outcome.container_of(record.task), "{record:?}");
        }
        // Each of three emitters goes round from a random task: 33 or 34 of its 100 on each.
        let spread: Vec<_> = by_index(&outcome.records, "record").values().map(Vec::len).collect();
        assert!(spread.iter().all(|count| (99..=102).contains(count)), "{spread:?}");
    });
}

#[test]
fn partial_key() {
    each_layout("partial_key", |outcome| {
        let tasks = by_index(&outcome.records, "record");
        assert_eq!(tasks.values().map(Vec::len).sum::<usize>(), 10_000);
        let of_word = |wanted: &str| -> Vec<usize> {
            let on_task = |values: &Vec<String>| values.iter().filter(|word| *word == wanted).count();
            tasks.values().map(on_task).filter(|count| *count > 0).collect()
        };
        let hot = of_word("hot");
        assert_eq!((hot.len(), hot.iter().sum::<usize>()), (2, 9000));
        let (least, most) = (hot.iter().min().unwrap(), hot.iter().max().unwrap());
        assert!((most - least) * 10 <= *most, "{least} and {most} are within 10 % of each other");
        assert!((0..100).all(|n| of_word(&format!("cold-{n}")).len() <= 2));
    });
}

#[test]
fn many_streams() {
    each_layout("many_streams", |outcome| {
        let each = |show: fn(u32) -> String| sorted((0..10).map(show).collect());
        assert_eq!(outcome.values("word"), each(|n| format!("word-{n}")));
        assert_eq!(outcome.values("number"), each(|n| n.to_string()));
        assert_eq!(outcome.values("pair"), each(|n| format!("{n} {}", n + 1)));
    });
}

#[test]
fn many_streams_over_epoll() {
    assert_eq!(run("many_streams", 3, EPOLL).values("pair").len(), 10);
}

/// At most once: both inputs of each pair arrive, and the joined tuple once.
#[test]
fn multi_anchor() {
    each_layout("multi_anchor", |outcome| {
        assert_eq!(outcome.values("record"), sorted((0..100).map(|n| format!("{n} {n}")).collect()));
        assert_eq!(outcome.counts("join", "acked"), 200);
    });
}

/// What the tallies of all tasks come to: for each key its count and its sum.
fn tallied(outcome: &Outcome) -> BTreeMap<u64, (u64, u64)> {
    let mut keys: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for line in outcome.values("tally") {
        let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        let (count, sum) = keys.entry(numbers[0]).or_default();
        (*count, *sum) = (*count + numbers[1], *sum + numbers[2]);
    }
    keys
}

/// What five spouts that emit `0..20_000` under 997 keys should come to.
fn five_times_20_000() -> BTreeMap<u64, (u64, u64)> {
    let mut keys: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for n in 0..20_000 {
        let (count, sum) = keys.entry(n % 997).or_default();
        (*count, *sum) = (*count + 5, *sum + 5 * n);
    }
    keys
}

#[test]
fn route_exact_shuffle() {
    let outcome = run("route_exact_shuffle", 4, &[]);
    assert_eq!(tallied(&outcome), five_times_20_000());
    let counts = by_index(&outcome.records, "tally");
    let of_task = |lines: &Vec<String>| -> u64 {
        lines.iter().map(|line| line.split(' ').nth(1).unwrap().parse::<u64>().unwrap()).sum()
    };
    assert_eq!(counts.values().map(of_task).collect::<Vec<_>>(), [10_000; 10]);
}

/// With BR-025: five processes send equal keys to one task.
fn route_exact_fields_with(options: &[&str]) {
    let outcome = run("route_exact_fields", 4, options);
    assert_eq!(tallied(&outcome), five_times_20_000());
    assert_eq!(outcome.values("tally").len(), 997, "each key is on one task only");
}

#[test]
fn route_exact_fields() {
    route_exact_fields_with(&[]);
}

#[test]
fn route_exact_fields_over_epoll() {
    route_exact_fields_with(EPOLL);
}

#[test]
fn order() {
    for containers in [1, 2] {
        assert_eq!(run("order", containers, &[]).values("check"), ["all 1000000"]);
    }
}

#[test]
fn order_over_epoll() {
    assert_eq!(run("order", 2, EPOLL).values("check"), ["all 1000000"]);
}

/// With BR-038. In a round, in any order: all but those larger than the greatest allowed arrive, byte by byte.
fn large_tuples_with(containers: u32, options: &[&str]) {
    let outcome = run("large_tuples", containers, options);
    let said: BTreeSet<_> = outcome.values("blobs").into_iter().collect();
    let greatest = 4 << 20;
    let exact = greatest - 8;
    assert!(said.contains(&format!("exact {exact} encoded {greatest}")), "{said:?}");
    let refused: Vec<_> = said.iter().filter_map(|line| line.strip_prefix("refused ")).collect();
    assert_eq!(refused.len(), 2, "{refused:?}");
    for (line, len) in refused.iter().zip([100 << 20, exact + 1]) {
        assert!(line.starts_with(&format!("{len}: ")), "{line}");
        assert!(line.contains("`egret.tuple.max.bytes`") && line.contains("4194304"), "{line}");
    }
    let sizes = [0, 1, 64 << 10, 1 << 20, exact];
    assert_eq!(outcome.values("check"), sorted(sizes.map(|len| vec![format!("{len} exact"); 3]).concat()));
}

#[test]
fn large_tuples() {
    large_tuples_with(1, &[]);
    large_tuples_with(2, &[]);
}

#[test]
fn large_tuples_over_epoll() {
    large_tuples_with(2, EPOLL);
}

/// The payload lies where its emitter wrote it when the bolt reads it, and nowhere else in the container's memory.
#[test]
fn payloads_are_never_copied_in_a_container() {
    let small_pool = ["-c", "egret.tuple.max.bytes=1MiB", "-c", "egret.pool.task.blocks=4"];
    let outcome = run("in_place", 1, &small_pool);
    let written = outcome.values("mark");
    assert_eq!(written.len(), 4);
    let read = outcome.values("locate");
    let only: Vec<_> = written.iter().map(|line| line.replace(" at ", " only at ")).collect();
    assert_eq!(read, sorted([written, only].concat()));
    assert!(values_of(&outcome.records, "locate").iter().all(|line| !line.ends_with("[]")));
}
