//! `network`: a spout in one container, a bolt in another.

use super::Bench;
use crate::floors::link::Link;
use crate::program::Spec;
use crate::report::{Better, Kind, Measurement};
use crate::sample::{PerTuple, alternate};
use anyhow::Result;

pub(super) const HELP: &str = "a spout and a bolt in two containers over loopback TCP, tuples of 1 KiB";

const TUPLE_BYTES: usize = 1024;
const FLOOR: &str = "floor (b)";

pub(super) fn run(bench: &Bench<'_>) -> Result<Vec<Measurement>> {
    let lengths = bench.lengths(1000);
    let pair = alternate(
        bench.runs,
        || {
            let two = ["topology.containers=2"];
            bench.program(lengths, &two, |tuples| Spec::row("network", tuples, TUPLE_BYTES))
        },
        || lengths.measure(|tuples| Link { tuples, tuple_bytes: TUPLE_BYTES }.measure(&bench.affinity)),
    )?;
    let bytes = TUPLE_BYTES as f64;
    let rate = |all: &[PerTuple]| all.iter().map(|one| one.rate * bytes / 1e9).collect::<Vec<_>>();
    let cpu = |all: &[PerTuple]| all.iter().map(|one| one.cpu_ns / bytes).collect::<Vec<_>>();
    let (ours, floor) = &pair;
    Ok(vec![
        Measurement::new("network", "1 KiB, rate", "GB/s", Better::Higher, rate(ours)).against(
            Kind::Floor,
            FLOOR,
            rate(floor),
            Some(0.8),
        ),
        Measurement::new("network", "1 KiB, CPU", "ns/byte", Better::Lower, cpu(ours)).against(
            Kind::Floor,
            FLOOR,
            cpu(floor),
            Some(1.5),
        ),
    ])
}
