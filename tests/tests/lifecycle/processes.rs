//! While a topology runs: which processes there are, and what each is.

use crate::flow;
use crate::support::{BEHAVIOURS, Seen, all_seen, one, parent, process, threads};
use egret_tests::{Cluster, cluster};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// One spout and three bolts of built-in components, none with anything to do.
pub(crate) const QUIET: &str = "name: quiet
config: {topology.containers: 2}
spouts:
  - {id: numbers, type: sequence, args: {rate: 0.001}}
bolts:
  - {id: pass, type: identity, parallelism: 2}
  - {id: out, type: null-sink}
streams:
  - {from: numbers, to: pass, grouping: {type: SHUFFLE}}
  - {from: pass, to: out, grouping: {type: SHUFFLE}}
";

/// Each process of the status is what it is said to be, started by whom it should.
fn are_what_they_are_said_to_be(processes: &[Seen], run: u32) {
    let executor_of = |container| one(processes, |p| p.role == "executor" && p.container == container).pid;
    for seen in processes {
        let found = process(seen.pid);
        let container = seen.container.to_string();
        let says = |role: &str| found.args.get(1).is_some_and(|arg| arg == role);
        match seen.role.as_str() {
            "executor" => {
                assert!(says("executor") && found.args.ends_with(&["--container".into(), container]));
                assert_eq!(parent(seen.pid), Some(run), "{found:?}");
                continue;
            }
            "tmaster" => assert!(says("tmaster") && seen.container == 0, "{found:?}"),
            "stmgr" => assert!(says("stmgr") && found.args.contains(&container), "{found:?}"),
            "instance" => {
                let task = seen.task.unwrap().to_string();
                assert_eq!(found.variable("EGRET_TASK"), Some(task), "{found:?}");
                let folder = PathBuf::from(found.variable("EGRET_CONTAINER_DIR").unwrap());
                assert!(folder.ends_with(format!("container-{container}")), "{found:?}");
            }
            role => panic!("a process of the role {role}"),
        }
        assert_eq!(parent(seen.pid), Some(executor_of(seen.container)), "{found:?}");
    }
}

fn roles(processes: &[Seen], role: &str) -> usize {
    processes.iter().filter(|p| p.role == role).count()
}

/// As [`are_what_they_are_said_to_be`], and there is no other process.
fn there_is_one_of_each(cluster: &Cluster, topology: &str, run: u32) {
    let seen = all_seen(cluster, topology, 10);
    assert_eq!(["executor", "tmaster", "stmgr", "instance"].map(|r| roles(&seen, r)), [3, 1, 2, 4]);
    are_what_they_are_said_to_be(&seen, run);
    let known: BTreeSet<u32> = seen.iter().map(|p| p.pid).chain([run]).collect();
    let real: BTreeSet<u32> = cluster.processes().iter().map(|p| p.pid).collect();
    assert_eq!(known, real);
    for instance in seen.iter().filter(|p| p.role == "instance") {
        assert_eq!(threads(instance.pid).len(), 2, "gateway and task: {instance:?}");
    }
}

#[test]
fn one_process_for_each_instance_stmgr_tmaster_and_executor() {
    let cluster = cluster!();
    cluster.write("quiet.yaml", QUIET);
    let run = cluster.egret(["run", "--json", "quiet.yaml"]).spawn();
    there_is_one_of_each(&cluster, "quiet", run.pid());

    let there = cluster.leftovers();
    let pid_files = there.files.iter().filter(|file| file.extension().is_some_and(|e| e == "pid")).count();
    assert_eq!(
        (there.sockets.len(), pid_files),
        (2, 10),
        "a socket a container, a pid file a process: {there}"
    );
    assert!(!there.memory.is_empty(), "the containers' shared memory is seen, while it is there");

    run.signal(Signal::INT);
    let _ = run.finish().expect(130);
    cluster.wait_until_clean(false);
}

#[test]
fn one_process_for_each_instance_of_a_program() {
    let cluster = cluster!();
    let flow = flow::Flow::start(&cluster, &[]);
    there_is_one_of_each(&cluster, flow::NAME, flow.run.pid());
    for instance in flow.first.iter().filter(|p| p.role == "instance") {
        assert_eq!(process(instance.pid).args[0], BEHAVIOURS);
    }
    assert_eq!(flow.complete(0)["lost"], 0);
}
