//! After it has warmed up, the data path allocates nothing: neither where tuples are emitted, executed and acked, nor where
//! they are relayed.
//!
//! Queues cross their watermarks all the time here. Control is not the data path: about once a second a process says how it is
//! doing, and a stmgr has spouts held for a task or let go; both allocate. So what is looked for in each process is a
//! stretch without any allocation in which very many tuples went through: one allocation per block, or in a hundred blocks,
//! would leave no such stretch.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use egret_tests::{Cluster, DEADLINE, wait_for};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Tuples of 100 bytes: some 140 blocks on each of two ways. Reports, heartbeats and what peers state of backpressure are
/// about ten moments a second in which a stmgr allocates, so stretches are not much longer on a slow machine.
const ENOUGH: u64 = 20_000;

/// What a process wrote at one time: nanoseconds, allocations so far, tuples executed by the sink so far.
type Sample = [u64; 3];

/// The samples of each process, by its name.
fn samples(folder: &Path) -> BTreeMap<String, Vec<Sample>> {
    let of_file = |path: &Path| -> Vec<Sample> {
        let text = fs::read_to_string(path).unwrap();
        // The last line may not be whole.
        let lines = text.rsplit_once('\n').map_or("", |(whole, _)| whole).lines();
        lines
            .map(|line| {
                let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
                numbers.try_into().unwrap()
            })
            .collect()
    };
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), of_file(&path))).collect()
}

/// The most tuples that the sink executed within a stretch in which a process did not allocate.
fn most_without_allocation(process: &[Sample], sink: &[Sample]) -> u64 {
    let executed = |from: u64, to: u64| {
        let mut within = sink.iter().filter(|[time, ..]| (from..=to).contains(time)).map(|[.., n]| *n);
        within.next().map_or(0, |first| within.next_back().unwrap_or(first) - first)
    };
    let stretches = process.chunk_by(|[_, before, _], [_, after, _]| before == after);
    stretches.map(|stretch| executed(stretch[0][0], stretch[stretch.len() - 1][0])).max().unwrap_or(0)
}

fn nothing_is_allocated(containers: u32, processes: usize) {
    let program = env!("CARGO_BIN_EXE_counting");
    let cluster = Cluster::new(program);
    let folder = cluster.path("samples");
    fs::create_dir_all(&folder).unwrap();
    let containers = format!("topology.containers={containers}");
    let run = cluster.egret(["run", "--json", "-c", &containers, program]);
    let run = run.env("EGRET_TEST_SAMPLES", &folder).spawn();
    let mut best = BTreeMap::new();
    wait_for("each process to have a stretch without an allocation", DEADLINE, || {
        assert!(!run.has_ended(), "the run ended: {}", run.stderr());
        let samples = samples(&folder);
        let sink = samples.iter().find(|(name, _)| name.starts_with("task-3."))?.1;
        best = samples
            .iter()
            .map(|(name, process)| (name.clone(), most_without_allocation(process, sink)))
            .collect();
        println!("tuples without an allocation: {best:?}");
        (best.len() == processes && best.values().all(|&tuples| tuples >= ENOUGH)).then_some(())
    });
    run.signal(Signal::INT);
    assert_eq!(run.finish().expect(130).json()["lost"], 0);
}

#[test]
fn in_one_container_nothing_is_allocated() {
    nothing_is_allocated(1, 4);
}

#[test]
fn over_the_network_nothing_is_allocated() {
    nothing_is_allocated(3, 6);
}
