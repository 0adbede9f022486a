//! `words`: random words out of 450,000, counted by one task or by two.

use super::{Bench, TRACKED, cost_and_rate, yaml};
use crate::floors::words::{self, Lookups};
use crate::report::{Kind, Measurement};
use crate::sample::{Lengths, PerTuple, alternate};
use anyhow::Result;

pub(super) const HELP: &str = "random words out of 450,000, fields grouping, counted by one task and by two";

const TOPOLOGY: &str = "
name: words
config: {topology.containers: 1}
spouts:
  - {id: words, type: random-words, args: {count: COUNT}}
bolts:
  - {id: count, type: count, parallelism: TASKS, args: {by: word}}
  - {id: sink, type: null-sink}
streams:
  - {from: words, to: count, grouping: {type: FIELDS, args: [word]}}
  - {from: count, to: sink, grouping: {type: GLOBAL}}
";

pub(super) fn run(bench: &Bench<'_>) -> Result<Vec<Measurement>> {
    // Both lengths draw nearly every word, so that the results they end with cancel out.
    let short = 5 * words::DICTIONARY;
    let lengths = Lengths { short, long: short + bench.lengths(100).long };
    let count = |tasks: u32, config: &[&str]| -> Result<PerTuple> {
        lengths.measure(|tuples| {
            let text = TOPOLOGY.replace("COUNT", &tuples.to_string()).replace("TASKS", &tasks.to_string());
            yaml(bench, &text, config, "count", tuples)
        })
    };
    let floor = |lookups| lengths.measure(|tuples| words::measure(tuples, lookups, &bench.affinity));
    let mut results = Vec::new();
    for (tasks, name) in [(1, "count x1"), (2, "count x2")] {
        let pair = alternate(bench.runs, || count(tasks, &[]), || floor(Lookups::Alone))?;
        results.extend(cost_and_rate("words", name, pair, (Kind::Floor, "floor (d)"), Some(2.0)));
    }
    let pair = alternate(bench.runs, || count(1, &[]), || floor(Lookups::Together))?;
    let together = (Kind::Floor, "floor (d), 16 at a time");
    results.extend(cost_and_rate("words", "count x1, once more", pair, together, None));
    let pair = alternate(bench.runs, || count(2, &[TRACKED]), || count(2, &[]))?;
    results.extend(cost_and_rate(
        "words",
        "count x2, tracked",
        pair,
        (Kind::Sibling, "untracked"),
        Some(1.5),
    ));
    Ok(results)
}
