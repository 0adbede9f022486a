//! How many trees are in flight.

use crate::account::{Account, each_layout, pending, told};
use egret_tests::{DEADLINE, cluster, wait_for};
use rustix::process::Signal;

/// The spout's calls, and the CPU time of its process, tell that it waits.
fn never_more_than_ten(case: &str, per_call: u64) {
    each_layout(case, |outcome| {
        let account = Account::of(outcome, "items");
        account.assert_square();
        assert_eq!((account.sum("acked"), account.sum("failed")), (400, 0));
        let held = told(outcome, "judge", "held ");
        assert!(held.iter().sum::<u64>() <= 10, "{held:?} in flight at once");
        assert!(held[0] > 1, "all 400 in turn");
        if per_call == 1 {
            assert!(account.sum("most_open") <= 10, "{account:?}");
        }
        let calls = account.sum("calls");
        assert!(
            calls <= 2 * 400 / per_call + 20,
            "{calls} calls: the spout was asked though it could not emit"
        );
        let cpu_us = account.sum("cpu_us");
        assert!(cpu_us < 400_000, "{cpu_us} us of CPU for 400 tuples: the spout spins");
    });
}

#[test]
fn max_spout_pending() {
    never_more_than_ten("max_spout_pending", 1);
}

/// A spout that emits more in one call waits within it.
#[test]
fn max_spout_pending_in_bursts() {
    never_more_than_ten("max_spout_pending_in_bursts", 25);
}

/// After the first Ctrl-C no new tree begins, and those in flight end.
#[test]
fn a_drain_waits_for_what_is_in_flight() {
    let cluster = cluster!();
    let yaml = cluster.write(
        "drain.yaml",
        "name: drain
config: {topology.reliability.mode: ATLEAST_ONCE, topology.max.spout.pending: 500}
spouts:
  - {id: numbers, type: sequence, parallelism: 2}
bolts:
  - {id: slow, type: sleep, args: {micros: 200}}
  - {id: flaky, type: flaky, args: {fail_every: 50}}
  - {id: sink, type: null-sink}
streams:
  - {from: numbers, to: slow, grouping: {type: SHUFFLE}}
  - {from: slow, to: flaky, grouping: {type: SHUFFLE}}
  - {from: flaky, to: sink, grouping: {type: SHUFFLE}}
",
    );
    let run = cluster.egret(["run", "--json"]).arg(yaml).spawn();
    wait_for("trees in flight", DEADLINE, || {
        let status = cluster.status("drain").filter(|status| status["state"] == "running")?;
        assert!(pending(&status) <= 1000, "{status}");
        (pending(&status) > 500 && status["spouts"]["acked"].as_u64()? > 1000).then_some(())
    });
    run.signal(Signal::INT);
    let summary = run.finish().expect(130).json();
    assert_eq!((&summary["state"], &summary["lost"]), (&"interrupted".into(), &0.into()), "{summary}");
    let of = |component: &str, what: &str| summary["components"][component][what].as_u64().unwrap();
    let ends = of("numbers", "acked") + of("numbers", "failed");
    assert_eq!((of("numbers", "emitted"), pending(&summary)), (ends, 0), "{summary}");
    assert_eq!(of("numbers", "acked"), of("sink", "acked"), "{summary}");
    assert_eq!(
        [of("numbers", "failed"), of("numbers", "timed_out")],
        [of("flaky", "failed"), 0],
        "{summary}"
    );
    cluster.wait_until_clean(false);
}
