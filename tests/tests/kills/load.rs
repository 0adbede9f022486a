//! The topology, its input, and whether all of it arrived.

use crate::output::Output;
use egret_tests::Cluster;
use egret_tests::outcome::Case;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

const TREES: &str = env!("CARGO_BIN_EXE_trees");
/// The topology's name.
pub(crate) const NAME: &str = "paced-lines";
/// Roots in flight of the one spout task.
pub(crate) const MAX_PENDING: u64 = 20_000;
/// None times out while the test runs: what a kill takes along fails at once, or its lines are missing.
const TIMEOUT: &str = "topology.message.timeout.secs=3600";

/// Lines for measuring the full rate.
const TRIAL: u64 = 1_000_000;
/// The most lines a second, so that the files stay small on a machine of any speed.
const MOST_PER_SECOND: u64 = 600_000;
/// Lines for each kill, in milliseconds at that rate: the time in which data flows between kills is two thirds of it.
const ENOUGH_MS: u64 = 1500;

/// See the module.
pub(crate) struct Load {
    folder: PathBuf,
    arguments: Vec<String>,
    rate: u64,
    lines: u64,
}

impl Load {
    /// Measures the full rate, and prepares for so many kills at half of it.
    pub(crate) fn measured(cluster: &Cluster, kills: usize) -> Self {
        let load = Self::prepare(cluster, "trial", TRIAL, 1);
        load.go_on_freely();
        let summary = cluster.run_to_the_end(load.arguments()).json();
        load.assert_all_arrived(0);
        let full = TRIAL as f64 / summary["elapsed_s"].as_f64().unwrap();
        let rate = ((full / 2.0) as u64).min(MOST_PER_SECOND);
        println!("full rate {full:.0} lines/s, kills at {rate} lines/s");
        Self::prepare(cluster, "load", rate * ENOUGH_MS / 1000 * (kills as u64 + 3), rate)
    }

    fn prepare(cluster: &Cluster, name: &str, lines: u64, rate: u64) -> Self {
        let case = Case::new(TREES, "paced_lines").containers(3);
        let case = case.with(format!("topology.max.spout.pending={MAX_PENDING}"));
        let arguments = case.with(TIMEOUT).arguments(cluster, name);
        let folder = cluster.path(name);
        let mut input = BufWriter::new(File::create(folder.join("input")).unwrap());
        (0..lines).try_for_each(|n| writeln!(input, "{n}")).unwrap();
        input.flush().unwrap();
        fs::write(folder.join("rate"), rate.to_string()).unwrap();
        Self { folder, arguments, rate, lines }
    }

    /// What stands behind `egret run` and `egret submit`.
    pub(crate) fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// From now on as fast as possible.
    pub(crate) fn go_on_freely(&self) {
        fs::write(self.folder.join("free"), "").unwrap();
    }

    /// The output, to be read along.
    pub(crate) fn output(&self) -> Output {
        Output::new(self.folder.join("output"), self.lines)
    }

    /// How many lines go out in this time.
    pub(crate) fn lines_in(&self, time: Duration) -> u64 {
        (self.rate as f64 * time.as_secs_f64()) as u64
    }

    /// Whether nearly everything has gone out.
    pub(crate) fn is_over(&self, output: &Output) -> bool {
        output.newest() + self.rate >= self.lines
    }

    /// Every line is in the output, and few of them twice.
    #[track_caller]
    pub(crate) fn assert_all_arrived(&self, kills: usize) {
        let mut output = self.output();
        output.read_on();
        let missing = output.missing();
        let first: Vec<_> = missing.iter().take(10).collect();
        assert!(missing.is_empty(), "{} of {} lines are missing: {first:?}…", missing.len(), self.lines);
        let most = kills as u64 * MAX_PENDING;
        println!("{} lines, {} more than once after {kills} kills", self.lines, output.repeated());
        assert!(output.repeated() <= most, "{} lines are there again, at most {most}", output.repeated());
    }
}
