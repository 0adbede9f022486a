//! Processes that die while tuples flow: each comes back, tuples flow on, and what was lost is counted.

use crate::flow::{Flow, NAME, PROCESSES, command};
use crate::support::{Seen, all_seen, letter, one, seen, signal};
use egret_tests::{DEADLINE, cluster, wait_for};
use rustix::process::Signal;
use serde_json::Value;

/// A spout that is far ahead of its bolt, from another container.
const BUSY: &str = "name: busy
config: {topology.containers: 2}
spouts:
  - {id: numbers, type: sequence, args: {count: 20000}}
bolts:
  - {id: slow, type: sleep, args: {micros: 50}}
streams:
  - {from: numbers, to: slow, grouping: {type: SHUFFLE}}
";

fn instance(flow: &Flow<'_>, component: &str, container: u32) -> Seen {
    one(&flow.first, |p| p.component.as_deref() == Some(component) && p.container == container)
}

fn daemon(flow: &Flow<'_>, role: &str, container: u32) -> Seen {
    one(&flow.first, |p| p.role == role && p.container == container)
}

/// Kills these at once, and waits until each has a successor and tuples arrive again.
fn kill_and_go_on(flow: &Flow<'_>, victims: &[Seen]) {
    victims.iter().for_each(|victim| signal(victim.pid, Signal::KILL));
    for victim in victims {
        let _ = flow.successor(victim);
    }
    flow.more_arrive();
}

#[test]
fn a_killed_instance_comes_back_and_its_losses_are_counted() {
    let cluster = cluster!();
    let flow = Flow::start(&cluster, &[]);
    kill_and_go_on(&flow, &[instance(&flow, "pass", 1)]);
    kill_and_go_on(&flow, &[instance(&flow, "pass", 2)]);
    flow.complete(2);
}

#[test]
fn a_killed_stmgr_comes_back_and_its_instances_stay() {
    let cluster = cluster!();
    let flow = Flow::start(&cluster, &[]);
    kill_and_go_on(&flow, &[daemon(&flow, "stmgr", 1)]);
    kill_and_go_on(&flow, &[daemon(&flow, "stmgr", 2)]);
    let now = all_seen(&cluster, NAME, PROCESSES);
    let instances = |of: &[Seen]| of.iter().filter(|p| p.role == "instance").cloned().collect::<Vec<_>>();
    assert_eq!(instances(&now), instances(&flow.first), "an instance outlives its stmgr");
    flow.complete(0);
}

#[test]
fn a_killed_tmaster_comes_back_and_no_tuple_notices() {
    let cluster = cluster!();
    let flow = Flow::start(&cluster, &[]);
    kill_and_go_on(&flow, &[daemon(&flow, "tmaster", 0)]);
    assert_eq!(flow.complete(0)["lost"], 0);
}

#[test]
fn a_tmaster_and_a_stmgr_killed_together_come_back() {
    let cluster = cluster!();
    let flow = Flow::start(&cluster, &[]);
    kill_and_go_on(&flow, &[daemon(&flow, "tmaster", 0), daemon(&flow, "stmgr", 1)]);
    flow.complete(0);
}

#[test]
fn a_whole_container_but_its_executor_killed_comes_back() {
    let cluster = cluster!();
    let flow = Flow::start(&cluster, &[]);
    let bolt = instance(&flow, "pass", 2);
    kill_and_go_on(&flow, &[daemon(&flow, "stmgr", 2), bolt]);
    flow.complete(1);
}

/// A bolt that is behind takes what waits for it with it, and each of these tuples is counted.
#[test]
fn what_a_busy_instance_held_is_counted_as_lost() {
    let cluster = cluster!();
    cluster.write("busy.yaml", BUSY);
    let run = cluster.egret(["run", "--json", "busy.yaml"]).spawn();
    let executed = |status: &Value| status["components"][1]["executed"].as_u64();
    let status = wait_for("the bolt to be at work", DEADLINE, || {
        cluster.status("busy").filter(|status| executed(status) > Some(0))
    });
    let busy = one(&seen(&status), |p| p.component.as_deref() == Some("slow"));
    signal(busy.pid, Signal::KILL);
    let summary = run.finish().expect(0).json();
    let count = |component: &str, what: &str| summary["components"][component][what].as_u64().unwrap();
    let lost = summary["lost"].as_u64().unwrap();
    assert_eq!((&summary["state"], count("numbers", "emitted")), (&"completed".into(), 20_000), "{summary}");
    assert!(lost > 0, "{summary}");
    assert_eq!(lost, 20_000 - count("slow", "executed"), "{summary}");
    cluster.wait_until_clean(false);
}

/// BR-035: an executor that could not look when its child ended replaces it all the same.
#[test]
fn a_child_that_ended_while_its_executor_was_stopped_is_replaced() {
    let cluster = cluster!();
    let flow = Flow::start(&cluster, &[]);
    let (executor, victim) = (daemon(&flow, "executor", 1), instance(&flow, "pass", 1));
    signal(executor.pid, Signal::STOP);
    signal(victim.pid, Signal::KILL);
    wait_for("the instance to end", DEADLINE, || (letter(victim.pid) == Some('Z')).then_some(()));
    signal(executor.pid, Signal::CONT);
    let _ = flow.successor(&victim);
    flow.more_arrive();
    flow.complete(1);
}

/// BR-035, BR-037: `kill` ends a topology one of whose executors is stopped, and whose instance has ended unseen.
#[test]
fn kill_ends_a_topology_with_a_stopped_executor() {
    let cluster = cluster!();
    let (submit, _) = command(&cluster, "submit", &[]);
    let _ = submit.run().expect(0);
    let processes = seen(&cluster.wait_until(NAME, "running"));
    let executor = one(&processes, |p| p.role == "executor" && p.container == 1);
    let victim = one(&processes, |p| p.component.as_deref() == Some("pass") && p.container == 1);
    signal(executor.pid, Signal::STOP);
    signal(victim.pid, Signal::KILL);
    let killed = cluster.egret(["kill", NAME, "--json", "--timeout", "1"]).run().expect(0).json();
    assert_eq!(killed["state"], "killed");
    cluster.wait_until_clean(true);
}
