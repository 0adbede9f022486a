//! Executors and the local scheduler with real processes and real kills.
//!
//! This binary plays every role: without a role on its command line it runs the tests; as `executor` it is the real
//! one; as tmaster, stmgr or instance it is a dummy that obeys files in the home folder.
#![allow(clippy::unwrap_used)]

mod cluster;
mod containers;

use cluster::{
    Cluster, ROLE_ENV, TOPOLOGY, files_below, is_zombie, kill_9, packing, signal, topology, wait_for,
};
use egret_control::executor::{self, ExecutorOptions, Failure};
use egret_control::layout::{Home, ProcessName, TOPOLOGY_ID_ENV};
use egret_control::scheduler::{LaunchRequest, Local, Scheduler, clear_leftovers};
use egret_control::state::ExecutionMode;
use egret_dataplane::ids::{ContainerId, TaskId};
use rustix::process::Signal;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let first = args.get(1).map(String::as_str);
    // A filter of tests may have the name of a role.
    if std::env::var_os(ROLE_ENV).is_none() {
        return run_tests(first.filter(|f| !f.starts_with('-')).unwrap_or_default());
    }
    match first {
        Some("executor") => executor_role(&args),
        Some("run") => run_role(),
        Some("tmaster" | "stmgr") => daemon_role(),
        Some("instance") => instance_role(),
        role => panic!("no role {role:?}"),
    }
}

fn run_tests(filter: &str) -> ExitCode {
    const TESTS: &[(&str, fn())] = &[
        ("kill_leaves_no_process", kill_leaves_no_process),
        ("kill_leaves_no_process_of_killed_executors", kill_leaves_no_process_of_killed_executors),
        ("an_orderly_end_leaves_only_logs", an_orderly_end_leaves_only_logs),
        ("a_killed_run_leaves_nothing", a_killed_run_leaves_nothing),
        (
            "a_run_killed_with_its_executors_is_cleared_later",
            a_run_killed_with_its_executors_is_cleared_later,
        ),
        ("a_run_that_gives_up_says_why", a_run_that_gives_up_says_why),
        ("a_killed_child_is_replaced", a_killed_child_is_replaced),
        ("a_child_that_ended_unseen_is_replaced", a_child_that_ended_unseen_is_replaced),
        (
            "a_child_that_ended_before_it_is_signalled_is_done",
            a_child_that_ended_before_it_is_signalled_is_done,
        ),
        ("a_run_killed_at_any_moment_blocks_nothing", a_run_killed_at_any_moment_blocks_nothing),
        ("a_second_executor_is_refused", a_second_executor_is_refused),
        ("killed_containers_of_a_submit_come_back", containers::killed_containers_of_a_submit_come_back),
        (
            "all_but_one_container_killed_at_once_come_back",
            containers::all_but_one_container_killed_at_once_come_back,
        ),
        ("killed_containers_of_a_run_come_back", containers::killed_containers_of_a_run_come_back),
        (
            "an_executor_that_is_told_to_end_is_called_back",
            containers::an_executor_that_is_told_to_end_is_called_back,
        ),
        (
            "a_run_killed_with_a_dead_container_leaves_nothing",
            containers::a_run_killed_with_a_dead_container_leaves_nothing,
        ),
        ("without_its_topology_an_executor_says_so", without_its_topology_an_executor_says_so),
    ];
    for (name, test) in TESTS.iter().filter(|(name, _)| name.contains(filter)) {
        println!("test {name} ...");
        test();
    }
    ExitCode::SUCCESS
}

// The roles.

fn executor_role(args: &[String]) -> ExitCode {
    let value = |name: &str| args[args.iter().position(|a| a == name).unwrap() + 1].clone();
    let container = ContainerId(value("--container").parse().unwrap());
    let options = ExecutorOptions { state_url: value("--state"), topology: value("--topology"), container };
    executor::run(options).unwrap_or_else(|error| {
        eprintln!("{error:#}");
        ExitCode::FAILURE
    })
}

/// What `egret run` does, up to the moment it is killed.
fn run_role() -> ExitCode {
    let cluster = Cluster::at(Home::from_env().unwrap());
    let launch = cluster.launch();
    cluster.state().put_scheduler_record(TOPOLOGY, &launch.record).unwrap();
    loop {
        std::thread::park();
    }
}

fn daemon_role() -> ExitCode {
    let home = Home::from_env().unwrap();
    while !home.path().join("end").exists() {
        std::thread::park_timeout(Duration::from_millis(5));
    }
    ExitCode::SUCCESS
}

