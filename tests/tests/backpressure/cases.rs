//! One bolt that takes nothing for a while, and what may happen meanwhile.

use crate::support::{Flow, Memory, check_starts, count, send, slow};
use egret_tests::cluster;
use rustix::process::Signal;

/// Three spouts and a bolt, which `containers` spreads: with three, spouts are in each of them.
fn three_spouts(count: u64) -> String {
    format!(
        "spouts:
  - {{id: numbers, type: sequence, parallelism: 3, args: {{count: {count}, rate: 10000, bytes: 1000}}}}
bolts:
  - {{id: slow, type: identity}}
  - {{id: sink, type: null-sink}}
streams:
  - {{from: numbers, to: slow, grouping: {{type: SHUFFLE}}}}
  - {{from: slow, to: sink, grouping: {{type: SHUFFLE}}}}
"
    )
}

/// Spout `numbers` (task 1) in container 1, bolt `slow` (2) in 2, bolt `sink` (3) in 1.
fn across(count: u64) -> String {
    three_spouts(count).replace("parallelism: 3", "parallelism: 1")
}

const TWO: [&str; 2] = ["-c", "topology.containers=2"];

#[test]
fn slow_bolt() {
    for containers in ["topology.containers=1", "topology.containers=3"] {
        let cluster = cluster!();
        let flow = Flow::start(&cluster, "slow-bolt", &["-c", containers], &three_spouts(90_000));
        flow.signal("slow", Signal::STOP);
        // Every stmgr has heard of it, and holds its spouts.
        let first = flow.await_held("slow", &[1, 2, 3]);
        let (mut memory, before) = (Memory::default(), flow.executed("slow"));
        let emitted = flow.await_status("it to last", |status| {
            memory.look(&cluster.processes());
            let now = slow(status).into_iter().find(|slow| slow.component == "slow")?;
            assert_eq!(now.holds, [1, 2, 3], "nobody is let go");
            (now.for_s >= first.for_s + 2.0).then(|| status["components"][0]["emitted"].as_u64())?
        });
        assert!(emitted < 90_000, "the spouts stand still");
        let text = cluster.egret(["status", "slow-bolt"]).run().expect(0).stdout;
        let line = text.lines().find(|line| line.starts_with("backpressure: slow (task 4, container "));
        let line = line.unwrap_or_else(|| panic!("the culprit is named in {text}"));
        assert!(line.ends_with("; holds numbers (tasks 1, 2, 3)"), "{line}");
        flow.signal("slow", Signal::CONT);
        flow.await_status("it to go on", |status| {
            (status["components"][1]["executed"].as_u64()? > before).then_some(())
        });
        memory.look(&cluster.processes());
        memory.check();
        let summary = flow.complete();
        check_starts(&summary, &["slow", "sink"]);
        let of_slow = &summary["components"]["slow"]["backpressure"];
        assert!(
            of_slow["starts"].as_u64() >= Some(1) && of_slow["time_s"].as_f64() >= Some(2.0),
            "{summary}"
        );
        assert_eq!(count(&summary, "sink", "executed"), 90_000, "nothing is lost: {summary}");
        assert_eq!(summary["lost"], 0, "{summary}");
    }
}

#[test]
fn spout_dies_under_backpressure() {
    let cluster = cluster!();
    let flow = Flow::start(&cluster, "spout-dies", &["-c", "topology.containers=3"], &three_spouts(90_000));
    flow.signal("slow", Signal::STOP);
    flow.await_held("slow", &[1, 2, 3]);
    let dead = flow.pid("instance", "task", &2.into());
    send(dead, Signal::KILL);
    flow.await_status("a successor that is held too", |status| {
        let processes = status["processes"].as_array()?;
        let next = processes.iter().find(|p| p["task"] == 2 && p["pid"] != dead)?;
        let held = slow(status).iter().any(|slow| slow.component == "slow" && slow.holds == [1, 2, 3]);
        (held && next["incarnation"] == 2).then_some(())
    });
    flow.signal("slow", Signal::CONT);
    let summary = flow.complete();
    assert_eq!(summary["restarts"]["instance"], 1, "{summary}");
    check_starts(&summary, &["slow", "sink"]);
}

