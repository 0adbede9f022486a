//! Several branches: who is held for which.

use crate::support::{Flow, check_starts, count, executed, overload_s, slow};
use egret_tests::cluster;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// BR-017: the first to recover does not release what the other still needs held.
#[test]
fn two_slow_bolts() {
    let cluster = cluster!();
    let options = ["-c", "topology.containers=2"];
    let flow = Flow::start(
        &cluster,
        "two-slow",
        &options,
        "spouts:
  - {id: numbers, type: sequence, args: {count: 60000, rate: 5000, bytes: 1000}}
bolts:
  - {id: left, type: identity}
  - {id: right, type: null-sink}
  - {id: sink, type: null-sink}
streams:
  - {from: numbers, to: left, grouping: {type: SHUFFLE}}
  - {from: numbers, to: right, grouping: {type: SHUFFLE}}
  - {from: left, to: sink, grouping: {type: SHUFFLE}}
",
    );
    flow.signal("right", Signal::STOP);
    flow.await_held("right", &[1]);
    flow.signal("left", Signal::STOP);
    flow.signal("right", Signal::CONT);
    // What was on its way to `left` is little; with `right` free again the spout fills that up.
    flow.await_held("left", &[1]);
    flow.signal("right", Signal::STOP);
    flow.signal("left", Signal::CONT);
    flow.await_held("right", &[1]);
    flow.signal("left", Signal::STOP);
    flow.signal("right", Signal::CONT);
    flow.await_held("left", &[1]);
    flow.await_relief("right");
    let emitted = flow.await_status("the spout to stand still", |status| {
        let behind: Vec<_> = slow(status);
        assert!(behind.iter().any(|slow| slow.component == "left"), "{behind:?}");
        status["components"][0]["emitted"].as_u64()
    });
    assert!(emitted < 60_000);
    flow.signal("left", Signal::CONT);
    let summary = flow.complete();
    for component in ["left", "right", "sink"] {
        assert_eq!(count(&summary, component, "executed"), 60_000, "{summary}");
    }
    check_starts(&summary, &["left", "right"]);
}

/// A branch that is not above the slow bolt keeps 95 % of its rate, however long that stands still; then all of it is
/// delivered. BR-017.
#[test]
fn unrelated_branch() {
    let cluster = cluster!();
    let stop_s = if overload_s() >= 60 { 20 } else { 5 };
    let count = 5000 * (2 * stop_s + 10);
    let options = ["-c", "topology.containers=2"];
    let flow = Flow::start(
        &cluster,
        "unrelated",
        &options,
        &format!(
            "spouts:
  - {{id: numbers, type: sequence, args: {{count: {count}, rate: 5000, bytes: 200}}}}
  - {{id: others, type: sequence, args: {{rate: 2000, bytes: 200}}}}
bolts:
  - {{id: slow, type: null-sink}}
  - {{id: free, type: identity}}
  - {{id: sink, type: null-sink}}
streams:
  - {{from: numbers, to: slow, grouping: {{type: SHUFFLE}}}}
  - {{from: others, to: free, grouping: {{type: SHUFFLE}}}}
  - {{from: free, to: sink, grouping: {{type: SHUFFLE}}}}
"
        ),
    );
    // Counted from one heartbeat to another.
    let rate = || {
        flow.await_more("sink");
        let (start, before) = (Instant::now(), flow.executed("sink"));
        let mut last = (start, before);
        flow.await_status("seconds to pass", |status| {
            let now = executed(status, "sink")?;
            if now > last.1 {
                last = (Instant::now(), now);
            }
            (last.0 - start >= Duration::from_secs(stop_s)).then_some(())
        });
        (last.1 - before) as f64 / (last.0 - start).as_secs_f64()
    };
    let before = rate();
    flow.signal("slow", Signal::STOP);
    flow.await_held("slow", &[1]);
    let during = rate();
    println!("{before:.0} a second before, {during:.0} while `slow` stands still");
    assert!(during >= before * 0.95, "{before} a second before, {during} meanwhile");
    flow.await_held("slow", &[1]);
    flow.signal("slow", Signal::CONT);
    flow.await_status("all of it", |status| (executed(status, "slow")? == count).then_some(()));
    flow.run.signal(Signal::INT);
    let summary = flow.run.finish().expect(130).json();
    assert_eq!(summary["lost"], 0, "{summary}");
}
