//! `egret metrics` and `egret top`: what a person can learn of each task while the topology runs.

use crate::flow::{Flow, NAME};
use crate::support::{one, signal};
use egret_tests::{Cluster, DEADLINE, cluster, wait_for};
use rustix::process::Signal;
use serde_json::Value;

fn tasks(cluster: &Cluster) -> Option<Vec<Value>> {
    let asked = cluster.egret(["metrics", NAME, "--json"]).run();
    if !asked.status.success() {
        return None;
    }
    Some(asked.json()["tasks"].as_array().unwrap().clone())
}

fn recorder(cluster: &Cluster) -> Option<(u64, u64)> {
    let tasks = tasks(cluster)?;
    let recorder = tasks.iter().find(|task| task["component"] == "record").unwrap();
    Some((recorder["executed"].as_u64().unwrap(), recorder["user"]["recorded"].as_u64()?))
}

#[test]
fn metrics_of_every_task_go_on_over_deaths() {
    let cluster = cluster!();
    let flow = Flow::start(&cluster, &[]);
    let counted = |least: u64| {
        wait_for("the counters of the recorder", DEADLINE, || {
            recorder(&cluster).filter(|(executed, recorded)| *executed >= least && *recorded >= least)
        })
    };
    let (_, before) = counted(100);
    for process in ["tmaster", "instance"] {
        let victim = one(&flow.first, |p| {
            p.role == process && p.component.as_deref().is_none_or(|component| component == "record")
        });
        signal(victim.pid, Signal::KILL);
        flow.successor(&victim);
        flow.more_arrive();
        counted(before);
    }
    let places: Vec<_> = tasks(&cluster)
        .unwrap()
        .iter()
        .map(|task| (task["task"].as_u64().unwrap(), task["container"].as_u64().unwrap()))
        .collect();
    assert_eq!(places.len(), 4, "one for each task: {places:?}");
    let text = cluster.egret(["metrics", NAME, "record"]).run().expect(0).stdout;
    assert!(text.contains("COUNTER") && text.contains("recorded") && !text.contains("numbers"), "{text}");
    let unknown = cluster.egret(["metrics", NAME, "recrod"]).run().expect(2);
    assert!(unknown.stderr.contains("has no component `recrod`; its components are `"), "{unknown}");
    flow.complete(1);
}

#[test]
fn top_prints_pictures_where_there_is_no_terminal() {
    let cluster = cluster!();
    let flow = Flow::start(&cluster, &[]);
    let top = cluster.egret(["top", NAME, "--delay", "0.2", "-n", "2"]).run().expect(0).stdout;
    assert_eq!(top.matches("COMPONENT").count(), 2, "{top}");
    assert_eq!(top.lines().filter(|line| line.contains("record")).count(), 2, "{top}");
    let absent = cluster.egret(["top", "nobody"]).run().expect(3);
    assert!(absent.stderr.contains("nobody"), "{absent}");
    for delay in ["0", "-1"] {
        let wrong = cluster.egret(["top", NAME, "--delay", delay]).run().expect(2);
        assert!(wrong.stderr.contains("0.1 to 3600"), "{wrong}");
    }
    flow.complete(0);
}
