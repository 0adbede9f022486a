//! `latency`: what a tuple takes from when it should have been emitted to when it is executed, under steady load.
//!
//! The load is an open loop: tuple `k` is due at `k / rate`, whatever became of the ones before, and carries that time. If
//! anything stalls, all that should have been emitted meanwhile count with their whole delay, so omission is not coordinated.

use super::Bench;
use crate::floors::row::Row;
use crate::latency::{self, Interval, hgrm, svg};
use crate::program::{Load, Spec};
use crate::report::{Better, Kind, Measurement};
use crate::sample::{PerTuple, alternate};
use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use std::cell::RefCell;
use std::path::{Path, PathBuf};

pub(super) const HELP: &str =
    "an open loop at 10, 50 and 80 % of the measured maximum; from intended emission to execution";

const SUITE: &str = "latency";
const FLOOR: &str = "floor (c)";
const TUPLE_BYTES: usize = 100;
/// Loads in per cent of the maximum, each with the goal of the ratio.
const LOADS: [(u32, Option<f64>); 3] = [(10, Some(3.0)), (50, None), (80, None)];
/// What is told of a histogram: its name, and the quantile.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

pub(super) fn run(bench: &Bench<'_>) -> Result<Vec<Measurement>> {
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("log");
    let spec = |tuples| Spec { latencies: Some(log.clone()), ..Spec::row(SUITE, tuples, TUPLE_BYTES) };
    let lengths = bench.lengths(120);
    let maxima = (0..bench.runs).map(|_| bench.program(lengths, &[], spec)).collect::<Result<Vec<_>>>()?;
    let mut results = vec![maximum(&maxima)];
    let maximum = results[0].value.median * 1e6;
    let seconds = if bench.quick { 1.5 } else { 6.0 };
    let kept = RefCell::new(Kept::new(bench.folder.as_deref())?);
    for (percent, goal) in LOADS {
        let rate = maximum * f64::from(percent) / 100.0;
        let (ours, floors) = alternate(
            bench.runs,
            || {
                let load = Load::Paced((rate * seconds) as u64, rate);
                bench.runner.program(&Spec { load, ..spec(0) }, &[])?;
                kept.borrow_mut().keep(&format!("{percent} % load"), &log)
            },
            || {
                floor(bench, &log, seconds)?;
                kept.borrow_mut().keep(FLOOR, &log)
            },
        )?;
        for (name, quantile) in QUANTILES {
            let us = |all: &[Histogram<u64>]| {
                all.iter().map(|one| one.value_at_quantile(quantile) as f64 / 1e3).collect::<Vec<_>>()
            };
            let goal = goal.filter(|_| quantile < 0.999);
            let name = format!("{percent} % load, {name}");
            let measured = Measurement::new(SUITE, name, "µs", Better::Lower, us(&ours));
            results.push(measured.against(Kind::Floor, FLOOR, us(&floors), goal));
        }
    }
    let title = format!("From intended emission to execution; 100 % are {:.2} M tuples/s", maximum / 1e6);
    kept.into_inner().write(&title)?;
    Ok(results)
}

fn maximum(runs: &[PerTuple]) -> Measurement {
    let rates = runs.iter().map(|one| one.rate / 1e6).collect();
    Measurement::new(SUITE, "maximum, each tuple timed", "M tuples/s", Better::Higher, rates)
}

/// One tuple at a time through the same three processes, for about as long.
fn floor(bench: &Bench<'_>, log: &Path, seconds: f64) -> Result<()> {
    let row = Row { latencies: Some(log.to_owned()), ..bench.row_of(TUPLE_BYTES, false) };
    // A round takes its pause and as long again on one processor, some times longer on two.
    let tuples = (seconds * 1e6 / 50.0) as u64;
    Row { tuples, ..row }.measure(&bench.affinity).map(drop)
}

/// Histograms by name, and where they go.
struct Kept {
    folder: Option<PathBuf>,
    all: Vec<(String, Histogram<u64>)>,
}

impl Kept {
    fn new(folder: Option<&Path>) -> Result<Self> {
        if let Some(folder) = folder {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        Ok(Self { folder: folder.map(Path::to_owned), all: Vec::new() })
    }

    fn path(folder: &Path, name: &str, extension: &str) -> PathBuf {
        let word = name.replace([' ', '%', '(', ')'], "");
        folder.join(format!("latency-{word}.{extension}"))
    }

    /// Takes a log in; the last one of each name is kept as it is.
    fn keep(&mut self, name: &str, log: &Path) -> Result<Histogram<u64>> {
        if let Some(folder) = &self.folder {
            std::fs::copy(log, Self::path(folder, name, "hlog"))?;
        }
        let total = latency::total(warmed_up(&latency::read(log)?))?;
        match self.all.iter_mut().find(|(known, _)| known == name) {
            Some((_, all)) => all.add(&total).map_err(|error| anyhow::anyhow!("{error}"))?,
            None => self.all.push((name.to_owned(), total.clone())),
        }
        Ok(total)
    }

    fn write(&self, title: &str) -> Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        for (name, histogram) in &self.all {
            std::fs::write(Self::path(folder, name, "hgrm"), hgrm::text(histogram))?;
        }
        let lines: Vec<svg::Line<'_>> = self.all.iter().map(|(name, h)| (name.as_str(), h)).collect();
        Ok(std::fs::write(folder.join("latency.svg"), svg::plot(title, &lines))?)
    }
}

/// Without the first second, in which blocks are touched for the first time.
fn warmed_up(intervals: &[Interval]) -> &[Interval] {
    if intervals.len() > 1 { &intervals[1..] } else { intervals }
}
