//! Runs a topology as a user would and measures it from outside.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};

/// What one run cost.
pub struct Measured {
    /// The summary of `egret run --json`.
    pub summary: serde_json::Value,
    /// User and system CPU time of all its processes, in seconds.
    pub cpu_s: f64,
}

/// Runs `topology` with this very program as `egret`, with its state below `home`.
///
/// # Errors
/// When the run fails or lost something.
pub fn measure(topology: &Path, home: &Path, config: &[&str]) -> Result<Measured> {
    let before = reaped_cpu_s()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("run").arg(topology).arg("--json").env("EGRET_HOME", home).stdin(Stdio::null());
    for entry in config {
        command.args(["-c", entry]);
    }
    let output = command.stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "egret run ended with {}", output.status);
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).context("the run's summary")?;
    ensure!(summary["lost"] == 0, "the run lost tuples: {summary}");
    Ok(Measured { summary, cpu_s: reaped_cpu_s()? - before })
}

/// CPU time of all processes that this one has waited for, and those they have waited for.
fn reaped_cpu_s() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').context("/proc/self/stat has no command")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    // Fields 16 and 17 of proc(5), cutime and cstime; the first here is number 3.
    let ticks: u64 = fields[13].parse::<u64>()? + fields[14].parse::<u64>()?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}