/// Starts a process beside it in its session, and leaves another in a session of its own.
fn instance_role() -> ExitCode {
    let home = Home::from_env().unwrap();
    if home.path().join("fail").exists() {
        eprintln!("no such file: book.txt");
        return ExitCode::from(3);
    }
    let mut beside = Command::new("sleep").arg("600").spawn().unwrap();
    Command::new("setsid").args(["-f", "sleep", "600"]).status().unwrap();
    beside.wait().unwrap();
    ExitCode::SUCCESS
}

// The tests.

/// BR-037.
fn kill_leaves_no_process() {
    let cluster = Cluster::new(ExecutionMode::Submit);
    let launch = cluster.launch();
    let id = cluster.execution().id;
    cluster.wait_until_started(&id);
    let local = Local::default();
    assert!(local.is_alive(&launch.record).unwrap());
    local.kill(&launch.record, Duration::from_secs(5)).unwrap();
    assert!(!local.is_alive(&launch.record).unwrap());
    assert_eq!(cluster.processes(&id), 0);
    local.kill(&launch.record, Duration::from_secs(5)).unwrap();
    cluster.work_dir().remove_all_but_logs().unwrap();
    for path in files_below(cluster.work_dir().path()) {
        assert!(path.parent().unwrap().ends_with("log-files"), "{} is left", path.display());
    }
}

/// BR-037.
fn kill_leaves_no_process_of_killed_executors() {
    let cluster = Cluster::new(ExecutionMode::Submit);
    let launch = cluster.launch();
    let id = cluster.execution().id;
    cluster.wait_until_started(&id);
    for executor in &launch.executors {
        kill_9(executor.pid());
    }
    Local::default().kill(&launch.record, Duration::from_secs(5)).unwrap();
    assert_eq!(cluster.processes(&id), 0);
}

fn an_orderly_end_leaves_only_logs() {
    let cluster = Cluster::new(ExecutionMode::Submit);
    let mut launch = cluster.launch();
    let id = cluster.execution().id;
    cluster.wait_until_started(&id);
    cluster.touch("end");
    for executor in &mut launch.executors {
        wait_for("the executors to end", || executor.try_wait().unwrap().is_some_and(|s| s.success()));
    }
    assert_eq!(cluster.processes(&id), 0);
    let files = files_below(cluster.work_dir().path());
    assert!(files.iter().all(|f| f.parent().unwrap().ends_with("log-files")), "{files:?}");
    // executor and tmaster, and twice executor, stmgr and instance
    assert_eq!(files.len(), 8, "{files:?}");
}

fn a_killed_run_leaves_nothing() {
    let cluster = Cluster::new(ExecutionMode::Run);
    let id = cluster.execution().id;
    let mut run = cluster.start_run();
    cluster.wait_until_started(&id);
    run.kill().unwrap();
    run.wait().unwrap();
    wait_for("all processes to end", || cluster.processes(&id) == 0);
    assert_eq!(files_below(cluster.home.path()), Vec::<PathBuf>::new());
    assert_eq!(cluster.state().topologies().unwrap(), [""; 0]);
}

fn a_run_killed_with_its_executors_is_cleared_later() {
    let cluster = Cluster::new(ExecutionMode::Run);
    let id = cluster.execution().id;
    let mut run = cluster.start_run();
    cluster.wait_until_started(&id);
    let state = cluster.state();
    assert!(!clear_leftovers(&state, TOPOLOGY).unwrap(), "it runs");
    let executors: Vec<u32> = (0..3).map(|c| cluster.pid(c, &ProcessName::Executor).unwrap()).collect();
    executors.into_iter().for_each(kill_9);
    run.kill().unwrap();
    run.wait().unwrap();
    // What user code left without an executor is still there; only a sweep ends it.
    let record = state.scheduler_record(TOPOLOGY).unwrap().unwrap();
    Local::default().kill(&record, Duration::from_secs(5)).unwrap();
    assert!(clear_leftovers(&state, TOPOLOGY).unwrap());
    assert_eq!(files_below(cluster.home.path()), Vec::<PathBuf>::new());
}

