//! When a tree times out: never early, and soon after.

use crate::account::{Account, End, count_of, each_layout, run};
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
    // Where this machine kept the bolt waiting, its ack was late.
    let in_time = |line: &str| -> Option<u64> {
        let mut words = line.strip_prefix("late ")?.split(' ').map(|word| word.parse::<u64>().unwrap());
        let (n, elapsed_us) = (words.next()?, words.next()?);
        (elapsed_us + account.sum("latest_us") < 2_880_000).then_some(n)
    };
    let in_time: Vec<u64> = outcome.values("judge").iter().filter_map(|line| in_time(line)).collect();
    let failed: Vec<_> = in_time.iter().filter(|n| !account.ends[&(0, **n)][0].acked).collect();
    assert!(failed.is_empty(), "acked in time, and failed all the same: {failed:?}");
    let never: Vec<_> = (7..40).step_by(8).map(|n| &account.ends[&(0, n)][0]).collect();
    assert_in_time(&never, 3_000_000, &account);
}

/// BR-002: one outcome for each, by the timeout; a fail that comes later means nothing to what is in its slot then.
#[test]
fn a_late_fail_changes_nothing() {
    let outcome = run("late_fails", 1);
    let account = Account::of(&outcome, "items");
    account.assert_square();
    assert_eq!(account.acks(), (0..2000).map(|n| (n, vec![n >= 200])).collect());
    let timed_out: Vec<_> = account.ends.range(..(0, 200)).map(|(_, ends)| &ends[0]).collect();
    assert_in_time(&timed_out, 1_000_000, &account);
    assert_eq!(["failed", "timed_out"].map(|counter| outcome.counts("items", counter)), [0, 200]);
    assert_eq!(outcome.counts("judge", "failed"), 200, "all late fails were said while the spout lived");
}
