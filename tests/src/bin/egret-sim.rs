//! Explores the simulator: `cargo run -p egret-tests --bin egret-sim -- --seeds N [--seed S] [--minutes M]`.

use egret_dataplane::mutants::{self, Mutant};
use egret_tests::random::Random;
use egret_tests::sim::{Scenario, regression_seeds, run};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: egret-sim [--seed S] [--seeds N] [--minutes M] [--for SECONDS] [--regressions] [-v]
  --seed S        the first seed; a fresh one when it is not given
  --seeds N       how many seeds (1)
  --minutes M     faults for at most so many simulated minutes (10)
  --for SECONDS   goes on with seeds for so long in real time
  --regressions   the seeds that found something before
  --mutant NAME   with a planted bug awake
  -v              what happened, fault by fault; twice: what the processes log";

struct Options {
    /// Each with its minutes.
    seeds: Vec<(u64, u64)>,
    minutes: u64,
    until: Option<Duration>,
    verbose: u32,
}

fn main() -> ExitCode {
    let options = match read(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("error: {problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if options.verbose > 1 {
        tracing_subscriber::fmt().with_writer(std::io::stderr).without_time().init();
    }
    explore(&options)
}

fn explore(options: &Options) -> ExitCode {
    let begun = Instant::now();
    let (mut ran, mut simulated, mut executed, mut failed) = (0u64, Duration::ZERO, 0, 0);
    let mut seeds = options.seeds.clone();
    while let Some((seed, minutes)) = seeds.pop() {
        if options.until.is_some_and(|until| begun.elapsed() >= until) {
            break;
        }
        if options.until.is_some() && seeds.is_empty() {
            seeds.push((seed.wrapping_add(1), minutes));
        }
        let result = run(Scenario::new(seed, Duration::from_secs(60 * minutes)));
        (ran, simulated, executed) = (ran + 1, simulated + result.took, executed + result.executed);
        if options.verbose > 0 {
            result.log.iter().for_each(|line| println!("{line}"));
            println!(
                "seed {seed}: trace {:016x}, {:?}, {} executed",
                result.trace, result.took, result.executed
            );
        }
        if !result.violations.is_empty() {
            failed += 1;
            println!("seed {seed} failed:");
            result.violations.iter().for_each(|violation| println!("  {violation}"));
            println!(
                "  replay: cargo run -p egret-tests --bin egret-sim -- --seed {seed} --minutes {minutes} -v"
            );
        }
    }
    let (real, hours) = (begun.elapsed().as_secs_f64(), simulated.as_secs_f64() / 3600.0);
    println!(
        "{ran} seeds, {failed} failed; {hours:.1} simulated hours, {executed} tuples executed, {real:.1} s"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn read(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
    let (mut seed, mut count, mut regressions) = (Random::seed(), 1, false);
    let mut options = Options { seeds: Vec::new(), minutes: 10, until: None, verbose: 0 };
    while let Some(arg) = args.next() {
        let mut number = || {
            let value = args.next().ok_or_else(|| format!("{arg} needs a number"))?;
            value.parse::<u64>().map_err(|_| format!("{arg} needs a number, not `{value}`"))
        };
        match arg.as_str() {
            "--seed" => seed = number()?,
            "--seeds" => count = number()?,
            "--minutes" => options.minutes = number()?,
            "--for" => options.until = Some(Duration::from_secs(number()?)),
            "--regressions" => regressions = true,
            "--mutant" => {
                let name = args.next().unwrap_or_default();
                let mutant = Mutant::ALL.into_iter().find(|mutant| format!("{mutant:?}") == name);
                mutants::wake(Some(
                    mutant.ok_or_else(|| format!("there is no mutant `{name}`: {:?}", Mutant::ALL))?,
                ));
            }
            "-v" => options.verbose += 1,
            "-vv" => options.verbose += 2,
            _ => return Err(format!("unknown argument {arg}")),
        }
    }
    if regressions {
        options.seeds = regression_seeds();
    } else {
        options.seeds = (0..count).rev().map(|n| (seed.wrapping_add(n), options.minutes)).collect();
    }
    Ok(options)
}
