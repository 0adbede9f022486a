//! Ten times what a bolt can take: memory stays bounded, the bolt is never idle, nothing is lost.

use crate::goodput::Goodput;
use crate::support::{Memory, check_starts, count, deadline, overload_s};
use egret_tests::{Cluster, cluster, try_for};
use serde_json::Value;
use std::time::Duration;

/// What the slow bolt sleeps for each tuple; with the timer's slack it takes about 1,700 a second. A block of 15 tuples keeps it
/// busy for longer than a busy machine takes to wake an emitter.
const EACH: Duration = Duration::from_micros(500);
const TUPLES_PER_S: u64 = 1_700;
const OVERLOAD: u64 = 10;

/// Runs a topology whose bolt `slow` gets `tuples`, and looks at its memory meanwhile.
fn overload(cluster: &Cluster, name: &str, options: &[&str], tuples: u64, rest: &str) -> Value {
    let file = cluster.write(format!("{name}.yaml"), format!("name: {name}\n{rest}"));
    let (mut memory, mut goodput) = (Memory::default(), Goodput::default());
    let run = cluster.egret(["run", "--json"]).args(options).arg(file).spawn();
    let ended = try_for(deadline(), || {
        let processes = cluster.processes();
        memory.look(&processes);
        goodput.look(&processes);
        run.has_ended().then_some(())
    });
    assert!(ended.is_some(), "it ends: {}", run.stderr());
    let summary = run.finish().expect(0).json();
    memory.check();
    memory.check_flat();
    assert_eq!((&summary["state"], &summary["lost"]), (&"completed".into(), &0.into()), "{summary}");
    assert_eq!(count(&summary, "slow", "executed"), tuples, "{summary}");
    check_starts(&summary, &["slow"]);
    let of_slow = &summary["components"]["slow"]["backpressure"];
    assert!(of_slow["starts"].as_u64() >= Some(1), "it was overloaded: {summary}");
    let (elapsed_s, goodput) = (&summary["elapsed_s"], goodput.of_sleeper());
    println!("{name} {options:?}: {goodput:.3} of what the bolt can take, in {elapsed_s} s");
    assert!(goodput >= 0.9, "{goodput:.3} of what the bolt can take: {summary}");
    cluster.wait_until_clean(false);
    summary
}

/// BR-014: with acks too memory does not grow, and no tree fails.
#[test]
fn acks_under_overload_leave_nothing_behind() {
    let tuples = TUPLES_PER_S * overload_s();
    let rest = format!(
        "spouts:
{}
bolts:
  - {{id: slow, type: sleep, args: {{micros: {}}}}}
streams:
  - {{from: numbers, to: slow, grouping: {{type: SHUFFLE}}}}
",
        numbers(tuples),
        EACH.as_micros()
    );
    for containers in ["topology.containers=1", "topology.containers=3"] {
        let cluster = cluster!();
        let pending = "topology.max.spout.pending=2000";
        let mode = "topology.reliability.mode=ATLEAST_ONCE";
        let options = ["-c", containers, "-c", mode, "-c", pending];
        let summary = overload(&cluster, "overload-acks", &options, tuples, &rest);
        let spouts = &summary["spouts"];
        assert_eq!((&spouts["acked"], &spouts["failed"]), (&tuples.into(), &0.into()), "{summary}");
    }
}

/// In one container and in three, with the usual pool and the smallest.
fn everywhere(name: &str, tuples: u64, rest: &str) {
    for containers in [1, 3] {
        for blocks in [64, 4] {
            let cluster = cluster!();
            let layout = format!("topology.containers={containers}");
            let pool = format!("egret.pool.task.blocks={blocks}");
            overload(&cluster, name, &["-c", &layout, "-c", &pool], tuples, rest);
        }
    }
}

fn numbers(tuples: u64) -> String {
    let rate = OVERLOAD * TUPLES_PER_S;
    format!(
        "  - {{id: numbers, type: sequence, parallelism: 2, args: {{count: {tuples}, rate: {rate}, bytes: 1000}}}}"
    )
}

/// BR-010, BR-020.
#[test]
fn a_bolt_ten_times_too_slow() {
    let tuples = TUPLES_PER_S * overload_s();
    let rest = format!(
        "spouts:
{}
bolts:
  - {{id: slow, type: sleep, args: {{micros: {}}}}}
  - {{id: sink, type: null-sink}}
streams:
  - {{from: numbers, to: slow, grouping: {{type: SHUFFLE}}}}
  - {{from: slow, to: sink, grouping: {{type: SHUFFLE}}}}
",
        numbers(tuples),
        EACH.as_micros()
    );
    everywhere("overload", tuples, &rest);
}

#[test]
fn a_fast_branch_beside_the_slow_one() {
    let tuples = TUPLES_PER_S * overload_s();
    let rest = format!(
        "spouts:
{}
bolts:
  - {{id: slow, type: sleep, args: {{micros: {}}}}}
  - {{id: fast, type: null-sink}}
  - {{id: sink, type: null-sink}}
streams:
  - {{from: numbers, to: slow, grouping: {{type: SHUFFLE}}}}
  - {{from: numbers, to: fast, grouping: {{type: SHUFFLE}}}}
  - {{from: slow, to: sink, grouping: {{type: SHUFFLE}}}}
",
        numbers(tuples),
        EACH.as_micros()
    );
    everywhere("overload-fan-out", tuples, &rest);
}

#[test]
fn an_amplifying_bolt_before_the_slow_one() {
    let lines = TUPLES_PER_S * overload_s() / 1000;
    let line = vec!["amplified"; 1000].join(" ") + "\n";
    let rest = format!(
        "spouts:
  - {{id: lines, type: file-lines, args: {{path: lines.txt, repeat: {lines}}}}}
bolts:
  - {{id: split, type: split-words}}
  - {{id: slow, type: sleep, args: {{micros: {}}}}}
  - {{id: sink, type: null-sink}}
streams:
  - {{from: lines, to: split, grouping: {{type: SHUFFLE}}}}
  - {{from: split, to: slow, grouping: {{type: SHUFFLE}}}}
  - {{from: slow, to: sink, grouping: {{type: SHUFFLE}}}}
",
        EACH.as_micros()
    );
    for containers in ["topology.containers=1", "topology.containers=3"] {
        let cluster = cluster!();
        cluster.write("lines.txt", &line);
        let options = ["-c", containers, "-c", "egret.pool.task.blocks=4"];
        overload(&cluster, "overload-amplify", &options, lines * 1000, &rest);
    }
}
