//! When a tree times out: never early, and soon after.

use crate::account::{Account, End, beginning, count_of, each_layout, run};
use egret_tests::{DEADLINE, records, wait_for};
use std::collections::BTreeMap;

/// A fail by timeout comes in [T, 1.1 T + 100 ms], plus what this machine kept the spout's process waiting.
#[track_caller]
fn assert_in_time(ends: &[&End], timeout_us: u64, account: &Account) {
    let latest_us = timeout_us + timeout_us / 10 + 100_000 + account.sum("latest_us");
    for end in ends {
        assert!(!end.acked, "{end:?}");
        let elapsed_us = end.elapsed_us;
        assert!(elapsed_us >= timeout_us, "{elapsed_us} us is less than the timeout");
        assert!(elapsed_us <= latest_us, "{elapsed_us} us is more than {latest_us} us");
    }
}

/// The numbers that the judge acked late and yet within the timeout, in that this machine did not keep it waiting.
fn acked_in_time(judge: &[String], timeout_us: u64, account: &Account) -> Vec<u64> {
    let in_time = |line: &String| -> Option<u64> {
        let mut words = line.strip_prefix("late ")?.split(' ').map(|word| word.parse::<u64>().unwrap());
        let (n, elapsed_us) = (words.next()?, words.next()?);
        (elapsed_us + account.sum("latest_us") < timeout_us - timeout_us / 25).then_some(n)
    };
    judge.iter().filter_map(in_time).collect()
}

/// With BR-001 at T = 1 s: tuples emitted over a whole timeout, of which some are forgotten.
#[test]
fn timeout_replays() {
    each_layout("timeout_replays", |outcome| {
        let account = Account::of(outcome, "items");
        account.assert_square();
        let expected = (0..40).map(|n| (n, if n % 4 == 1 { vec![false, true] } else { vec![true] }));
        let expected: BTreeMap<u64, Vec<bool>> = expected.collect();
        assert_eq!(account.acks(), expected);
        let timed_out: Vec<_> = account.ends.values().filter(|e| e.len() == 2).map(|e| &e[0]).collect();
        assert_in_time(&timed_out, 1_000_000, &account);
        assert_eq!(["failed", "timed_out"].map(|counter| outcome.counts("items", counter)), [0, 10]);
        assert_eq!(count_of(outcome, "judge", "got ").values().sum::<usize>(), 50);
    });
}

/// BR-001: what is acked late but in time is acked, at whatever moment it was emitted.
#[test]
fn trees_have_all_of_the_timeout() {
    let outcome = run("late_in_time", 1);
    let account = Account::of(&outcome, "items");
    account.assert_square();
    let in_time = acked_in_time(&outcome.values("judge"), 3_000_000, &account);
    let failed: Vec<_> = in_time.iter().filter(|n| !account.ends[&(0, **n)][0].acked).collect();
    assert!(failed.is_empty(), "acked in time, and failed all the same: {failed:?}");
    let never: Vec<_> = (7..40).step_by(8).map(|n| &account.ends[&(0, n)][0]).collect();
    assert_in_time(&never, 3_000_000, &account);
}

/// BR-002: one outcome for each, by the timeout; a fail that comes later means nothing to what is in its slot then.
///
/// The fails come after the spout was told of the timeouts, however long that takes, and before the last of those that are in
/// the slots by then is acked. What is acked in time is acked; something else times out only where this machine kept a process
/// from it for most of a timeout.
#[test]
fn a_late_fail_changes_nothing() {
    const TIMEOUT_US: u64 = 3_000_000;
    let (cluster, arguments) = beginning("late_fails", 1);
    let run = cluster.egret(["run", "--json"]).args(arguments).spawn();
    let written = || records::read(cluster.path("records"));
    wait_for("the first 200 to time out", DEADLINE, || {
        assert!(!run.has_ended(), "{}", run.stderr());
        records::values_of(&written(), "items").contains(&"settled 200".to_owned()).then_some(())
    });
    cluster.write("go-200", "");
    let summary = run.finish().expect(0).json();
    let account = Account::read(&written(), "items");
    account.assert_square();
    let ends: Vec<&Vec<End>> = account.ends.values().collect();
    assert!(ends.len() == 2000 && ends.iter().all(|ends| ends.len() == 1), "one outcome for each: {ends:?}");
    let ends: Vec<&End> = ends.into_iter().flatten().collect();
    assert_in_time(&ends[..200], TIMEOUT_US, &account);
    let judge = records::values_of(&written(), "judge");
    let in_time = acked_in_time(&judge, TIMEOUT_US, &account).into_iter().filter(|n| *n >= 200);
    let failed: Vec<_> = in_time.filter(|n| !ends[*n as usize].acked).collect();
    assert!(failed.is_empty(), "acked in time, and failed all the same: {failed:?}");
    let late: Vec<_> = ends[200..].iter().filter(|end| !end.acked).collect();
    assert!(late.iter().all(|end| end.elapsed_us >= TIMEOUT_US), "failed before their time: {late:?}");
    let counts = |component: &str, counter: &str| summary["components"][component][counter].as_u64().unwrap();
    assert_eq!((counts("items", "failed"), counts("items", "timed_out")), (0, 200 + late.len() as u64));
    assert_eq!(counts("judge", "failed"), 200, "all late fails were said");
    cluster.wait_until_clean(false);
}
