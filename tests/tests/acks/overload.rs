//! More than the bolts can take, and more failures than successes.

use crate::account::{beginning, pending};
use egret_tests::{Cluster, DEADLINE, records, wait_for};
use std::fs;

/// What a spout or bolt wrote so far.
fn written(cluster: &Cluster, component: &str) -> Vec<String> {
    records::values_of(&records::read(cluster.path("records")), component)
}

/// Resident memory of the topology's processes, by role (and component of an instance), in KiB.
fn resident_kib(cluster: &Cluster) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for process in cluster.processes() {
        let status = fs::read_to_string(format!("/proc/{}/status", process.pid)).unwrap_or_default();
        let kib = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = kib.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0);
        let role = match process.variable("EGRET_TASK") {
            Some(task) => format!("task {task}"),
            None => process.args.get(1).cloned().unwrap_or_default(),
        };
        found.push((role, kib));
    }
    found.sort();
    found
}

/// BR-004: half a million failures leave nothing behind, in the ledger or elsewhere.
#[test]
fn failures_leave_nothing_behind() {
    let (cluster, arguments) = beginning("many_fails", 1);
    let run = cluster.egret(["run", "--json"]).args(arguments).spawn();
    let [before, after] = [100_000, 500_000].map(|gate| {
        wait_for(&format!("{gate} failures"), DEADLINE, || {
            assert!(!run.has_ended(), "{}", run.stderr());
            written(&cluster, "items").contains(&format!("settled {gate}")).then_some(())
        });
        let status = wait_for("the counters to be told", DEADLINE, || {
            cluster.status("many-fails").filter(|status| status["spouts"]["failed"] == gate)
        });
        assert_eq!(pending(&status), 0, "{status}");
        let resident = resident_kib(&cluster);
        cluster.write(format!("go-{gate}"), "");
        resident
    });
    assert_eq!(before.len(), after.len());
    for ((role, before_kib), (_, after_kib)) in before.iter().zip(&after) {
        // Within 5 %, but for what an allocator keeps.
        let most = before_kib + before_kib / 20 + 1024;
        assert!(*after_kib <= most, "{role} grew from {before_kib} KiB to {after_kib} KiB");
    }
    let summary = run.finish().expect(0).json();
    assert_eq!(summary["spouts"]["failed"], 500_000, "{summary}");
    cluster.wait_until_clean(false);
}

/// BR-008: before a sink that is slower than its source, tuples do not time out, are not replayed, and the sink works for
/// results: at least four fifths of what it could give, which is what it executes in the time in which it does.
#[test]
fn a_slow_sink_works_on_what_is_still_wanted() {
    let (cluster, arguments) = beginning("slow_sink", 1);
    let run = cluster.egret(["run", "--json"]).args(arguments).spawn();
    let samples = wait_for("twelve seconds of work", DEADLINE, || {
        assert!(!run.has_ended(), "{}", run.stderr());
        let samples: Vec<_> = written(&cluster, "slow").iter().map(|line| numbers(line)).collect();
        let span_us = samples.last()?[0] - samples[0][0];
        (span_us >= 12_000_000).then_some(samples)
    });
    let at = |after_us: u64| *samples.iter().find(|sample| sample[0] - samples[0][0] >= after_us).unwrap();
    let repeated = |from: [u64; 4], to: [u64; 4]| (to[1] - from[1]) - (to[2] - from[2]);
    let [middle, end] = [6_000_000, 12_000_000].map(at);
    let (executed, first, second) = (end[1] - middle[1], repeated(samples[0], middle), repeated(middle, end));
    println!("repeated: {first} of {} in the first half, {second} of {executed} in the second", middle[1]);
    assert!(second * 5 <= executed, "{second} of {executed} executed tuples were done before");
    assert!(second <= first + executed / 50, "duplicates grow: {first}, then {second}");
    let [took_us, executed, results, worked_us] = [0, 1, 2, 3].map(|i| (end[i] - samples[0][i]) as f64);
    let goodput = results / executed * (worked_us / took_us);
    println!("goodput {goodput:.3}: {results} of {executed}, at work for {worked_us} of {took_us} us");
    assert!(goodput >= 0.8, "{results} results of {executed}, at work for {worked_us} of {took_us} us");
    let status = cluster.status("slow-sink").expect("it runs");
    let (acked, executed) = (&status["spouts"]["acked"], &status["components"][1]["executed"]);
    println!("acked {acked} of {executed} executed");
}

fn numbers(line: &str) -> [u64; 4] {
    let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}
