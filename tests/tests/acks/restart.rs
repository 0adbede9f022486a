//! What a death leaves behind: counters, gauges, and acks on their way.

use crate::account::{Account, beginning, pending};
use egret_tests::{Cluster, DEADLINE, Process, cluster, records, wait_for};
use serde_json::Value;
use std::collections::BTreeMap;

const COUNT: u64 = 30_000;
const MAX_PENDING: u64 = 5000;

fn topology(cluster: &Cluster) -> std::path::PathBuf {
    cluster.write(
        "restart.yaml",
        format!(
            "name: restart
config: {{topology.reliability.mode: ATLEAST_ONCE, topology.max.spout.pending: {MAX_PENDING}}}
spouts:
  - {{id: numbers, type: sequence, args: {{count: {COUNT}}}}}
bolts:
  - {{id: slow, type: sleep, args: {{micros: 100}}}}
  - {{id: sink, type: null-sink}}
streams:
  - {{from: numbers, to: slow, grouping: {{type: SHUFFLE}}}}
  - {{from: slow, to: sink, grouping: {{type: SHUFFLE}}}}
"
        ),
    )
}

/// Every counter of every component, by `COMPONENT COUNTER`.
fn counters(status: &Value) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for component in status["components"].as_array().unwrap() {
        for counter in ["emitted", "executed", "acked", "failed", "timed_out"] {
            let name = format!("{} {counter}", component["id"].as_str().unwrap());
            all.insert(name, component[counter].as_u64().unwrap());
        }
    }
    all
}

fn instance(cluster: &Cluster, task: &str) -> Option<Process> {
    cluster.processes().into_iter().find(|p| p.variable("EGRET_TASK").as_deref() == Some(task))
}

/// BR-043: counters and gauges over the death of an instance at a full queue.
#[test]
fn counters_go_on_over_a_death_and_gauges_stay_in_their_range() {
    let cluster = cluster!();
    let run = cluster.egret(["run", "--json"]).arg(topology(&cluster)).spawn();
    let mut last = BTreeMap::new();
    let mut killed = 0;
    let mut kill_at = [COUNT / 6, COUNT / 3, COUNT / 2].into_iter().peekable();
    wait_for("the run's end", DEADLINE, || {
        let Some(status) = cluster.status("restart") else { return run.has_ended().then_some(()) };
        // Before it runs, and when its tmaster has gone, nothing is known of it.
        if status["state"] != "running" {
            return None;
        }
        let now = counters(&status);
        for (name, before) in &last {
            assert!(now[name] >= *before, "{name} fell from {before} to {}", now[name]);
        }
        assert!(pending(&status) <= MAX_PENDING, "{status}");
        let acked = now["numbers acked"];
        assert!(acked <= COUNT, "acked are {acked} of {COUNT}");
        last = now;
        if kill_at.peek().is_some_and(|at| acked >= *at) {
            // In turn the bolt at whose queue tuples wait, the sink, and the bolt again.
            let task = ["2", "3", "2"][killed];
            wait_for("the instance", DEADLINE, || instance(&cluster, task)).kill();
            (killed, _) = (killed + 1, kill_at.next());
        }
        None
    });
    assert_eq!(killed, 3);
    let summary = run.finish().expect(0).json();
    let of = |component: &str, what: &str| summary["components"][component][what].as_u64().unwrap();
    assert_eq!(of("numbers", "acked"), COUNT, "{summary}");
    assert_eq!(pending(&summary), 0, "{summary}");
    let ends = of("numbers", "acked") + of("numbers", "failed") + of("numbers", "timed_out");
    assert_eq!(of("numbers", "emitted"), ends, "each emission has one end: {summary}");
    assert!(of("slow", "executed") <= of("numbers", "emitted"), "nothing is counted twice: {summary}");
    assert!(of("sink", "executed") <= of("slow", "emitted"), "nothing is counted twice: {summary}");
    assert!(of("sink", "executed") + 3 * MAX_PENDING >= COUNT, "{summary}");
    cluster.wait_until_clean(false);
}

/// Acks of what a dead spout process emitted come while its successor has the same ids in flight, and mean nothing to it.
#[test]
fn an_ack_for_a_dead_spout_does_not_touch_its_successor() {
    let (cluster, arguments) = beginning("successor", 1);
    let run = cluster.egret(["run", "--json"]).args(arguments).spawn();
    let got = || {
        let records = records::read(cluster.path("records"));
        records::values_of(&records, "judge").iter().filter(|value| value.starts_with("got ")).count()
    };
    wait_for("all to be in flight", DEADLINE, || (got() == 200).then_some(()));
    wait_for("the spout", DEADLINE, || instance(&cluster, "1")).kill();
    let summary = run.finish().expect(0).json();
    assert_eq!(summary["state"], "completed", "{summary}");
    assert_eq!(got(), 400);
    let account = Account::read(&records::read(cluster.path("records")), "items");
    account.assert_square();
    assert_eq!(account.acks(), (0..200).map(|n| (n, vec![true])).collect());
    let early: Vec<_> = account.ends.values().filter(|ends| ends[0].elapsed_us < 2_000_000).collect();
    assert!(early.is_empty(), "acked before its bolt did: {early:?}");
    cluster.wait_until_clean(false);
}
