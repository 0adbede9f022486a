//! The command `egret-bench`.

use crate::program::Spec;
use crate::report::compare::{By, compare};
use crate::report::{Measurement, Report, Settings, table};
use crate::run::Runner;
use crate::suites::{Bench, SUITES, Suite};
use crate::{floors, instructions};
use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand};
use egret_dataplane::affinity::Policy;
use egret_dataplane::plan::Config;
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::ExitCode;

/// Set by an executor for a process that runs one of this program's tasks, and by `egret run` to be told its topology.
const ROLE: &str = "EGRET_ROLE";
/// Commands of `egret` that this program is started with by its own runs.
const EGRET: [&str; 5] = ["run", "executor", "tmaster", "stmgr", "instance"];
/// Where containers are pinned.
const AFFINITY: &str = "egret.affinity.policy";
/// The exit status for wrong usage, and for files that cannot be used.
const USAGE: u8 = 2;

/// Measures Egret, beside the least that the same physical work costs here.
#[derive(Parser)]
#[command(name = "egret-bench", version, args_conflicts_with_subcommands = true, after_help = suites_help())]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    measure: Measure,
}

#[derive(Subcommand)]
enum Command {
    /// Compare two files of results; exit status 1 when something regressed or is missing
    Compare {
        /// Results of `egret-bench --json OLD`
        old: PathBuf,
        /// Results of `egret-bench --json NEW`
        new: PathBuf,
        /// How much worse a median may be, in per cent
        #[arg(long, value_name = "PCT", default_value_t = 10.0)]
        max_regress: f64,
        /// What is compared
        #[arg(long, value_enum, default_value = "value")]
        by: By,
        /// Measurements that only OLD has are no failure
        #[arg(long)]
        allow_missing: bool,
    },
    /// Count instructions of the hot paths under callgrind; exit status 1 when one takes more than it used to
    Instructions(instructions::Options),
    /// Do so many units of a hot path's work
    #[command(hide = true)]
    Path {
        /// Which
        name: String,
        /// How many
        units: u64,
    },
    /// Be a process of a floor
    #[command(hide = true)]
    Floor {
        /// What to do, as JSON
        stage: String,
    },
}

#[derive(Args)]
struct Measure {
    /// The suites to run; all of them if none is named
    #[arg(value_name = "SUITE", value_parser = clap::builder::PossibleValuesParser::new(SUITES.iter().map(|s| s.name)))]
    suites: Vec<String>,
    /// Short runs: to see that all works. Their figures are not worth comparing
    #[arg(long)]
    quick: bool,
    /// How often each measurement is done [default: 5, with --quick 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: Option<u16>,
    /// Write the results to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where Egret's containers and the floors are pinned: `none`, `auto` or processors such as `0,2-5`
    #[arg(long, value_name = "POLICY", default_value = "auto", value_parser = policy)]
    affinity: String,
    /// Set a configuration entry of every topology that is run
    #[arg(short, long = "config", value_name = "KEY=VALUE")]
    config: Vec<String>,
    /// The folder for histograms (.hlog, .hgrm) and plots (.svg) of `latency`
    #[arg(long, value_name = "DIR", default_value = "target/egret-bench")]
    histograms: PathBuf,
}

/// Does what this process was started for.
#[must_use]
pub fn main() -> ExitCode {
    let first = std::env::args().nth(1);
    if first.as_deref().is_some_and(|first| EGRET.contains(&first)) {
        return egret_control::main();
    }
    let done = if std::env::var_os(ROLE).is_some() { topology(first) } else { obey(Cli::parse()) };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(USAGE)
    })
}

/// As a program of a topology.
fn topology(spec: Option<String>) -> Result<ExitCode> {
    let spec: Spec = serde_json::from_str(&spec.context("no topology was named")?)?;
    Ok(egret::main(spec.builder()))
}

fn obey(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        None => measure(&cli.measure),
        Some(Command::Compare { old, new, max_regress, by, allow_missing }) => {
            ensure!(max_regress >= 0.0, "--max-regress is {max_regress}, but must be 0 or more");
            let compared = compare(&Report::read(&old)?, &Report::read(&new)?, max_regress, by)?;
            println!("{}", compared.text);
            compared.regressed.iter().for_each(|line| println!("regressed: {line}"));
            compared.missing.iter().for_each(|line| println!("missing: {line}"));
            let is_complete = allow_missing || compared.missing.is_empty();
            let is_good = is_complete && compared.regressed.is_empty();
            Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Some(Command::Instructions(options)) => instructions::run(&options),
        Some(Command::Path { name, units }) => instructions::work_alone(&name, units),
        Some(Command::Floor { stage }) => floors::run_stage(&stage).map(|()| ExitCode::SUCCESS),
    }
}

/// A measurement that fails is a failure, not wrong usage.
fn measure(options: &Measure) -> Result<ExitCode> {
    let is_policy = |entry: &String| entry.split_once('=').is_some_and(|(key, _)| key == AFFINITY);
    ensure!(
        !options.config.iter().any(is_policy),
        "`-c {AFFINITY}` would pin Egret's processes and not the floors; `--affinity POLICY` pins both"
    );
    if let Some(path) = &options.json {
        // What is in it stays until there are results.
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        opened.with_context(|| format!("cannot write {}", path.display()))?;
    }
    let home = tempfile::tempdir()?;
    let affinity = format!("{AFFINITY}={}", options.affinity);
    let config = [&[affinity][..], &options.config].concat();
    let runs = options.runs.map_or(if options.quick { 2 } else { 5 }, usize::from);
    let bench = Bench {
        config: topology_config(&config)?,
        runner: Runner { home: home.path(), config },
        quick: options.quick,
        runs,
        affinity: options.affinity.clone(),
        folder: Some(options.histograms.clone()),
    };
    let is_wanted =
        |suite: &&Suite| options.suites.is_empty() || options.suites.iter().any(|s| s == suite.name);
    let mut results: Vec<Measurement> = Vec::new();
    let mut failed = false;
    for suite in SUITES.iter().filter(is_wanted) {
        eprintln!("{}: {}", suite.name, suite.help);
        match (suite.run)(&bench) {
            Ok(measured) => results.extend(measured),
            Err(error) => {
                eprintln!("error: suite {}: {error:#}", suite.name);
                failed = true;
            }
        }
    }
    let (affinity, config) = (options.affinity.clone(), options.config.clone());
    let settings = Settings { quick: options.quick, runs, affinity, config };
    let report = Report::new(settings, results);
    println!("{}", report.machine.text());
    println!("pinning {}, {runs} runs{}", options.affinity, if options.quick { ", quick" } else { "" });
    println!("{}", table::table(&report.results));
    if let Some(path) = &options.json {
        report.write(path)?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn topology_config(entries: &[String]) -> Result<Config> {
    let mut config = Config::default();
    for entry in entries {
        let (key, value) = entry.split_once('=').with_context(|| format!("`{entry}` is not KEY=VALUE"))?;
        config.set(key, value)?;
    }
    Ok(config)
}

fn policy(text: &str) -> Result<String, String> {
    match Policy::parse(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err("it must be `none`, `auto` or processors such as `0,2-5`".to_owned()),
    }
}

fn suites_help() -> String {
    let lines = SUITES.iter().map(|suite| format!("  {:<8} {}", suite.name, suite.help));
    format!("Suites:\n{}", lines.collect::<Vec<_>>().join("\n"))
}
