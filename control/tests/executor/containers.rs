//! Whole containers killed: they come back, and nothing of the dead lives on.

use crate::cluster::{Cluster, TOPOLOGY, files_below, nanos, signal, wait_for};
use egret_control::layout::Home;
use egret_control::scheduler::{Local, Scheduler};
use egret_control::state::ExecutionMode;
use egret_dataplane::ids::ContainerId;
use rustix::process::Signal;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Numbers that look random, for one seed the same ones.
struct Dice(u64);

impl Dice {
    fn new() -> Self {
        let seed = std::env::var("EGRET_TEST_SEED").ok().and_then(|s| s.parse().ok());
        let seed = seed.unwrap_or_else(|| u64::from(nanos()) | 1);
        println!("    EGRET_TEST_SEED={seed}");
        Self(seed)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

pub(crate) fn killed_containers_of_a_submit_come_back() {
    let cluster = Cluster::new(ExecutionMode::Submit);
    let mut dice = Dice::new();
    let _launch = cluster.launch();
    let id = cluster.execution().id;
    cluster.wait_until_started(&id);
    let mut kills = [0; 3];
    for _ in 0..20 {
        std::thread::park_timeout(Duration::from_millis(dice.below(300)));
        let container = dice.below(3) as u32;
        wait_for("the executor to hold its container", || cluster.executor(container).is_some());
        let killed = cluster.kill_container(container);
        kills[container as usize] += 1;
        wait_for("another executor", || cluster.executor(container).is_some_and(|pid| pid != killed));
        if dice.below(2) == 0 {
            cluster.wait_until_started(&id);
        }
    }
    // Also what user code left behind is there once for each task: nothing of a dead container lives on.
    cluster.wait_until_started(&id);
    for (container, kills) in (0..).zip(kills) {
        assert_eq!(cluster.executor_starts(container), kills + 1, "container {container}");
    }
    cluster.touch("end");
    wait_for("all processes to end", || cluster.processes(&id) == 0);
    let files = files_below(cluster.work_dir().path());
    assert!(files.iter().all(|f| f.parent().unwrap().ends_with("log-files")), "{files:?}");
}

/// Three containers, and a process for each task.
const RELAY: &str = "
name: word-count
config: {topology.containers: 3, egret.executor.restart.delay.ms: 10, egret.executor.restart.delay.max.ms: 100}
spouts:
  - {id: numbers, type: sequence, parallelism: 1, args: {rate: 1000}}
bolts:
  - {id: pass, type: identity, parallelism: 1}
  - {id: out, type: null-sink, parallelism: 1}
streams:
  - {from: numbers, to: pass, grouping: {type: SHUFFLE}}
  - {from: pass, to: out, grouping: {type: SHUFFLE}}
";

/// The real command with real processes.
fn egret(home: &Home, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_egret"));
    command.args(args).env("EGRET_HOME", home.path()).current_dir(home.path()).stdin(Stdio::null());
    command
}

/// How much the sink has executed, as long as the topology runs.
fn executed(home: &Home) -> Option<u64> {
    let output = egret(home, &["status", TOPOLOGY, "--json"]).output().unwrap();
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    let out = status["components"].as_array()?.iter().find(|c| c["id"] == "out")?;
    out["executed"].as_u64().filter(|_| status["state"] == "running")
}

pub(crate) fn killed_containers_of_a_run_come_back() {
    let cluster = Cluster::at(Home::at(&tempfile::tempdir().unwrap().keep()));
    let home = &cluster.home;
    let mut dice = Dice::new();
    fs::write(home.path().join("relay.yaml"), RELAY).unwrap();
    let errors = fs::File::create(home.path().join("errors")).unwrap();
    let mut command = egret(home, &["run", "relay.yaml", "--json"]);
    let run = command.stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
    wait_for("tuples to flow", || executed(home) > Some(0));
    for _ in 0..20 {
        std::thread::park_timeout(Duration::from_millis(dice.below(300)));
        let container = dice.below(4) as u32;
        wait_for("the executor to hold its container", || cluster.executor(container).is_some());
        let killed = cluster.kill_container(container);
        wait_for("another executor", || cluster.executor(container).is_some_and(|pid| pid != killed));
        if dice.below(2) == 0 {
            let before = executed(home).unwrap_or_default();
            wait_for("tuples to flow again", || executed(home) > Some(before));
        }
    }
    let before = executed(home).unwrap_or_default();
    wait_for("tuples to flow again", || executed(home) > Some(before));
    signal(run.id(), Signal::INT);
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["state"], "interrupted");
    assert_eq!(summary["restarts"]["executor"], 20, "{summary}");
    let errors = fs::read_to_string(home.path().join("errors")).unwrap();
    assert_eq!(errors.matches("has died (its executor: signal: 9 (SIGKILL))").count(), 20, "{errors}");
    assert_eq!(cluster.state().topologies().unwrap(), [""; 0]);
    let left = files_below(home.path());
    assert_eq!(left.len(), 2, "{left:?}");
    fs::remove_dir_all(home.path()).unwrap();
}

pub(crate) fn all_but_one_container_killed_at_once_come_back() {
    for survivor in 0..3 {
        let cluster = Cluster::new(ExecutionMode::Submit);
        let launch = cluster.launch();
        let id = cluster.execution().id;
        cluster.wait_until_started(&id);
        for container in (0..3).filter(|c| *c != survivor) {
            cluster.kill_container(container);
        }
        wait_for("the others to come back", || (0..3).all(|c| cluster.executor(c).is_some()));
        cluster.wait_until_started(&id);
        assert_eq!(cluster.executor_starts(survivor), 1);
        Local::default().kill(&launch.record, Duration::from_secs(5)).unwrap();
        assert_eq!(cluster.processes(&id), 0);
    }
}

pub(crate) fn an_executor_that_is_told_to_end_is_called_back() {
    let cluster = Cluster::new(ExecutionMode::Submit);
    let launch = cluster.launch();
    let id = cluster.execution().id;
    cluster.wait_until_started(&id);
    let kept = cluster.work_dir().container(ContainerId(1)).path().join("position");
    fs::write(&kept, "7").unwrap();
    signal(cluster.executor(1).unwrap(), Signal::TERM);
    wait_for("another executor", || cluster.executor_starts(1) == 2);
    cluster.wait_until_started(&id);
    assert_eq!(fs::read_to_string(kept).unwrap(), "7", "what components keep in the folder stays");
    Local::default().kill(&launch.record, Duration::from_secs(5)).unwrap();
}

pub(crate) fn a_run_killed_with_a_dead_container_leaves_nothing() {
    let cluster = Cluster::new(ExecutionMode::Run);
    let id = cluster.execution().id;
    let mut run = cluster.start_run();
    cluster.wait_until_started(&id);
    cluster.kill_container(2);
    run.kill().unwrap();
    run.wait().unwrap();
    wait_for("all processes to end", || cluster.processes(&id) == 0);
    assert_eq!(files_below(cluster.home.path()), Vec::<PathBuf>::new());
    assert_eq!(cluster.state().topologies().unwrap(), [""; 0]);
}
