//! What fails comes again, and arrives.

use crate::account::{Account, count_of, each_layout, pending, run};
use egret_tests::cluster;
use std::collections::BTreeMap;

#[test]
fn fail_replays() {
    each_layout("fail_replays", |outcome| {
        let account = Account::of(outcome, "items");
        account.assert_square();
        let fails = |n: u64| n % 7 == 3;
        let expected = (0..7000).map(|n| (n, if fails(n) { vec![false, true] } else { vec![true] }));
        assert_eq!(account.acks(), expected.collect());
        let twice: BTreeMap<u64, usize> = (0..7000).map(|n| (n, if fails(n) { 2 } else { 1 })).collect();
        assert_eq!(count_of(outcome, "judge", "got "), twice);
        assert_eq!(["failed", "timed_out"].map(|counter| outcome.counts("items", counter)), [1000, 0]);
    });
}

/// An error and a panic in user code fail the tuple.
#[test]
fn errors_replay() {
    let outcome = run("errors_fail", 1);
    let account = Account::of(&outcome, "items");
    account.assert_square();
    let fails = |n| n % 50 == 3 || n % 50 == 7;
    assert_eq!(
        account.acks(),
        (0..300).map(|n| (n, if fails(n) { vec![false, true] } else { vec![true] })).collect()
    );
    assert_eq!(["failed", "timed_out"].map(|counter| outcome.counts("items", counter)), [12, 0]);
}

/// The same with built-in components: every line is in the file once.
#[test]
fn lines_that_a_flaky_bolt_fails_arrive() {
    for containers in [1, 3] {
        let cluster = cluster!();
        let lines: Vec<String> = (0..7000).map(|n| format!("line {n:05}")).collect();
        cluster.write("lines.txt", lines.join("\n"));
        let yaml = cluster.write(
            "flaky.yaml",
            format!(
                "name: flaky
config: {{topology.reliability.mode: ATLEAST_ONCE, topology.containers: {containers}}}
spouts:
  - {{id: lines, type: file-lines, args: {{path: lines.txt}}}}
bolts:
  - {{id: flaky, type: flaky, parallelism: 2, args: {{fail_every: 7}}}}
  - {{id: out, type: file-sink, args: {{path: out.tsv}}}}
streams:
  - {{from: lines, to: flaky, grouping: {{type: FIELDS, args: [line]}}}}
  - {{from: flaky, to: out, grouping: {{type: GLOBAL}}}}
"
            ),
        );
        let summary = cluster.run_to_the_end([yaml]).json();
        let text = cluster.read("out.tsv");
        let mut written: Vec<_> = text.lines().collect();
        written.sort_unstable();
        assert_eq!(written, lines, "the lines, each once");
        let of = |component: &str, what: &str| summary["components"][component][what].as_u64().unwrap();
        // Each of two tasks fails the seventh part of its lines.
        assert!((999..=1000).contains(&of("flaky", "failed")), "{summary}");
        assert_eq!(of("lines", "failed"), of("flaky", "failed"), "{summary}");
        assert_eq!(of("flaky", "executed"), 7000 + of("flaky", "failed"), "{summary}");
        assert_eq!([of("lines", "acked"), of("out", "executed"), of("lines", "timed_out")], [7000, 7000, 0]);
        assert_eq!(pending(&summary), 0, "{summary}");
        let latency =
            ["p50", "p90", "p99", "p999", "max"].map(|p| &summary["spouts"]["complete_latency_us"][p]);
        let latency: Vec<u64> = latency.iter().map(|us| us.as_u64().expect("a latency")).collect();
        assert!(latency.is_sorted() && latency[0] > 0, "{summary}");
        cluster.wait_until_clean(false);
    }
}
