//! BR-056: pinning stays inside the processors that the topology may use, or is left alone, which is said once. What
//! `egret plan` shows of it is what is done.

use crate::flow::{Flow, NAME, command};
use crate::support::{Seen, lines_with, logs, threads};
use egret_tests::{Cluster, DEADLINE, cluster, wait_for};
use std::collections::BTreeSet;
use std::fs;

/// What a thread may use, as the kernel writes it: `0`, `0-1`, `1,3`.
fn allowed(process: u32, thread: u32) -> String {
    let status = fs::read_to_string(format!("/proc/{process}/task/{thread}/status")).unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.unwrap().trim().to_owned()
}

/// One processor that this test may use, the last, and one that is not that one.
fn inside_and_outside() -> (usize, usize) {
    let own = std::process::id();
    let list = allowed(own, own);
    let last: usize = list.rsplit([',', '-']).next().unwrap().parse().unwrap();
    (last, if last == 0 { 1 } else { last - 1 })
}

/// The topology, for whose processes only processor `cpu` is allowed.
fn confined<'a>(cluster: &'a Cluster, cpu: usize, policy: &str) -> Flow<'a> {
    let (mut run, folder) = command(cluster, "run", &["-c", &format!("egret.affinity.policy={policy}")]);
    let confined = cluster.command("taskset").args(["-c", &cpu.to_string()]).arg(run.inner().get_program());
    Flow::of(cluster, confined.args(run.inner().get_args()), folder)
}

/// Every processor set that any thread of these has.
fn sets<'a>(processes: impl IntoIterator<Item = &'a Seen>) -> BTreeSet<String> {
    let of_process = |p: &Seen| threads(p.pid).into_iter().map(|t| allowed(p.pid, t)).collect::<Vec<_>>();
    processes.into_iter().flat_map(of_process).collect()
}

const UNPINNED: &str = "running unpinned";

/// How often the processes that pin said that they do not.
fn complaints(cluster: &Cluster) -> Vec<usize> {
    let names = ["stmgr.log", "instance-1-numbers.log", "instance-4-record.log"];
    names.iter().flat_map(|name| logs(cluster, name)).map(|log| lines_with(&log, UNPINNED)).collect()
}

#[test]
fn auto_pins_inside_the_mask() {
    let cluster = cluster!();
    let (inside, _) = inside_and_outside();
    let flow = confined(&cluster, inside, "auto");
    assert_eq!(sets(&flow.first), BTreeSet::from([inside.to_string()]));
    assert_eq!(complaints(&cluster), [0; 4]);
    assert_eq!(flow.complete(0)["lost"], 0);
}

#[test]
fn a_list_outside_the_mask_runs_unpinned_and_says_so_once() {
    let cluster = cluster!();
    let (inside, outside) = inside_and_outside();
    let flow = confined(&cluster, inside, &outside.to_string());
    assert_eq!(sets(&flow.first), BTreeSet::from([inside.to_string()]));
    // Logs take a moment on their way through the executors.
    let all_said = || (complaints(&cluster).iter().sum::<usize>() >= 4).then_some(());
    wait_for("every process to say so", DEADLINE, all_said);
    assert_eq!(complaints(&cluster), [1; 4], "once in each process's log");
    assert_eq!(flow.complete(0)["lost"], 0);
}

/// Of a list that is partly allowed, the allowed part is used.
#[test]
fn a_list_that_is_partly_inside_pins_there() {
    let cluster = cluster!();
    let (inside, outside) = inside_and_outside();
    let flow = confined(&cluster, inside, &format!("{outside},{inside}"));
    assert_eq!(sets(&flow.first), BTreeSet::from([inside.to_string()]));
    assert_eq!(complaints(&cluster), [0; 4]);
    assert_eq!(flow.complete(0)["lost"], 0);
}

/// The sets of the threads that tuples pass: a stmgr's first, and of each instance the one that is confined most.
fn sets_of_the_data_path(flow: &Flow<'_>, container: u32) -> BTreeSet<String> {
    let of_process = |p: &&Seen| match p.role.as_str() {
        "stmgr" => Some(allowed(p.pid, p.pid)),
        "instance" => threads(p.pid).into_iter().map(|t| allowed(p.pid, t)).min_by_key(String::len),
        _ => None,
    };
    flow.first.iter().filter(|p| p.container == container).filter_map(|p| of_process(&p)).collect()
}

/// Without a mask: the whole chain of a container is on one processor, that of the next container on the next.
#[test]
fn auto_gives_each_container_one_processor() {
    let cluster = cluster!();
    let flow = Flow::start(&cluster, &["-c", "egret.affinity.policy=auto"]);
    let chain = |container| {
        let one_set = || Some(sets_of_the_data_path(&flow, container)).filter(|sets| sets.len() == 1);
        wait_for("the whole chain to be on one processor", DEADLINE, one_set)
    };
    let (first, second) = (chain(1), chain(2));
    let plan = cluster.egret(["plan", NAME, "--json"]).run().expect(0).json();
    let planned = |i: usize| BTreeSet::from([plan["containers"][i]["processor"].to_string()]);
    assert_eq!((planned(0), planned(1)), (first.clone(), second.clone()), "{plan}");
    let one_only = std::thread::available_parallelism().unwrap().get() == 1;
    assert!(first != second || one_only, "{first:?}");
    assert_eq!(flow.complete(0)["lost"], 0);
}

/// Before anything runs, `egret plan --dry-run` says the same, for every policy.
#[test]
fn the_plan_shows_where_each_container_would_be_pinned() {
    let cluster = cluster!();
    let (inside, outside) = inside_and_outside();
    let (mut run, _) = command(&cluster, "plan", &["--dry-run"]);
    let program = run.inner().get_program().to_owned();
    let args: Vec<_> = run.inner().get_args().map(ToOwned::to_owned).collect();
    let processors = |policy: &str| {
        let affinity = format!("egret.affinity.policy={policy}");
        let confined = cluster.command("taskset").args(["-c", &inside.to_string()]).arg(&program);
        // In front of the program and its arguments.
        let (verb, rest) = args.split_first().unwrap();
        let plan = confined.arg(verb).args(["-c", &affinity]).args(rest).run().expect(0).json();
        assert_eq!(plan["affinity"], *policy, "{plan}");
        [0, 1].map(|i| plan["containers"][i]["processor"].as_u64())
    };
    let here = Some(inside as u64);
    assert_eq!(processors("auto"), [here; 2]);
    assert_eq!(processors(&format!("{outside},{inside}")), [here; 2]);
    assert_eq!(processors(&outside.to_string()), [None; 2]);
    assert_eq!(processors("none"), [None; 2]);
}
