//! `fanout`: one spout, eight bolt tasks, each of which gets every tuple.

use super::{Bench, ROW, cost_and_rate};
use crate::floors::row::Row;
use crate::program::{Grouping, Spec};
use crate::report::{Kind, Measurement};
use crate::sample::alternate;
use anyhow::Result;

pub(super) const HELP: &str = "ALL to 8 tasks in one container, tuples of 100 B";

const READERS: u32 = 8;
const TUPLE_BYTES: usize = 100;

pub(super) fn run(bench: &Bench<'_>) -> Result<Vec<Measurement>> {
    let lengths = bench.lengths(250);
    let row = Row { readers: READERS, ..bench.row_of(TUPLE_BYTES, false) };
    let spec =
        |tuples| Spec { sinks: READERS, grouping: Grouping::All, ..Spec::row("fanout", tuples, TUPLE_BYTES) };
    let pair = alternate(bench.runs, || bench.program(lengths, &[], spec), || bench.row(lengths, &row))?;
    Ok(cost_and_rate("fanout", "100 B to 8", pair, (Kind::Floor, ROW), None).into())
}
