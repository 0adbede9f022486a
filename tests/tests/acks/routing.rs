//! A handful of the routing cases, at least once: the same results, and every tree is acked.

use egret_tests::cluster;
use egret_tests::outcome::{Case, Outcome};
use std::collections::BTreeMap;

const BEHAVIOURS: &str = env!("CARGO_BIN_EXE_behaviours");

/// Runs a case in one container and in three; its spout emits `roots` tuples.
fn each_layout(case: &str, spout: &str, roots: u64, check: impl Fn(&Outcome)) {
    for containers in [1, 3] {
        let case = Case::new(BEHAVIOURS, case).containers(containers);
        let outcome = case.with("topology.reliability.mode=ATLEAST_ONCE").run(&cluster!());
        let ends = ["emitted", "acked", "failed", "timed_out"].map(|counter| outcome.counts(spout, counter));
        assert_eq!(ends, [roots, roots, 0, 0], "{}", outcome.summary);
        check(&outcome);
    }
}

fn numbered_words(times: usize) -> Vec<String> {
    let words = (0..10).map(|n| format!("{}_{n}", ["A", "B"][n % 2]));
    let mut words: Vec<_> = words.flat_map(|word| vec![word; times]).collect();
    words.sort();
    words
}

#[test]
fn basic_one_task() {
    each_layout("basic_one_task", "words", 10, |outcome| {
        assert_eq!(outcome.values("record"), numbered_words(1));
    });
}

#[test]
fn all_grouping() {
    each_layout("all_grouping", "words", 10, |outcome| {
        assert_eq!(outcome.values("record"), numbered_words(2));
        assert_eq!(outcome.counts("record", "acked"), 20);
    });
}

#[test]
fn fields_grouping() {
    each_layout("fields_grouping", "words", 400, |outcome| {
        assert_eq!(outcome.values("sum"), ["A 200", "B 200", "total 400"]);
    });
}

#[test]
fn multi_anchor() {
    each_layout("multi_anchor", "left", 100, |outcome| {
        let mut pairs: Vec<_> = (0..100).map(|n| format!("{n} {n}")).collect();
        pairs.sort();
        assert_eq!(outcome.values("record"), pairs);
        assert_eq!(outcome.counts("right", "acked"), 100);
    });
}

/// Five spouts, ten tallies, 2,000 tuples each.
#[test]
fn route_exact_fields() {
    each_layout("route_exact_small", "keyed", 10_000, |outcome| {
        let mut expected: BTreeMap<u64, [u64; 3]> = BTreeMap::new();
        for n in 0..2000 {
            let [_, count, sum] = expected.entry(n % 997).or_insert([n % 997, 0, 0]);
            (*count, *sum) = (*count + 5, *sum + 5 * n);
        }
        let line = |line: &String| -> [u64; 3] {
            let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
            numbers.try_into().unwrap()
        };
        let mut tallies: Vec<_> = outcome.values("tally").iter().map(line).collect();
        tallies.sort_unstable();
        assert_eq!(tallies, expected.into_values().collect::<Vec<_>>());
    });
}
