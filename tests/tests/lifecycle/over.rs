//! Who comes late: what is left of a topology that is over ends by itself, and what is no part of it is not touched.

use crate::processes::QUIET;
use crate::support::{Seen, all_seen, log, one, seen, signal};
use egret_control::scheduler::sweep;
use egret_tests::{DEADLINE, cluster, wait_for};
use rustix::process::Signal;
use std::fs;

/// All tasks of container 1 end at once, those of container 2 some seconds later.
const UNEVEN: &str = "name: uneven
config: {topology.containers: 2}
spouts:
  - {id: few, type: sequence, args: {count: 10}}
  - {id: many, type: sequence, args: {count: 400, rate: 100}}
bolts:
  - {id: few-out, type: null-sink}
  - {id: many-out, type: null-sink}
streams:
  - {from: few, to: few-out, grouping: {type: SHUFFLE}}
  - {from: many, to: many-out, grouping: {type: SHUFFLE}}
";

/// The topology completes while a stmgr is down, which is started again only when all is over.
#[test]
fn a_stmgr_that_comes_back_after_the_end_ends() {
    let cluster = cluster!();
    cluster.write("uneven.yaml", UNEVEN);
    let delay = "egret.executor.restart.delay.ms=12000";
    let _ = cluster.egret(["submit", "uneven.yaml", "-c", delay]).run().expect(0);
    let status = wait_for("the first tasks to end", DEADLINE, || {
        let status = cluster.status("uneven")?;
        let counts = status["components"].as_array()?.iter().find(|c| c["id"] == "few-out")?;
        (counts["executed"] == 10).then(|| status.clone())
    });
    let stmgr = one(&seen(&status), |p| p.role == "stmgr" && p.container == 1);
    signal(stmgr.pid, Signal::KILL);
    cluster.wait_until_clean(true);
    let said = log(&cluster, "container-1/log-files/stmgr.log");
    assert!(said.contains("is over"), "{said}");
}

/// The entries of the topology are gone, and then the executor that others look after: there is nothing to start it
/// again for, nor to go on with.
#[test]
fn containers_end_that_find_their_topology_gone() {
    let cluster = cluster!();
    cluster.write("quiet.yaml", QUIET);
    let _ = cluster.egret(["submit", "quiet.yaml"]).run().expect(0);
    let executor = one(&all_seen(&cluster, "quiet", 10), |p| p.role == "executor" && p.container == 0);
    for entry in fs::read_dir(cluster.home().join("state/local")).unwrap() {
        fs::remove_dir_all(entry.unwrap().path()).unwrap();
    }
    signal(executor.pid, Signal::KILL);
    wait_for("all processes to end", DEADLINE, || cluster.processes().is_empty().then_some(()));
}

/// A state whose place is gone, as when nothing is mounted there, says nothing about the topology.
#[test]
fn containers_go_on_while_their_state_is_away() {
    let cluster = cluster!();
    cluster.write("quiet.yaml", QUIET);
    let _ = cluster.egret(["submit", "quiet.yaml"]).run().expect(0);
    let before = all_seen(&cluster, "quiet", 10);
    let state = cluster.home().join("state/local");
    fs::rename(&state, state.with_extension("aside")).unwrap();
    let stmgr = one(&before, |p| p.role == "stmgr" && p.container == 1);
    signal(stmgr.pid, Signal::KILL);
    wait_for("the stmgr to miss the state", DEADLINE, || {
        log(&cluster, "container-1/log-files/stmgr.log").contains("error: ").then_some(())
    });
    wait_for("the state to be back", DEADLINE, || {
        // The tmaster may have begun a new one.
        let _ = fs::remove_dir_all(&state);
        fs::rename(state.with_extension("aside"), &state).ok()
    });
    wait_for("the stmgr to come back", DEADLINE, || {
        let now = seen(&cluster.status("quiet")?);
        let is_back = |p: &Seen| p.role == "stmgr" && p.container == 1 && p.pid != stmgr.pid;
        now.iter().any(is_back).then_some(())
    });
    let _ = cluster.egret(["kill", "quiet"]).run().expect(0);
    cluster.wait_until_clean(true);
}

/// Somebody whose session is not the topology's has a process of it in the session.
#[test]
fn a_session_is_not_the_topology_s_because_one_process_in_it_is() {
    let cluster = cluster!();
    let id = format!("{:08x}", std::process::id());
    let script = format!("EGRET_TOPOLOGY_ID={id} sleep 600 & wait");
    let shell = cluster.command("setsid").args(["sh", "-c", &script]).spawn();
    let found = wait_for("the process to be found", DEADLINE, || {
        let found = sweep::find(&id).unwrap();
        (!found.is_empty()).then_some(found)
    });
    assert_eq!(found.len(), 1, "{found:?}");
    assert_ne!(found[0].pid, shell.pid());
    found[0].signal(Signal::KILL).unwrap();
    let _ = shell.finish().expect(0);
}
