//! A spout's own account of what became of its tuples, as the test program's `Tracked` and `Judge` write it.

use egret_tests::outcome::{Case, Outcome};
use egret_tests::records::Record;
use egret_tests::{Cluster, cluster};
use std::collections::BTreeMap;

/// The test program.
pub(crate) const TREES: &str = env!("CARGO_BIN_EXE_trees");

/// How a tuple ended, as its spout was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) acked: bool,
    /// From the moment before its emission.
    pub(crate) elapsed_us: u64,
    /// By the clock that all processes share.
    pub(crate) at_us: u64,
}

/// What the tasks of a spout were told.
#[derive(Debug)]
pub(crate) struct Account {
    /// By the task's index and the tuple's number, in the order of time.
    pub(crate) ends: BTreeMap<(u32, u64), Vec<End>>,
    sums: Vec<BTreeMap<String, u64>>,
}

/// Runs a case in this many containers.
#[track_caller]
pub(crate) fn run(case: &str, containers: u32) -> Outcome {
    settled(&Case::new(TREES, case).containers(containers).run(&cluster!()))
}

/// Runs a case in one container and in three.
pub(crate) fn each_layout(case: &str, check: impl Fn(&Outcome)) {
    for containers in [1, 3] {
        check(&run(case, containers));
    }
}

/// A completed topology has nothing in flight.
#[track_caller]
pub(crate) fn settled(outcome: &Outcome) -> Outcome {
    let summary = &outcome.summary;
    assert_eq!(pending(summary), 0, "{summary}");
    outcome.clone()
}

/// The roots in flight that a status or a summary tells of.
#[track_caller]
pub(crate) fn pending(document: &serde_json::Value) -> u64 {
    let value = &document["spouts"]["pending"];
    value.as_u64().unwrap_or_else(|| panic!("no spouts/pending in {document}"))
}

impl Account {
    /// Of a component.
    #[track_caller]
    pub(crate) fn of(outcome: &Outcome, component: &str) -> Self {
        Self::read(&outcome.records, component)
    }

    /// Of a component, from what it wrote.
    #[track_caller]
    pub(crate) fn read(records: &[Record], component: &str) -> Self {
        let mut account = Self { ends: BTreeMap::new(), sums: Vec::new() };
        for record in records.iter().filter(|record| record.component == component) {
            let words: Vec<&str> = record.value.split(' ').collect();
            match words[0] {
                "ack" | "fail" => {
                    let [n, elapsed_us, at_us] = [1, 2, 3].map(|word| words[word].parse().unwrap());
                    let end = End { acked: words[0] == "ack", elapsed_us, at_us };
                    account.ends.entry((record.index, n)).or_default().push(end);
                }
                "sums" => account.sums.push(sums(&words[1..])),
                _ => {}
            }
        }
        assert!(!account.sums.is_empty(), "{component} closed");
        account.ends.values_mut().for_each(|ends| ends.sort_by_key(|end| end.at_us));
        account
    }

    /// A sum over all tasks.
    #[track_caller]
    pub(crate) fn sum(&self, name: &str) -> u64 {
        self.sums.iter().map(|sums| sums[name]).sum()
    }

    /// Whether each outcome of each number was an ack, by number; for a spout of one task.
    pub(crate) fn acks(&self) -> BTreeMap<u64, Vec<bool>> {
        self.ends.iter().map(|((_, n), ends)| (*n, ends.iter().map(|end| end.acked).collect())).collect()
    }

    /// No outcome came for what was not in flight, and nothing stayed in flight.
    #[track_caller]
    pub(crate) fn assert_square(&self) {
        assert_eq!((self.sum("unknown"), self.sum("open")), (0, 0), "{:?}", self.sums);
    }
}

fn sums(words: &[&str]) -> BTreeMap<String, u64> {
    let pairs = words.iter().map(|word| word.split_once('=').unwrap());
    pairs.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
}

/// How often a component wrote `WHAT NUMBER …`, by number.
pub(crate) fn count_of(outcome: &Outcome, component: &str, what: &str) -> BTreeMap<u64, usize> {
    let mut counts = BTreeMap::new();
    for value in outcome.values(component) {
        if let Some(rest) = value.strip_prefix(what) {
            let n = rest.trim().split(' ').next().unwrap().parse().unwrap();
            *counts.entry(n).or_default() += 1;
        }
    }
    counts
}

/// The numbers after a word that a component wrote, such as `held 7`.
pub(crate) fn told(outcome: &Outcome, component: &str, what: &str) -> Vec<u64> {
    let values = outcome.values(component);
    values.iter().filter_map(|value| value.strip_prefix(what)?.trim().parse().ok()).collect()
}

/// The arguments and the cluster of a case that is not run to its end.
pub(crate) fn beginning(case: &str, containers: u32) -> (Cluster, Vec<String>) {
    let cluster = cluster!();
    let arguments = Case::new(TREES, case).containers(containers).arguments(&cluster, "records");
    (cluster, arguments)
}
