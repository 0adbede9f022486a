//! `ack`: one spout, one bolt, every tuple tracked.

use super::{Bench, ROW, TRACKED, cost_and_rate};
use crate::program::Spec;
use crate::report::Measurement;
use crate::sample::alternate;
use anyhow::Result;

pub(super) const HELP: &str = "the same, tracked: an edge, an ack and a ledger entry for each tuple of 16 B";

pub(super) fn run(bench: &Bench<'_>) -> Result<Vec<Measurement>> {
    let lengths = bench.lengths(80);
    let row = bench.row_of(16, true);
    let pair = alternate(
        bench.runs,
        || bench.program(lengths, &[TRACKED], |tuples| Spec::row("ack", tuples, 16)),
        || bench.row(lengths, &row),
    )?;
    let floor = format!("{ROW} with xor");
    Ok(cost_and_rate("ack", "16 B", pair, &floor, Some(3.0)).into())
}