fn a_run_that_gives_up_says_why() {
    let cluster = Cluster::new(ExecutionMode::Run);
    cluster.touch("fail");
    let mut launch = cluster.launch();
    let executor = launch.executors.iter_mut().find(|e| e.container == ContainerId(1)).unwrap();
    let mut status = None;
    wait_for("the executor to give up", || {
        status = executor.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(1));
    let failures = Failure::find(&cluster.work_dir());
    let text = failures.iter().find(|f| f.container == ContainerId(1)).unwrap().to_string();
    assert!(text.contains("`lines` task 1 in container 1 exited with status 3, 3 times in a row"), "{text}");
    assert!(text.contains("no such file: book.txt"), "{text}");
    Local::default().kill(&launch.record, Duration::from_secs(5)).unwrap();
}

fn a_killed_child_is_replaced() {
    let cluster = Cluster::new(ExecutionMode::Submit);
    let launch = cluster.launch();
    cluster.wait_until_started(&cluster.execution().id);
    let name = ProcessName::Instance(TaskId(2), "lines".to_owned());
    let first = cluster.pid(2, &name).unwrap();
    kill_9(first);
    wait_for("another instance", || cluster.pid(2, &name).is_some_and(|pid| pid != first));
    Local::default().kill(&launch.record, Duration::from_secs(5)).unwrap();
}

/// The executor of container 2 stopped, its instance killed meanwhile.
fn with_an_instance_killed_unseen(cluster: &Cluster, then: impl FnOnce(u32, &ProcessName, u32)) {
    let launch = cluster.launch();
    cluster.wait_until_started(&cluster.execution().id);
    let executor = cluster.pid(2, &ProcessName::Executor).unwrap();
    let name = ProcessName::Instance(TaskId(2), "lines".to_owned());
    let instance = cluster.pid(2, &name).unwrap();
    signal(executor, Signal::STOP);
    kill_9(instance);
    wait_for("the instance to end", || is_zombie(instance));
    then(executor, &name, instance);
    Local::default().kill(&launch.record, Duration::from_secs(5)).unwrap();
}

/// BR-035.
fn a_child_that_ended_unseen_is_replaced() {
    let cluster = Cluster::new(ExecutionMode::Submit);
    with_an_instance_killed_unseen(&cluster, |executor, name, instance| {
        signal(executor, Signal::CONT);
        wait_for("another instance", || cluster.pid(2, name).is_some_and(|pid| pid != instance));
    });
}

/// BR-035.
fn a_child_that_ended_before_it_is_signalled_is_done() {
    let cluster = Cluster::new(ExecutionMode::Submit);
    with_an_instance_killed_unseen(&cluster, |executor, _, _| {
        signal(executor, Signal::TERM);
        signal(executor, Signal::CONT);
        wait_for("the executor to end", || is_zombie(executor));
        let log = cluster.work_dir().container(ContainerId(2)).log(&ProcessName::Executor);
        let log = fs::read_to_string(log).unwrap();
        assert!(!log.contains("cannot be signalled"), "{log}");
    });
}

/// BR-049.
fn a_run_killed_at_any_moment_blocks_nothing() {
    let cluster = Cluster::new(ExecutionMode::Run);
    for round in 0..12 {
        let id = cluster.execution().id;
        let mut run = cluster.start_run();
        std::thread::park_timeout(Duration::from_millis(2 * round * round));
        run.kill().unwrap();
        run.wait().unwrap();
        wait_for("all processes to end", || cluster.processes(&id) == 0);
        assert!(clear_leftovers(&cluster.state(), TOPOLOGY).unwrap(), "round {round}");
        assert_eq!(files_below(cluster.home.path()), Vec::<PathBuf>::new(), "round {round}");
        cluster.store(ExecutionMode::Run);
    }
}

/// BR-064.
fn a_second_executor_is_refused() {
    let cluster = Cluster::new(ExecutionMode::Submit);
    let launch = cluster.launch();
    cluster.wait_until_started(&cluster.execution().id);
    let state_url = cluster.state().url().to_owned();
    let mut second = Command::new(cluster.program());
    second.args(["executor", "--state", &state_url, "--topology", TOPOLOGY, "--container", "1"]);
    let output = second.env(TOPOLOGY_ID_ENV, cluster.execution().id).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("has an executor already"), "{text}");
    cluster.wait_until_started(&cluster.execution().id);
    Local::default().kill(&launch.record, Duration::from_secs(5)).unwrap();
}

fn without_its_topology_an_executor_says_so() {
    let cluster = Cluster::new(ExecutionMode::Run);
    let request_execution = cluster.execution();
    cluster.state().remove(TOPOLOGY).unwrap();
    let state = cluster.state();
    let request = LaunchRequest {
        state_url: state.url(),
        topology: &topology(),
        packing: &packing(),
        execution: &request_execution,
        stdout: None,
    };
    let mut launch = Local::with_program(cluster.program()).launch(&request).unwrap();
    for executor in &mut launch.executors {
        wait_for("the executors to end", || executor.try_wait().unwrap().is_some());
        let words = executor.early_words();
        assert!(words.contains("topology `word-count` is not in the state"), "{words}");
    }
}
