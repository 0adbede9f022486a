//! BR-040: a tuple that is followed by none is delivered all the same.

use crate::run::{BEHAVIOURS, EPOLL, records_folder};
use egret_tests::records::{self, Record};
use egret_tests::{Cluster, DEADLINE, cluster, wait_for};
use rustix::process::Signal;
use std::fs;

/// Runs a case whose spout emits one number and then is idle for ever, until `record` has written `value` down.
fn arrives_while_all_is_idle(case: &str, value: &str, containers: u32, options: &[&str]) {
    let cluster = cluster!();
    let folder = records_folder(&cluster, "records");
    let layout = format!("topology.containers={containers}");
    let program = [BEHAVIOURS, "--", case, folder.to_str().unwrap()];
    let run = cluster.egret(["run", "--json", "-c", &layout]).args(options).args(program).spawn();
    let arrived = |found: &Vec<Record>| found.iter().any(|record| record.component == "record");
    let found = wait_for("the tuple to arrive", DEADLINE, || {
        assert!(!run.has_ended(), "the run ended: {}", run.stderr());
        Some(records::read(&folder)).filter(arrived)
    });
    assert_eq!(found.len(), 1);
    if options == EPOLL {
        expect_epoll(&cluster);
    }
    assert_eq!(found[0].value, value);

    run.signal(Signal::INT);
    let summary = run.finish().expect(130).json();
    assert_eq!((&summary["state"], &summary["lost"]), (&"interrupted".into(), &0.into()), "{summary}");
    cluster.wait_until_clean(false);
}

/// Every stmgr says in its log how its network is driven.
fn expect_epoll(cluster: &Cluster) {
    let files = cluster.leftovers().files;
    let logs: Vec<_> = files.iter().filter(|file| file.ends_with("stmgr.log")).collect();
    assert!(!logs.is_empty(), "{files:?}");
    for log in logs {
        let said = fs::read_to_string(log).unwrap();
        assert!(said.contains("reactor=\"epoll\""), "{said}");
    }
}

#[test]
fn one_tuple_then_silence() {
    arrives_while_all_is_idle("one_then_silence", "7", 1, &[]);
    arrives_while_all_is_idle("one_then_silence", "7", 2, &[]);
}

#[test]
fn one_tuple_then_silence_over_epoll() {
    arrives_while_all_is_idle("one_then_silence", "7", 2, EPOLL);
}

#[test]
fn one_tuple_of_a_tick_then_silence() {
    let ticking = ["-c", "topology.tick.tuple.freq.ms=50"];
    arrives_while_all_is_idle("emit_at_tick", "8", 1, &ticking);
    arrives_while_all_is_idle("emit_at_tick", "8", 3, &ticking);
}
