//! Dropping instead of holding, and a limit on what a component emits.

use crate::support::{Flow, count};
use egret_tests::cluster;

const DROPS: &str = "topology.droptuples.upon.backpressure=true";

fn overloaded(count: u64) -> String {
    format!(
        "spouts:
  - {{id: numbers, type: sequence, args: {{count: {count}, rate: 50000, bytes: 1000}}}}
bolts:
  - {{id: slow, type: sleep, args: {{micros: 100}}}}
streams:
  - {{from: numbers, to: slow, grouping: {{type: SHUFFLE}}}}
"
    )
}

#[test]
fn too_much_is_dropped_counted_and_holds_nobody() {
    for containers in ["topology.containers=1", "topology.containers=2"] {
        let cluster = cluster!();
        let flow = Flow::start(&cluster, "drops", &["-c", containers, "-c", DROPS], &overloaded(150_000));
        flow.await_status("drops to be counted", |status| {
            let dropped = status["dropped"].as_array()?;
            dropped.iter().any(|d| d[0] == "backpressure" && d[1].as_u64() > Some(0)).then_some(())
        });
        let summary = flow.complete();
        let executed = count(&summary, "slow", "executed");
        assert_eq!(summary["lost"].as_u64(), Some(150_000 - executed), "{summary}");
        assert!(executed < 100_000, "most of it was too much: {summary}");
        assert_eq!(summary["backpressure"]["starts"], 0, "{summary}");
        assert!(summary["backpressure"]["time_s"].as_f64() > Some(0.0), "but it shows: {summary}");
    }
}

/// What is dropped fails at once, so that the spout emits it again.
#[test]
fn what_is_dropped_fails_its_trees() {
    let cluster = cluster!();
    let options = ["-c", DROPS, "-c", "topology.reliability.mode=ATLEAST_ONCE"];
    let flow = Flow::start(&cluster, "drops-fail", &options, &overloaded(20_000));
    let summary = flow.complete();
    let spouts = &summary["spouts"];
    assert_eq!((&spouts["acked"], &spouts["timed_out"]), (&20_000.into(), &0.into()), "{summary}");
    assert!(spouts["failed"].as_u64() > Some(0), "{summary}");
    assert!(count(&summary, "slow", "executed") >= 20_000, "{summary}");
}

#[test]
fn a_component_emits_no_more_than_it_may() {
    let cluster = cluster!();
    let flow = Flow::start(
        &cluster,
        "limited",
        &[],
        "spouts:
  - id: numbers
    type: sequence
    args: {count: 1000, bytes: 1000}
    config:
      topology.component.output.bps: 200KiB
bolts:
  - {id: sink, type: null-sink}
streams:
  - {from: numbers, to: sink, grouping: {type: SHUFFLE}}
",
    );
    let summary = flow.complete();
    // A million bytes and what frames them, but for what a burst and the first block have for nothing.
    let elapsed_s = summary["elapsed_s"].as_f64().unwrap();
    assert!(elapsed_s >= 1_000_000.0 / 204_800.0 - 0.3, "{summary}");
    assert_eq!(count(&summary, "sink", "executed"), 1000, "{summary}");
}
