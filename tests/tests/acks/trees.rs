//! When a tree is complete, and that it ends once.

use crate::account::{Account, count_of, each_layout, run};
use egret_tests::cluster;
use egret_tests::outcome::Case;
use std::collections::BTreeMap;

/// Each message id gets exactly one of ack and fail, whatever bolts say twice.
#[test]
fn ack_each_once() {
    each_layout("ack_each_once", |outcome| {
        let account = Account::of(outcome, "items");
        account.assert_square();
        let mut expected = BTreeMap::new();
        for (task, n) in (0..2).flat_map(|task| (0..3000).map(move |n| (task, n))) {
            let fails = n % 500 == 1 || n % 7 == 0 || (n % 11 != 2 && n % 13 == 3);
            expected.insert((task, n), vec![!fails]);
        }
        let ends = account.ends.iter();
        let ends: BTreeMap<_, Vec<bool>> =
            ends.map(|(id, ends)| (*id, ends.iter().map(|end| end.acked).collect())).collect();
        let wrong: Vec<_> = expected.iter().filter(|(id, end)| ends.get(id) != Some(end)).take(10).collect();
        assert!(wrong.is_empty(), "expected {wrong:?}, but got {:?}", wrong.iter().map(|w| ends.get(w.0)));
        assert_eq!(ends.len(), expected.len());

        let timed_out = 2 * (0..3000).filter(|n| n % 500 == 1).count() as u64;
        let acked = expected.values().filter(|end| end[0]).count() as u64;
        let counted = ["acked", "failed", "timed_out"].map(|counter| outcome.counts("items", counter));
        assert_eq!(counted, [acked, 6000 - acked - timed_out, timed_out]);
        assert_eq!(outcome.summary["spouts"]["acked"], acked);
        assert_eq!(outcome.summary["spouts"]["failed"], 6000 - acked);
    });
}

/// 1 → 100 → 100: one ack, after the last leaf.
#[test]
fn fan_out_tree() {
    each_layout("fan_out_tree", |outcome| {
        let mut leaves: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for line in outcome.values("leaf") {
            let [n, count, last_us] = <[u64; 3]>::try_from(numbers(&line)).unwrap();
            let entry = leaves.entry(n).or_default();
            *entry = (entry.0 + count, entry.1.max(last_us));
        }
        let account = Account::of(outcome, "items");
        account.assert_square();
        assert_eq!((leaves.len(), account.ends.len()), (20, 20));
        for ((_, n), ends) in &account.ends {
            let (count, last_us) = leaves[n];
            assert_eq!((count, ends.len()), (10_000, 1), "of tree {n}");
            assert!(ends[0].acked && ends[0].at_us >= last_us, "tree {n}: {ends:?}, last leaf {last_us}");
        }
        assert_eq!(outcome.counts("leaf", "acked"), 200_000);
    });
}

fn numbers(line: &str) -> Vec<u64> {
    line.split(' ').map(|number| number.parse().unwrap()).collect()
}

/// Tuples without an id are never tracked, and neither is what is anchored on them.
#[test]
fn no_id_no_tracking() {
    each_layout("no_id_no_tracking", |outcome| {
        let account = Account::of(outcome, "items");
        account.assert_square();
        let expected = (0..1000).step_by(2).map(|n| (n, vec![true])).collect();
        assert_eq!(account.acks(), expected);
        assert_eq!(outcome.counts("items", "emitted"), 1000);
        assert_eq!(outcome.counts("judge", "executed"), 1000);
        assert_eq!(["acked", "failed", "timed_out"].map(|c| outcome.counts("items", c)), [500, 0, 0]);
    });
}

/// A tree that nobody reads is complete at once.
#[test]
fn what_nobody_reads_is_acked() {
    let account = Account::of(&run("unread", 1), "items");
    account.assert_square();
    assert_eq!(account.acks(), (0..100).map(|n| (n, vec![true])).collect());
}

/// A tuple that is anchored on two inputs: both trees complete, or both fail.
#[test]
fn multi_anchor() {
    each_layout("multi_anchor", |outcome| {
        let sides = ["left", "right"].map(|side| Account::of(outcome, side));
        sides.iter().for_each(Account::assert_square);
        let expected: BTreeMap<u64, Vec<bool>> = (0..100)
            .map(|n| (n, if n % 10 == 3 || n % 25 == 7 { vec![false, true] } else { vec![true] }))
            .collect();
        assert_eq!(sides[0].acks(), expected);
        assert_eq!(sides[1].acks(), expected);
        let times: BTreeMap<_, _> = expected.iter().map(|(n, ends)| (*n, ends.len())).collect();
        assert_eq!(count_of(outcome, "judge", "got "), times);
    });
}

/// BR-007: a spout may note an id after it emitted, in both modes.
#[test]
fn ids_may_be_noted_after_the_emission() {
    for mode in ["ATMOST_ONCE", "ATLEAST_ONCE"] {
        let case = Case::new(crate::account::TREES, "notes_ids_late");
        let outcome = case.with(format!("topology.reliability.mode={mode}")).run(&cluster!());
        let account = Account::of(&outcome, "items");
        account.assert_square();
        assert_eq!((account.sum("acked"), account.sum("failed")), (50_000, 0), "{mode}");
        assert_eq!(outcome.counts("judge", "executed"), 50_000, "{mode}");
    }
}
