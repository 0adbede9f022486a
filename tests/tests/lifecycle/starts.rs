//! BR-049: starts that are cut short at every step, each followed by another start at once.

use crate::flow::{self, NAME, PROCESSES};
use crate::support::{all_seen, signal};
use egret_tests::{Cluster, DEADLINE, Running, cluster};
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// Ten numbers through two containers into a file.
const TEN: &str = "name: ten
config: {topology.containers: 2}
spouts:
  - {id: numbers, type: sequence, args: {count: 10}}
bolts:
  - {id: pass, type: identity, parallelism: 2}
  - {id: out, type: file-sink, args: {path: ten.tsv}}
streams:
  - {from: numbers, to: pass, grouping: {type: SHUFFLE}}
  - {from: pass, to: out, grouping: {type: GLOBAL}}
";

/// More files and folders than a start of the topology makes.
const MOST_ENTRIES: usize = 44;

/// Files and folders below one.
fn entries(folder: &Path) -> usize {
    let inside = fs::read_dir(folder).into_iter().flatten().flatten();
    inside.map(|entry| 1 + if entry.path().is_dir() { entries(&entry.path()) } else { 0 }).sum()
}

/// Waits, without a pause that would miss a step, until the start has made so many files and folders; or it is over,
/// or makes no more.
fn reaches(cluster: &Cluster, run: &Running, step: usize) -> bool {
    let begun = Instant::now();
    while entries(&cluster.home()) < step {
        if run.has_ended() || begun.elapsed() > DEADLINE {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

fn completes_exactly(cluster: &Cluster, round: usize) {
    let summary = cluster.run_to_the_end(["ten.yaml"]).json();
    assert_eq!((&summary["state"], &summary["lost"]), (&"completed".into(), &0.into()), "round {round}");
    let mut numbers: Vec<u64> = cluster.read("ten.tsv").lines().map(|n| n.parse().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, Vec::from_iter(0..10), "round {round}");
}

/// `egret run` is killed at each step of a start; the next start, at once, is not hindered by what is left.
#[test]
fn a_run_killed_at_any_step_of_its_start_hinders_no_other() {
    let cluster = cluster!();
    cluster.write("ten.yaml", TEN);
    let mut reached = 0;
    for step in 1..MOST_ENTRIES {
        let run = cluster.egret(["run", "ten.yaml"]).spawn();
        reached += usize::from(reaches(&cluster, &run, step));
        run.signal(Signal::KILL);
        let _ = run.finish();
        completes_exactly(&cluster, step);
    }
    assert!(reached > 20, "only {reached} steps were seen");
    cluster.wait_until_clean(false);
}

/// Ctrl-C at each step: the run ends, whatever it was about to do, and leaves nothing.
#[test]
fn a_run_interrupted_at_any_step_of_its_start_leaves_nothing() {
    let cluster = cluster!();
    cluster.write("quiet.yaml", crate::processes::QUIET);
    for step in (1..MOST_ENTRIES).step_by(3) {
        let run = cluster.egret(["run", "quiet.yaml"]).spawn();
        let _ = reaches(&cluster, &run, step);
        run.signal(Signal::INT);
        let finished = run.finish().expect(130);
        cluster.wait_until_clean(false);
        assert!(!finished.stderr.contains("error"), "step {step}: {finished}");
    }
}

/// Everything that was started is killed at each step, so that nobody is left to clean up.
#[test]
fn a_run_killed_with_all_its_processes_hinders_no_other() {
    let cluster = cluster!();
    cluster.write("ten.yaml", TEN);
    for step in (1..MOST_ENTRIES).step_by(2) {
        let run = cluster.egret(["run", "ten.yaml"]).spawn();
        let _ = reaches(&cluster, &run, step);
        run.signal(Signal::KILL);
        // In the order of `/proc`, and those that were started meanwhile too.
        while let Some(process) = cluster.processes().first() {
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_raw(process.pid.cast_signed()).unwrap(),
                Signal::KILL,
            );
        }
        let _ = run.finish();
        completes_exactly(&cluster, step);
    }
    cluster.wait_until_clean(false);
}

/// `egret submit` is killed at each step: its topology is there or not, and can be killed and started again.
#[test]
fn a_submit_killed_at_any_step_can_be_undone() {
    let cluster = cluster!();
    for step in (1..MOST_ENTRIES).step_by(4) {
        let (submit, _) = flow::command(&cluster, "submit", &[]);
        let before = entries(&cluster.home());
        let submit = submit.spawn();
        let _ = reaches(&cluster, &submit, before + step);
        submit.signal(Signal::KILL);
        let _ = submit.finish();
        let killed = cluster.egret(["kill", NAME]).run();
        assert!([0, 3].contains(&killed.code()), "step {step}: {killed}");
        let left = cluster.leftovers();
        assert!(left.processes.is_empty() && left.sockets.is_empty(), "step {step}:\n{left}");
    }
    let (submit, _) = flow::command(&cluster, "submit", &[]);
    let _ = submit.run().expect(0);
    let _ = cluster.egret(["kill", NAME]).run().expect(0);
    cluster.wait_until_clean(true);
}

/// A process of the topology is killed as soon as there is one of its kind, in a container of its own each time.
#[test]
fn a_process_killed_while_it_starts_is_started_again() {
    let cluster = cluster!();
    for word in ["tmaster", "stmgr", "instance"] {
        let (run, _) = flow::command(&cluster, "run", &[]);
        let run = run.spawn();
        let victim = egret_tests::wait_for(word, DEADLINE, || {
            let all = cluster.processes();
            all.into_iter().find(|process| {
                let is_instance = process.variable("EGRET_ROLE").is_some_and(|role| role == "instance");
                process.args.get(1).is_some_and(|arg| arg == word) || (is_instance && word == "instance")
            })
        });
        signal(victim.pid, Signal::KILL);
        let processes = all_seen(&cluster, NAME, PROCESSES);
        assert!(processes.iter().all(|process| process.pid != victim.pid));
        run.signal(Signal::INT);
        let _ = run.finish().expect(130);
        cluster.wait_until_clean(false);
    }
}
