//! Runs a topology as a user would and measures it from outside.

use crate::program::Spec;
use crate::sample::Cost;
use crate::tree;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Runs topologies with this very program as `egret`, with their state below one folder.
pub struct Runner<'a> {
    /// What becomes `EGRET_HOME`.
    pub home: &'a Path,
    /// Configuration of every run, each `KEY=VALUE`.
    pub config: Vec<String>,
}

/// What one run cost.
pub struct Measured {
    /// The summary of `egret run --json`.
    pub summary: Value,
    /// User and system CPU time of all its processes, in seconds.
    pub cpu_s: f64,
}

impl Runner<'_> {
    /// Runs a topology in YAML.
    ///
    /// # Errors
    /// When the run fails or lost something.
    pub fn yaml(&self, text: &str, config: &[&str]) -> Result<Measured> {
        let path = self.home.join("topology.yaml");
        std::fs::write(&path, text)?;
        self.run(Command::new(std::env::current_exe()?).arg("run").arg(path), config, &[])
    }

    /// Runs the topology of this program.
    ///
    /// # Errors
    /// When the run fails or lost something.
    pub fn program(&self, spec: &Spec, config: &[&str]) -> Result<Measured> {
        self.run(&mut self.program_command()?, config, &["--", &spec.to_arg()?])
    }

    /// Runs the topology of this program, which idles, and says what share of a processor its processes used in a
    /// stretch that begins when they are `processes` and have settled.
    ///
    /// # Errors
    /// When the run fails, or ends within the stretch.
    pub fn idle_share(
        &self,
        spec: &Spec,
        config: &[&str],
        processes: usize,
        settles: Duration,
        stretch: Duration,
    ) -> Result<f64> {
        let mut command = self.program_command()?;
        let child = self.complete(&mut command, config, &["--", &spec.to_arg()?]).spawn()?;
        let root = child.id();
        let watch = || -> Result<f64> {
            tree::wait_for(root, processes)?;
            std::thread::sleep(settles);
            let (before, start) = (tree::cpu(root)?, Instant::now());
            std::thread::sleep(stretch);
            let (used, took) = (tree::cpu(root)?.saturating_sub(before), start.elapsed());
            Ok(used.as_secs_f64() / took.as_secs_f64())
        };
        let watched = watch();
        summary(&child.wait_with_output()?)?;
        watched
    }

    fn program_command(&self) -> Result<Command> {
        let this = std::env::current_exe()?;
        let mut command = Command::new(&this);
        command.arg("run").arg(this);
        Ok(command)
    }

    fn run(&self, command: &mut Command, config: &[&str], args: &[&str]) -> Result<Measured> {
        let before = reaped_cpu_s()?;
        let summary = summary(&self.complete(command, config, args).output()?)?;
        Ok(Measured { summary, cpu_s: reaped_cpu_s()? - before })
    }

    fn complete<'c>(&self, command: &'c mut Command, config: &[&str], args: &[&str]) -> &'c mut Command {
        command.arg("--json").env("EGRET_HOME", self.home);
        for entry in self.config.iter().map(String::as_str).chain(config.iter().copied()) {
            command.args(["-c", entry]);
        }
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit())
    }
}

/// The summary of a run that has ended well.
fn summary(output: &Output) -> Result<Value> {
    ensure!(output.status.success(), "egret run ended with {}", output.status);
    let summary: Value = serde_json::from_slice(&output.stdout).context("the run's summary")?;
    let is_none = |number: &Value| number.as_u64().is_none_or(|n| n == 0);
    let (lost, failed) = (&summary["lost"], &summary["spouts"]["failed"]);
    ensure!(is_none(lost) && is_none(failed), "{lost} tuples were lost, and {failed} trees failed");
    Ok(summary)
}

impl Measured {
    /// How long tuples flowed, in seconds.
    ///
    /// # Errors
    /// When the summary does not say.
    pub fn elapsed_s(&self) -> Result<f64> {
        self.summary["elapsed_s"].as_f64().context("the summary has no elapsed_s")
    }

    /// What it cost, if component `sink` executed exactly `tuples`.
    ///
    /// # Errors
    /// When it did not.
    pub fn cost(&self, sink: &str, tuples: u64) -> Result<Cost> {
        let executed = &self.summary["components"][sink]["executed"];
        ensure!(*executed == tuples, "`{sink}` executed {executed} tuples, and not {tuples}");
        Ok(Cost { cpu_s: self.cpu_s, elapsed_s: self.elapsed_s()? })
    }
}

/// CPU time of all processes that this one has waited for, and those they have waited for, in seconds.
///
/// # Errors
/// When `/proc` is not there.
pub fn reaped_cpu_s() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').context("/proc/self/stat has no command")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    // Fields 16 and 17 of proc(5), cutime and cstime; the first here is number 3.
    let ticks: u64 = fields[13].parse::<u64>()? + fields[14].parse::<u64>()?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}
