//! What is left of a topology when it has ended, however it ended: nothing but results, and the logs of a submitted one.

use crate::flow::{self, NAME, command};
use crate::processes::QUIET;
use crate::support::{BEHAVIOURS, Seen, letter, seen, signal, state_entries};
use egret_tests::{Cluster, DEADLINE, Running, cluster, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

/// Many numbers through two slow bolts into a file; ends when told to.
const TO_A_FILE: &str = "name: to-a-file
config: {topology.containers: 2}
spouts:
  - {id: numbers, type: sequence, args: {rate: 20000}}
bolts:
  - {id: slow, type: sleep, parallelism: 2, args: {micros: 20}}
  - {id: out, type: file-sink, args: {path: numbers.tsv}}
streams:
  - {from: numbers, to: slow, grouping: {type: SHUFFLE}}
  - {from: slow, to: out, grouping: {type: GLOBAL}}
";

/// A file that is not there is the input of one.
const NO_INPUT: &str = "name: no-input
config: {topology.containers: 2}
spouts:
  - {id: lines, type: file-lines, args: {path: [book.txt]}}
bolts:
  - {id: out, type: null-sink, parallelism: 2}
streams:
  - {from: lines, to: out, grouping: {type: SHUFFLE}}
";

fn count(summary: &Value, component: &str, what: &str) -> u64 {
    summary["components"][component][what].as_u64().unwrap()
}

/// Waits until numbers are in the sink's file.
fn results_arrive(cluster: &Cluster, run: &Running) {
    wait_for("results", DEADLINE, || {
        assert!(!run.has_ended(), "the run ended: {}", run.stderr());
        std::fs::metadata(cluster.path("numbers.tsv")).is_ok_and(|file| file.len() > 5000).then_some(())
    });
}

/// Nothing is in the state, and a topology of the same name can be started.
fn the_name_is_free(cluster: &Cluster, file: &str) {
    assert_eq!(state_entries(cluster), [""; 0], "nothing is in the state");
    let _ = cluster.egret(["submit", file]).run().expect(0);
}

#[test]
fn after_a_submitted_topology_has_completed_only_logs_are_left() {
    let cluster = cluster!();
    let ten = TO_A_FILE.replace("rate: 20000", "count: 10");
    cluster.write("ten.yaml", ten);
    let _ = cluster.egret(["submit", "ten.yaml"]).run().expect(0);
    cluster.wait_until_clean(true);
    assert_eq!(cluster.read("numbers.tsv").lines().count(), 10);
    assert_eq!(cluster.egret(["list", "--json"]).run().expect(0).json(), Value::from(Vec::<Value>::new()));
    the_name_is_free(&cluster, "ten.yaml");
}

/// Twelve are there when the thirteenth comes; what has other names is nobody's business.
#[test]
fn the_last_ten_submissions_of_a_name_leave_their_logs() {
    let cluster = cluster!();
    cluster.write("t.yaml", QUIET);
    let folders = cluster.home().join("topologies");
    let old: Vec<_> = (0..12).map(|i| format!("quiet-{i:08x}")).collect();
    let others = ["quiet-night-00000000", "quiet-notes", "noisy-00000000"].map(str::to_owned);
    for (age, name) in others.iter().chain(&old).rev().enumerate() {
        std::fs::create_dir_all(folders.join(name).join("container-1/log-files")).unwrap();
        let made = SystemTime::now() - Duration::from_secs(60 * (age as u64 + 1));
        std::fs::File::open(folders.join(name)).unwrap().set_modified(made).unwrap();
    }
    let _ = cluster.egret(["submit", "t.yaml"]).run().expect(0);
    let names = std::fs::read_dir(&folders).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let (kept, new): (BTreeSet<_>, BTreeSet<_>) =
        names.partition(|name| old.contains(name) || others.contains(name));
    assert_eq!(new.len(), 1, "{new:?}");
    assert_eq!(kept, old[3..].iter().chain(&others).cloned().collect());
    let _ = cluster.egret(["kill", "quiet"]).run().expect(0);
}

/// Drained: every number that was emitted is in the results, once.
#[test]
fn after_ctrl_c_results_are_what_was_emitted_and_nothing_else_is_left() {
    let cluster = cluster!();
    cluster.write("t.yaml", TO_A_FILE);
    let run = cluster.egret(["run", "--json", "t.yaml"]).spawn();
    results_arrive(&cluster, &run);
    run.signal(Signal::INT);
    let summary = run.finish().expect(130).json();
    assert_eq!((&summary["state"], &summary["lost"]), (&"interrupted".into(), &0.into()), "{summary}");
    cluster.wait_until_clean(false);
    let results = cluster.read("numbers.tsv");
    let numbers: BTreeSet<u64> = results.lines().map(|line| line.parse().unwrap()).collect();
    let emitted = count(&summary, "numbers", "emitted");
    assert_eq!(numbers, (0..emitted).collect(), "the numbers below {emitted}");
    assert_eq!(results.lines().count() as u64, emitted, "each once");
    assert_eq!(count(&summary, "out", "executed"), emitted);
    the_name_is_free(&cluster, "t.yaml");
}

/// A terminal's Ctrl-C reaches a process group: the topology is in none that it would reach.
#[test]
fn ctrl_c_of_a_whole_process_group_drains_all_the_same() {
    let cluster = cluster!();
    cluster.write("t.yaml", TO_A_FILE);
    let mut command = cluster.egret(["run", "--json", "t.yaml"]);
    std::os::unix::process::CommandExt::process_group(command.inner(), 0);
    let run = command.spawn();
    results_arrive(&cluster, &run);
    let group = rustix::process::Pid::from_raw(run.pid().cast_signed()).unwrap();
    rustix::process::kill_process_group(group, Signal::INT).unwrap();
    let summary = run.finish().expect(130).json();
    assert_eq!((&summary["state"], &summary["lost"]), (&"interrupted".into(), &0.into()), "{summary}");
    assert_eq!(count(&summary, "out", "executed"), count(&summary, "numbers", "emitted"));
    cluster.wait_until_clean(false);
}

/// SIGTERM drains as well, and the hang-up of the terminal stops at once.
#[test]
fn after_other_signals_nothing_is_left() {
    let cluster = cluster!();
    cluster.write("t.yaml", TO_A_FILE);
    for signal in [Signal::TERM, Signal::HUP] {
        let run = cluster.egret(["run", "--json", "t.yaml"]).spawn();
        results_arrive(&cluster, &run);
        run.signal(signal);
        assert_eq!(run.finish().expect(130).json()["state"], "interrupted");
        cluster.wait_until_clean(false);
        std::fs::remove_file(cluster.path("numbers.tsv")).unwrap();
    }
}

#[test]
fn after_kill_9_of_the_run_nothing_is_left() {
    let cluster = cluster!();
    cluster.write("t.yaml", TO_A_FILE);
    let run = cluster.egret(["run", "t.yaml"]).spawn();
    results_arrive(&cluster, &run);
    run.signal(Signal::KILL);
    assert_eq!(run.finish().code(), 128 + 9);
    cluster.wait_until_clean(false);
    the_name_is_free(&cluster, "t.yaml");
}

/// One of the executors can no longer clean up; the others do it with their own.
#[test]
fn after_kill_9_of_an_executor_and_the_run_nothing_lives() {
    for container in 0..3 {
        let cluster = cluster!();
        let flow = flow::Flow::start(&cluster, &[]);
        let executor = flow.first.iter().find(|p| p.role == "executor" && p.container == container).unwrap();
        flow.run.signal(Signal::KILL);
        signal(executor.pid, Signal::KILL);
        assert_eq!(flow.run.finish().code(), 128 + 9);
        wait_for("all processes to end", DEADLINE, || cluster.processes().is_empty().then_some(()));
        // The files of the killed executor's container are nobody's until the name is used again.
        let (submit, _) = command(&cluster, "submit", &[]);
        let _ = submit.run().expect(0);
        let _ = cluster.egret(["kill", NAME]).run().expect(0);
        cluster.wait_until_clean(true);
    }
}

/// A run starts the container of a dead executor again, and leaves nothing of either in the end.
#[test]
fn a_container_whose_executor_is_killed_comes_back_and_leaves_nothing() {
    let cluster = cluster!();
    let flow = flow::Flow::start(&cluster, &[]);
    let executor = flow.first.iter().find(|p| p.role == "executor" && p.container == 1).unwrap();
    signal(executor.pid, Signal::KILL);
    let _ = flow.successor(executor);
    flow.more_arrive();
    flow.run.signal(Signal::INT);
    let finished = flow.run.finish().expect(130);
    assert!(finished.stderr.contains("container 1 has died"), "{}", finished.stderr);
    cluster.wait_until_clean(false);
}

/// Submits the topology, lets `harm` do something to its processes, and kills it.
fn kill_after(harm: impl Fn(&[Seen])) {
    let cluster = cluster!();
    cluster.write("quiet.yaml", QUIET);
    let _ = cluster.egret(["submit", "quiet.yaml"]).run().expect(0);
    let processes = seen(&cluster.wait_until("quiet", "running"));
    harm(&processes);
    let killed = cluster.egret(["kill", "quiet", "--json", "--timeout", "2"]).run().expect(0).json();
    assert_eq!(killed["state"], "killed");
    // When the command has ended there is no process, not a little later.
    assert!(cluster.processes().is_empty(), "{}", cluster.leftovers());
    assert!(cluster.leftovers().only_logs(), "{}", cluster.leftovers());
    the_name_is_free(&cluster, "quiet.yaml");
}

/// BR-037.
#[test]
fn kill_leaves_only_logs() {
    kill_after(|_| {});
}

/// BR-037: an executor was killed first.
#[test]
fn kill_after_kill_9_of_an_executor_leaves_only_logs() {
    kill_after(|processes| {
        let executor = processes.iter().find(|p| p.role == "executor" && p.container == 2).unwrap();
        signal(executor.pid, Signal::KILL);
    });
}

/// BR-037: all executors were killed first.
#[test]
fn kill_after_kill_9_of_all_executors_leaves_only_logs() {
    kill_after(|processes| {
        processes.iter().filter(|p| p.role == "executor").for_each(|p| signal(p.pid, Signal::KILL));
    });
}

/// BR-037: nothing of the topology answers.
#[test]
fn kill_of_a_stopped_topology_leaves_only_logs() {
    kill_after(|processes| {
        processes.iter().for_each(|p| signal(p.pid, Signal::STOP));
        let stopped = |p: &Seen| letter(p.pid) == Some('T');
        wait_for("all to stop", DEADLINE, || processes.iter().all(stopped).then_some(()));
    });
}

#[test]
fn a_start_without_its_input_says_so_and_leaves_nothing() {
    let cluster = cluster!();
    cluster.write("t.yaml", NO_INPUT);
    let run = cluster.egret(["run", "t.yaml"]).run().expect(1);
    let says_why = |text: &str| text.contains("`lines` task 1") && text.contains("book.txt");
    assert!(says_why(&run.stderr), "{}", run.stderr);
    cluster.wait_until_clean(false);
    let submit = cluster.egret(["submit", "t.yaml"]).run().expect(1);
    assert!(submit.stderr.contains("lines") && submit.stderr.contains("book.txt"), "{}", submit.stderr);
    assert!(cluster.leftovers().only_logs(), "{}", cluster.leftovers());
    assert_eq!(state_entries(&cluster), [""; 0]);
}

/// A panic of user code fails the tuple or ends the task, as the configuration says, and is reported with component,
/// task and message.
#[test]
fn a_panic_is_reported_with_component_task_and_message() {
    let cluster = cluster!();
    let program = [BEHAVIOURS, "--", "panicking", "."];
    let says_what = |text: &str| text.contains("moody") && text.contains("this bolt does not like that");
    let run = cluster.egret(["run", "--json"]).args(program).run().expect(0);
    assert_eq!(count(&run.json(), "moody", "failed"), 1);
    assert!(says_what(&run.stderr), "{}", run.stderr);
    cluster.wait_until_clean(false);
}
