//! How many instructions the hot paths take, counted by callgrind, and the gate that keeps them from growing.
//!
//! A count does not depend on what else the machine does, so a small regression shows where a time would hide it. Each
//! path is run twice, with different numbers of units; the difference over the units is what one takes.

use crate::paths::{PATHS, Path, work};
use crate::report::table::number;
use anyhow::{Context, Result, ensure};
use clap::Args;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

/// Tuples of the two runs of a path. Of batches it is a hundredth.
const SHORT: u64 = 10_000;
const LONG: u64 = 60_000;
/// How to accept new counts, for people.
const UPDATE: &str = "cargo run --release -p egret-benches -- instructions --update";

/// What can be asked for.
#[derive(Args)]
pub struct Options {
    /// The counts to compare with
    #[arg(long, value_name = "FILE", default_value = "benches/instructions.json")]
    baseline: PathBuf,
    /// Accept what is counted now as the baseline
    #[arg(long)]
    update: bool,
    /// How many more instructions a path may take, in per cent
    #[arg(long, value_name = "PCT", default_value_t = 3.0)]
    max_regress: f64,
}

/// The file of counts.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Baseline {
    /// The compiler that made the code which was counted; another one makes other code.
    rustc: String,
    /// Instructions per unit, by path.
    instructions: BTreeMap<String, f64>,
}

/// Counts, and compares or accepts.
///
/// # Errors
/// When valgrind is not there, a path fails, or the baseline cannot be used.
pub fn run(options: &Options) -> Result<ExitCode> {
    let counted = PATHS.iter().map(|path| Ok((path.name.to_owned(), count(path)?)));
    let now = Baseline { rustc: rustc(), instructions: counted.collect::<Result<_>>()? };
    let file = &options.baseline;
    if options.update {
        println!("{}", table(None, &now, options.max_regress).0);
        let text = serde_json::to_string_pretty(&now)? + "\n";
        std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
        println!("{} has these counts now", file.display());
        return Ok(ExitCode::SUCCESS);
    }
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read {}; `{UPDATE}` makes it", file.display()))?;
    let before: Baseline =
        serde_json::from_str(&text).with_context(|| format!("{} holds no counts", file.display()))?;
    let (text, regressed) = table(Some(&before), &now, options.max_regress);
    println!("{text}");
    if before.rustc != now.rustc {
        println!("note: the baseline is of {}, this is {}", before.rustc, now.rustc);
    }
    if regressed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    regressed.iter().for_each(|line| println!("regressed: {line}"));
    println!("If that is meant, accept it with `{UPDATE}` and say why in the commit.");
    Ok(ExitCode::FAILURE)
}

/// A path's work, as a process under callgrind does it.
///
/// # Errors
/// When it fails.
pub fn work_alone(path: &str, units: u64) -> Result<ExitCode> {
    work(path)?(units)?;
    Ok(ExitCode::SUCCESS)
}

/// Instructions per unit.
fn count(path: &Path) -> Result<f64> {
    let [short, long] = [SHORT, LONG].map(|tuples| if path.unit == "batch" { tuples / 100 } else { tuples });
    let (few, many) = (collected(path, short)?, collected(path, long)?);
    ensure!(many > few, "`{}` took {few} instructions for {short} units, {many} for {long}", path.name);
    // A tenth is more than enough, and keeps the file from changing for nothing.
    Ok(((many - few) as f64 / (long - short) as f64 * 10.0).round() / 10.0)
}

/// Instructions of a process that does so many units of a path.
fn collected(path: &Path, units: u64) -> Result<u64> {
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("callgrind.out");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", &format!("--callgrind-out-file={}", out.display())])
        .arg(std::env::current_exe()?)
        .args(["path", path.name, &units.to_string()])
        .stdin(Stdio::null())
        .output()
        .context("cannot start valgrind; on Debian `apt-get install valgrind` installs it")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "path `{}` under valgrind: {}\n{said}", path.name, output.status);
    let text = std::fs::read_to_string(&out)?;
    let totals = text.lines().find_map(|line| line.strip_prefix("totals: "));
    totals.and_then(|totals| totals.trim().parse().ok()).context("callgrind's file has no totals")
}

fn rustc() -> String {
    let output = Command::new("rustc").arg("--version").output();
    output.map_or_else(|_| "unknown".to_owned(), |o| String::from_utf8_lossy(&o.stdout).trim().to_owned())
}

/// The table, and what takes more than it may.
fn table(before: Option<&Baseline>, now: &Baseline, max_regress_percent: f64) -> (String, Vec<String>) {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(["path", "", "per", "instructions", "baseline", "change", ""]);
    let mut regressed = Vec::new();
    for path in PATHS {
        let Some(&count) = now.instructions.get(path.name) else { continue };
        let baseline = before.map(|before| before.instructions.get(path.name).copied());
        let (was, change, verdict) = match baseline {
            None => (String::new(), String::new(), ""),
            Some(None) => {
                regressed.push(format!("{} has no baseline", path.name));
                ("none".to_owned(), String::new(), "regressed")
            }
            Some(Some(was)) => {
                let percent = (count / was - 1.0) * 100.0;
                let is_worse = count > was * (1.0 + max_regress_percent / 100.0);
                if is_worse {
                    regressed
                        .push(format!("{} takes {percent:.1} % more: {was} before, {count} now", path.name));
                }
                (number(was), format!("{percent:+.1} %"), if is_worse { "regressed" } else { "" })
            }
        };
        table.add_row([path.name, path.help, path.unit, &number(count), &was, &change, verdict]);
    }
    (table.to_string(), regressed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baseline(emit: f64) -> Baseline {
        let counts = PATHS.iter().map(|path| (path.name.to_owned(), 100.0));
        let mut instructions: BTreeMap<_, _> = counts.collect();
        instructions.insert("emit".to_owned(), emit);
        Baseline { rustc: "rustc 1".to_owned(), instructions }
    }

    #[test]
    fn only_more_than_allowed_is_a_regression() {
        let regressed = |now: f64| table(Some(&baseline(100.0)), &baseline(now), 3.0).1;
        assert!(regressed(103.0).is_empty() && regressed(10.0).is_empty());
        let worse = regressed(103.2);
        assert_eq!(worse.len(), 1);
        assert!(worse[0].starts_with("emit takes 3.2 % more: 100 before"), "{worse:?}");
    }

    #[test]
    fn a_path_without_a_baseline_does_not_pass() {
        let mut old = baseline(100.0);
        old.instructions.remove("ack");
        assert_eq!(table(Some(&old), &baseline(100.0), 3.0).1, ["ack has no baseline"]);
        assert!(table(None, &baseline(100.0), 3.0).1.is_empty());
    }
}
