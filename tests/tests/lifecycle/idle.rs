//! A topology that has nothing to do uses next to no CPU.

use crate::support::{BEHAVIOURS, all_seen, cpu_time, threads};
use egret_tests::{Process, cluster, try_for};
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// Processes of the topology: 3 executors, the tmaster, 2 stmgrs, 16 instances.
const PROCESSES: usize = 22;
const WINDOW: Duration = Duration::from_secs(10);

/// How often a process's threads gave up a processor because they had to wait: how often it woke up.
fn wakes(pid: u32) -> u64 {
    let of_thread = |thread: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.map_or(0, |count| count.trim().parse::<u64>().unwrap())
    };
    threads(pid).into_iter().map(of_thread).sum()
}

/// What each process has used so far.
fn used(processes: &[Process]) -> Vec<(Duration, u64)> {
    processes.iter().map(|process| (cpu_time(process.pid).unwrap(), wakes(process.pid))).collect()
}

/// Spouts that are asked again and again and have nothing, and bolts that get nothing, in two containers; the command
/// that runs them counts too.
#[test]
fn sixteen_idle_instances_use_under_a_hundredth_of_a_core() {
    let cluster = cluster!();
    let program = [BEHAVIOURS, "--", "idle_16", "."];
    let run = cluster.egret(["run", "--json", "-c", "topology.containers=2"]).args(program).spawn();
    let _ = all_seen(&cluster, "idle-16", PROCESSES);
    let processes = cluster.processes();
    assert_eq!(processes.len(), PROCESSES + 1);
    // What the start and the look at it have set in motion comes to rest.
    let _ = try_for::<()>(Duration::from_secs(1), || None);

    let (begun, before) = (Instant::now(), used(&processes));
    let _ = try_for::<()>(WINDOW, || None);
    let (took, after) = (begun.elapsed(), used(&processes));

    let each = before.iter().zip(&after).zip(&processes);
    let each = each.map(|((before, after), process)| (after.0 - before.0, after.1 - before.1, process));
    let each: Vec<_> = each.collect();
    let all: Duration = each.iter().map(|(time, ..)| *time).sum();
    let share = all.as_secs_f64() / took.as_secs_f64();
    let lines = each.iter().map(|(time, wakes, process)| {
        format!(
            "{time:?} and {wakes} wake-ups: {} {}",
            process.pid,
            process.args[..2.min(process.args.len())].join(" ")
        )
    });
    let lines = lines.collect::<Vec<_>>().join("\n");
    assert!(share < 0.01, "{:.2} % of a core, {all:?} in {took:?}:\n{lines}", share * 100.0);
    println!("{:.2} % of a core, {all:?} in {took:?}:\n{lines}", share * 100.0);

    run.signal(Signal::INT);
    let _ = run.finish().expect(130);
    cluster.wait_until_clean(false);
}
