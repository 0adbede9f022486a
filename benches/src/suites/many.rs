//! `many`: 64 instances in 8 containers, each container a relay of its own.

use super::{Bench, TRACKED, cost_and_rate};
use crate::program::{Grouping, Spec};
use crate::report::{Kind, Measurement};
use crate::sample::alternate;
use anyhow::Result;

pub(super) const HELP: &str = "64 instances in 8 containers beside one spout and one bolt, tuples of 16 B";

/// Tasks of each component: half are spouts, and four of each are in a container.
const TASKS: u32 = 32;

pub(super) fn run(bench: &Bench<'_>) -> Result<Vec<Measurement>> {
    let lengths = bench.lengths(60);
    let many = |tuples| Spec {
        sources: TASKS,
        sinks: TASKS,
        grouping: Grouping::Local,
        ..Spec::row("many", tuples, 16)
    };
    let containers = "topology.containers=8";
    let mut results = Vec::new();
    for (name, mode, goal) in
        [("16 B", "topology.reliability.mode=ATMOST_ONCE", Some(1.5)), ("16 B, tracked", TRACKED, None)]
    {
        let pair = alternate(
            bench.runs,
            || bench.program(lengths, &[containers, mode], many),
            || bench.program(lengths, &[mode], |tuples| Spec::row("relay", tuples, 16)),
        )?;
        results.extend(cost_and_rate("many", name, pair, (Kind::Sibling, "one spout, one bolt"), goal));
    }
    Ok(results)
}
