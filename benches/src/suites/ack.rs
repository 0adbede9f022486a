//! `ack`: every tuple tracked.

use super::{Bench, ROW, TRACKED, cost_and_rate, yaml};
use crate::program::Spec;
use crate::report::{Kind, Measurement};
use crate::sample::alternate;
use anyhow::Result;

pub(super) const HELP: &str = "the same, tracked: an edge, an ack and a ledger entry for each tuple of 16 B";

/// A relay of built-in components over two hops.
const TWO_HOPS: &str = "
name: ack-two-hops
config: {topology.containers: 1}
spouts:
  - {id: source, type: sequence, args: {count: COUNT, bytes: 8}}
bolts:
  - {id: pass, type: identity}
  - {id: sink, type: null-sink}
streams:
  - {from: source, to: pass, grouping: {type: SHUFFLE}}
  - {from: pass, to: sink, grouping: {type: SHUFFLE}}
";

pub(super) fn run(bench: &Bench<'_>) -> Result<Vec<Measurement>> {
    let lengths = bench.lengths(80);
    let row = bench.row_of(16, true);
    let pair = alternate(
        bench.runs,
        || bench.program(lengths, &[TRACKED], |tuples| Spec::row("ack", tuples, 16)),
        || bench.row(lengths, &row),
    )?;
    let floor = format!("{ROW} with xor");
    let mut results = Vec::from(cost_and_rate("ack", "16 B", pair, (Kind::Floor, &floor), Some(3.0)));
    let two_hops = |config: &[&str]| {
        lengths.measure(|tuples| {
            yaml(bench, &TWO_HOPS.replace("COUNT", &tuples.to_string()), config, "sink", tuples)
        })
    };
    let pair = alternate(bench.runs, || two_hops(&[TRACKED]), || two_hops(&[]))?;
    results.extend(cost_and_rate("ack", "16 B over two hops", pair, (Kind::Sibling, "untracked"), Some(1.5)));
    Ok(results)
}
