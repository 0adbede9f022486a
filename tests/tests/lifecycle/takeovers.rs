//! BR-044, BR-064: the entry by which all find the tmaster is gone, or two claim to be the same: one of them is, and no tuple
//! notices.

use crate::flow::{self, Flow, NAME};
use crate::support::{all_seen, log, one, seen, signal};
use egret_tests::records::{self, values_of};
use egret_tests::{Cluster, DEADLINE, Running, cluster, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, File};
use std::path::PathBuf;

/// Where the state keeps what finds the tmaster.
fn entry(cluster: &Cluster) -> PathBuf {
    cluster.home().join("state/local/tmasters").join(NAME)
}

/// A process of the topology that no executor has started.
fn by_hand(cluster: &Cluster, role: &str, more: &[&str]) -> Running {
    let state = format!("file:{}", cluster.home().join("state/local").display());
    cluster.egret([role, "--state", &state, "--topology", NAME]).args(more).spawn()
}

/// The process that a status names as the tmaster.
fn tmaster(status: &Value) -> u32 {
    one(&seen(status), |process| process.role == "tmaster").pid
}

/// BR-044.
#[test]
fn an_entry_that_somebody_removed_is_made_again() {
    let cluster = cluster!();
    let flow = Flow::start(&cluster, &[]);
    let first = tmaster(&cluster.wait_until(NAME, "running"));
    fs::remove_file(entry(&cluster)).unwrap();
    wait_for("the entry to be there again", DEADLINE, || entry(&cluster).exists().then_some(()));
    assert_eq!(tmaster(&cluster.wait_until(NAME, "running")), first);
    flow.more_arrive();
    let said = log(&cluster, "container-0/log-files/tmaster.log");
    assert!(said.contains("the entry of this tmaster is gone from the state; it is made again"), "{said}");
    assert_eq!(flow.complete(0)["lost"], 0);
}

/// BR-044: it looks for the tmaster while nothing says where that is.
#[test]
fn a_stmgr_that_comes_back_while_the_entry_is_gone_finds_the_tmaster() {
    let cluster = cluster!();
    let flow = Flow::start(&cluster, &[]);
    let stmgr = one(&flow.first, |process| process.role == "stmgr" && process.container == 1);
    fs::remove_file(entry(&cluster)).unwrap();
    signal(stmgr.pid, Signal::KILL);
    let _ = flow.successor(&stmgr);
    flow.more_arrive();
    flow.complete(0);
}

/// BR-044, BR-064: one that was held up lost its entry, and finds another tmaster when it goes on. That one dies in turn, and its entry
/// with it: a new one takes over.
#[test]
fn of_two_tmasters_the_one_with_the_entry_is_it_and_the_other_gives_up() {
    let cluster = cluster!();
    let (submit, folder) = flow::command(&cluster, "submit", &[]);
    let _ = submit.run().expect(0);
    let first = tmaster_of(&cluster);
    let arrived = || values_of(&records::read(&folder), "record");
    let more_arrive = || {
        let before = arrived().len();
        wait_for("more numbers", DEADLINE, || (arrived().len() >= before + 100).then_some(()));
    };
    more_arrive();

    // As long as the first one has its entry the second one gets nowhere.
    let refused = by_hand(&cluster, "tmaster", &["--incarnation", "8"]).finish().expect(1);
    assert!(refused.stderr.contains("cannot become the tmaster"), "{refused}");
    assert!(refused.stderr.contains("is held by a living process"), "{refused}");
    assert_eq!(tmaster_of(&cluster), first);

    signal(first, Signal::STOP);
    fs::remove_file(entry(&cluster)).unwrap();
    let second = by_hand(&cluster, "tmaster", &["--incarnation", "9"]);
    wait_for("the second one to take the name", DEADLINE, || entry(&cluster).exists().then_some(()));
    signal(first, Signal::CONT);
    wait_for("the stmgrs to come to the second one", DEADLINE, || {
        let status = cluster.status(NAME)?;
        (status["state"] == "running" && tmaster(&status) == second.pid()).then_some(())
    });
    let said = || log(&cluster, "container-0/log-files/tmaster.log");
    wait_for("the first one to give up", DEADLINE, || {
        said().contains("another tmaster has taken over").then_some(())
    });
    more_arrive();

    let by_hand = second.pid();
    second.signal(Signal::KILL);
    let _ = second.finish();
    let third = wait_for("another one to take over", DEADLINE, || {
        let status = cluster.status(NAME)?;
        let now = seen(&status).into_iter().find(|process| process.role == "tmaster")?;
        (status["state"] == "running" && now.pid != by_hand).then_some(now.pid)
    });
    assert_ne!(third, first);
    more_arrive();

    File::create(folder.with_extension("enough")).unwrap();
    cluster.wait_until_clean(true);
    let mut numbers: Vec<u64> = arrived().iter().map(|number| number.parse().unwrap()).collect();
    numbers.sort_unstable();
    let all: Vec<u64> = (numbers[0]..).take(numbers.len()).collect();
    assert_eq!(numbers, all, "each number once");
}

fn tmaster_of(cluster: &Cluster) -> u32 {
    tmaster(&cluster.wait_until(NAME, "running"))
}

/// BR-064: the container of a living executor is nobody else's, and its stmgr is not either.
#[test]
fn a_second_executor_of_a_container_gives_up_and_touches_nothing() {
    let cluster = cluster!();
    let (submit, folder) = flow::command(&cluster, "submit", &[]);
    let _ = submit.run().expect(0);
    let before = all_seen(&cluster, NAME, flow::PROCESSES);
    let refused = by_hand(&cluster, "executor", &["--container", "1"]).finish().expect(1);
    assert!(refused.stderr.contains("the container has an executor already"), "{refused}");
    assert_eq!(all_seen(&cluster, NAME, flow::PROCESSES), before);
    File::create(folder.with_extension("enough")).unwrap();
    cluster.wait_until_clean(true);
}
