//! What is measured: a file for each suite.

mod ack;
mod fanout;
mod idle;
mod latency;
mod many;
mod network;
mod plan;
mod relay;
mod words;

use crate::floors::row::Row;
use crate::program::{SINK, Spec};
use crate::report::{Better, Kind, Measurement};
use crate::run::Runner;
use crate::sample::{Cost, Lengths, PerTuple};
use anyhow::Result;
use egret_dataplane::affinity;
use egret_dataplane::plan::Config;
use std::path::PathBuf;

/// The floor of what stays in one container.
const ROW: &str = "floor (a)";
/// How many times as many tuples as Egret a floor gets.
const FLOOR_TIMES: u64 = 3;
/// `-c` for tracking.
const TRACKED: &str = "topology.reliability.mode=ATLEAST_ONCE";

/// A suite.
pub struct Suite {
    /// Its name.
    pub name: &'static str,
    /// What it measures, in a line.
    pub help: &'static str,
    /// Measures it.
    pub run: fn(&Bench<'_>) -> Result<Vec<Measurement>>,
}

/// All suites, in the order they are run.
pub const SUITES: &[Suite] = &[
    Suite { name: "relay", help: relay::HELP, run: relay::run },
    Suite { name: "ack", help: ack::HELP, run: ack::run },
    Suite { name: "words", help: words::HELP, run: words::run },
    Suite { name: "network", help: network::HELP, run: network::run },
    Suite { name: "fanout", help: fanout::HELP, run: fanout::run },
    Suite { name: "many", help: many::HELP, run: many::run },
    Suite { name: "latency", help: latency::HELP, run: latency::run },
    Suite { name: "idle", help: idle::HELP, run: idle::run },
    Suite { name: "plan", help: plan::HELP, run: plan::run },
];

/// What every suite gets.
pub struct Bench<'a> {
    /// Runs topologies.
    pub runner: Runner<'a>,
    /// Short runs.
    pub quick: bool,
    /// How often each measurement is done.
    pub runs: usize,
    /// `egret.affinity.policy`, for Egret and for the floors.
    pub affinity: String,
    /// It and what else all topologies are run with.
    pub config: Config,
    /// Where histograms and plots go.
    pub folder: Option<PathBuf>,
}

impl Bench<'_> {
    /// The lengths of two runs of which the longer takes a second or two, by what a tuple roughly takes.
    fn lengths(&self, ns_per_tuple: u64) -> Lengths {
        let (short_ns, long_ns) =
            if self.quick { (10_000_000, 600_000_000) } else { (50_000_000, 2_000_000_000) };
        Lengths { short: short_ns / ns_per_tuple, long: long_ns / ns_per_tuple }
    }

    /// What a tuple of this program's topology costs.
    fn program(&self, lengths: Lengths, config: &[&str], spec: impl Fn(u64) -> Spec) -> Result<PerTuple> {
        lengths.measure(|tuples| {
            let spec = spec(tuples);
            let copies = if matches!(spec.grouping, crate::program::Grouping::All) { spec.sinks } else { 1 };
            self.runner.program(&spec, config)?.cost(SINK, tuples * u64::from(copies))
        })
    }

    /// What a tuple costs in a row of processes. Those are quicker than Egret, so they get more to do.
    fn row(&self, lengths: Lengths, row: &Row) -> Result<PerTuple> {
        lengths.times(FLOOR_TIMES).measure(|tuples| Row { tuples, ..row.clone() }.measure(&self.affinity))
    }

    /// A row that wakes and sleeps as Egret does.
    fn row_of(&self, tuple_bytes: usize, tracked: bool) -> Row {
        let spin_turns = affinity::spin_turns(&self.config);
        Row { tuples: 0, tuple_bytes, readers: 1, tracked, latencies: None, spin_turns }
    }
}

/// CPU time and rate of something beside its floor, or beside what else Egret does.
fn cost_and_rate(
    suite: &str,
    name: &str,
    (ours, floors): (Vec<PerTuple>, Vec<PerTuple>),
    (kind, beside): (Kind, &str),
    goal: Option<f64>,
) -> [Measurement; 2] {
    let cpu = |all: &[PerTuple]| all.iter().map(|one| one.cpu_ns).collect::<Vec<_>>();
    let rate = |all: &[PerTuple]| all.iter().map(|one| one.rate / 1e6).collect::<Vec<_>>();
    let label = |what: &str| format!("{name}, {what}");
    [
        Measurement::new(suite, label("CPU"), "ns/tuple", Better::Lower, cpu(&ours)).against(
            kind,
            beside,
            cpu(&floors),
            goal,
        ),
        Measurement::new(suite, label("rate"), "M tuples/s", Better::Higher, rate(&ours)).against(
            kind,
            beside,
            rate(&floors),
            None,
        ),
    ]
}

/// The cost of a run in YAML.
fn yaml(bench: &Bench<'_>, text: &str, config: &[&str], sink: &str, tuples: u64) -> Result<Cost> {
    bench.runner.yaml(text, config)?.cost(sink, tuples)
}