/// A stmgr that cannot deliver to a peer holds too. BR-019: the peer was stopped for longer than anybody waits for an
/// answer; then it goes on, and so do tuples.
#[test]
fn slow_container() {
    let cluster = cluster!();
    let flow = Flow::start(&cluster, "slow-container", &TWO, &across(90_000));
    let stmgr = flow.pid("stmgr", "container", &2.into());
    send(stmgr, Signal::STOP);
    let first = flow.await_held("slow", &[1]);
    flow.await_status("six seconds", |status| {
        let now = slow(status).into_iter().find(|slow| slow.component == "slow")?;
        (now.for_s >= first.for_s + 6.0).then_some(())
    });
    send(stmgr, Signal::CONT);
    let summary = flow.complete();
    assert_eq!(count(&summary, "sink", "executed"), 90_000, "{summary}");
    assert_eq!((&summary["lost"], &summary["restarts"]["stmgr"]), (&0.into(), &0.into()), "{summary}");
    check_starts(&summary, &["slow"]);
}

/// The same with more on its way than the kernel takes, for longer than a host may answer nothing: the connection stays.
#[test]
fn full_container() {
    let cluster = cluster!();
    let much = [
        "-c",
        "topology.containers=2",
        "-c",
        "egret.pool.task.blocks=4096",
        "-c",
        "egret.streammgr.network.backpressure.highwatermark.mb=40",
    ];
    let topology = across(900_000).replace("rate: 10000", "rate: 50000");
    let flow = Flow::start(&cluster, "full-container", &much, &topology);
    let stmgr = flow.pid("stmgr", "container", &2.into());
    send(stmgr, Signal::STOP);
    let first = flow.await_held("slow", &[1]);
    flow.await_status("twenty seconds", |status| {
        let now = slow(status).into_iter().find(|slow| slow.component == "slow")?;
        (now.for_s >= first.for_s + 20.0).then_some(())
    });
    send(stmgr, Signal::CONT);
    let summary = flow.complete();
    assert_eq!(count(&summary, "sink", "executed"), 900_000, "{summary}");
    assert_eq!((&summary["lost"], &summary["restarts"]["stmgr"]), (&0.into(), &0.into()), "{summary}");
}

/// The stmgr of a held spout is replaced: its successor hears from the other how it stands.
#[test]
fn reconnect_under_backpressure() {
    let cluster = cluster!();
    let flow = Flow::start(&cluster, "reconnect", &TWO, &across(90_000));
    flow.signal("slow", Signal::STOP);
    flow.await_held("slow", &[1]);
    let dead = flow.pid("stmgr", "container", &1.into());
    send(dead, Signal::KILL);
    flow.await_status("the next stmgr to hold it", |status| {
        let processes = status["processes"].as_array()?;
        let next = |p: &&serde_json::Value| p["role"] == "stmgr" && p["container"] == 1 && p["pid"] != dead;
        processes.iter().find(next)?;
        slow(status).iter().any(|slow| slow.component == "slow" && slow.holds == [1]).then_some(())
    });
    flow.signal("slow", Signal::CONT);
    let summary = flow.complete();
    assert_eq!(summary["restarts"]["stmgr"], 1, "{summary}");
}

/// BR-016: a plan reaches every stmgr although the ring before a bolt is full and everything waits.
#[test]
fn a_plan_does_not_wait_behind_data() {
    let cluster = cluster!();
    let flow = Flow::start(&cluster, "plan-full", &TWO, &across(90_000));
    flow.signal("slow", Signal::STOP);
    flow.await_held("slow", &[1]);
    let dead = flow.pid("tmaster", "container", &0.into());
    send(dead, Signal::KILL);
    // The next one says that it runs when both have linked under its plan.
    flow.await_status("the next plan", |status| {
        let held = slow(status).iter().any(|slow| slow.component == "slow" && slow.holds == [1]);
        (held && status["epoch"] == 2 && status["state"] == "running").then_some(())
    });
    flow.signal("slow", Signal::CONT);
    let summary = flow.complete();
    assert_eq!(count(&summary, "sink", "executed"), 90_000, "{summary}");
    assert_eq!(summary["lost"], 0, "{summary}");
}
