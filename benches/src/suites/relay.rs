//! `relay`: one spout, one bolt, untracked.

use super::{Bench, ROW, cost_and_rate, yaml};
use crate::program::Spec;
use crate::report::{Kind, Measurement};
use crate::sample::alternate;
use anyhow::Result;

pub(super) const HELP: &str = "a spout and a bolt in one container, untracked, tuples of 16 B to 64 KiB";

/// Bytes of a tuple, its name, roughly what one takes in nanoseconds, and the goal of the ratio.
const SIZES: [(usize, &str, u64, Option<f64>); 4] = [
    (16, "16 B", 40, Some(3.0)),
    (100, "100 B", 60, Some(3.0)),
    (1024, "1 KiB", 200, Some(1.5)),
    (64 << 10, "64 KiB", 10_000, None),
];

/// The same with components that everybody has.
const BUILT_IN: &str = "
name: relay-built-in
config: {topology.containers: 1}
spouts:
  - {id: source, type: sequence, args: {count: COUNT, bytes: 8}}
bolts:
  - {id: sink, type: null-sink}
streams:
  - {from: source, to: sink, grouping: {type: SHUFFLE}}
";

pub(super) fn run(bench: &Bench<'_>) -> Result<Vec<Measurement>> {
    let mut results = Vec::new();
    for (bytes, name, ns, goal) in SIZES {
        let lengths = bench.lengths(ns);
        let row = bench.row_of(bytes, false);
        let pair = alternate(
            bench.runs,
            || bench.program(lengths, &[], |tuples| Spec::row("relay", tuples, bytes)),
            || bench.row(lengths, &row),
        )?;
        results.extend(cost_and_rate("relay", name, pair, (Kind::Floor, ROW), goal));
    }
    let lengths = bench.lengths(40);
    let built_in =
        |tuples: u64| yaml(bench, &BUILT_IN.replace("COUNT", &tuples.to_string()), &[], "sink", tuples);
    let row = bench.row_of(16, false);
    let pair = alternate(bench.runs, || lengths.measure(built_in), || bench.row(lengths, &row))?;
    results.extend(cost_and_rate("relay", "16 B, sequence → null-sink", pair, (Kind::Floor, ROW), Some(3.0)));
    Ok(results)
}
