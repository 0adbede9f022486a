//! Explores the simulator: `cargo run -p egret-tests --bin egret-sim -- --seeds N [--seed S] [--minutes M]`.

use egret_dataplane::mutants::{self, Mutant};
use egret_tests::random::Random;
use egret_tests::sim::{Run, Scenario, regression_seeds, run};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: egret-sim [--seed S] [--seeds N] [--minutes M] [--for SECONDS] [--jobs J] [--no-timeouts] [--regressions] [-v]
  --seed S        the first seed; a fresh one when it is not given
  --seeds N       how many seeds (1)
  --minutes M     faults for at most so many simulated minutes (10)
  --for SECONDS   goes on with seeds for so long in real time
  --jobs J        so many seeds at a time (as many as there are processors)
  --no-timeouts   no tree times out: it completes only if all that is lost fails at once
  --regressions   the seeds that found something before
  --mutant NAME   with a planted bug awake
  -v              what happened, fault by fault; twice: what the processes log";

struct Options {
    /// Each with its minutes; the next one is the last.
    seeds: Vec<(u64, u64)>,
    minutes: u64,
    until: Option<Duration>,
    jobs: usize,
    no_timeouts: bool,
    mutant: Option<Mutant>,
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

/// What came of all seeds.
#[derive(Default)]
struct Sum {
    ran: u64,
    failed: u64,
    simulated: Duration,
    executed: u64,
    turns: u64,
}

fn explore(options: &Options) -> ExitCode {
    let begun = Instant::now();
    let seeds = Mutex::new(options.seeds.clone());
    let sum = Mutex::new(Sum::default());
    if let Some((seed, minutes)) = options.seeds.last() {
        println!("the first seed is {seed}, of {minutes} minutes");
    }
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                mutants::wake(options.mutant);
                while let Some((seed, minutes)) = next(&seeds, options, begun) {
                    let scenario = Scenario::new(seed, Duration::from_secs(60 * minutes));
                    let result =
                        run(if options.no_timeouts { scenario.without_timeouts() } else { scenario });
                    let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
                    tell(&mut sum, &result, seed, minutes, options);
                }
            });
        }
    });
    let Sum { ran, failed, simulated, executed, turns } =
        sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (real, hours) = (begun.elapsed().as_secs_f64(), simulated.as_secs_f64() / 3600.0);
    println!(
        "{ran} seeds, {failed} failed; {hours:.1} simulated hours, {executed} tuples executed, {turns} turns, {real:.1} s"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn next(seeds: &Mutex<Vec<(u64, u64)>>, options: &Options, begun: Instant) -> Option<(u64, u64)> {
    if options.until.is_some_and(|until| begun.elapsed() >= until) {
        return None;
    }
    let mut seeds = seeds.lock().unwrap_or_else(PoisonError::into_inner);
    let (seed, minutes) = seeds.pop()?;
    if options.until.is_some() && seeds.is_empty() {
        seeds.push((seed.wrapping_add(1), minutes));
    }
    Some((seed, minutes))
}

fn tell(sum: &mut Sum, result: &Run, seed: u64, minutes: u64, options: &Options) {
    sum.ran += 1;
    sum.simulated += result.took;
    sum.executed += result.executed;
    sum.turns += result.turns;
    if options.verbose > 0 {
        result.log.iter().for_each(|line| println!("{line}"));
        let Run { trace, took, executed, turns, .. } = result;
        println!("seed {seed}: trace {trace:016x}, {took:?}, {executed} executed, {turns} turns");
    }
    if !result.violations.is_empty() {
        sum.failed += 1;
        println!("seed {seed} failed:");
        result.violations.iter().for_each(|violation| println!("  {violation}"));
        let more = if options.no_timeouts { " --no-timeouts" } else { "" };
        println!(
            "  replay: cargo run -p egret-tests --bin egret-sim -- --seed {seed} --minutes {minutes}{more} -v"
        );
    }
}

fn read(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
    let (mut seed, mut count, mut regressions) = (Random::seed(), 1, false);
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut options = Options {
        seeds: Vec::new(),
        minutes: 10,
        until: None,
        jobs,
        no_timeouts: false,
        mutant: None,
        verbose: 0,
    };
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
            "--jobs" => options.jobs = number()?.max(1) as usize,
            "--no-timeouts" => options.no_timeouts = true,
            "--regressions" => regressions = true,
            "--mutant" => {
                let name = args.next().unwrap_or_default();
                let mutant = Mutant::ALL.into_iter().find(|mutant| format!("{mutant:?}") == name);
                let known = || format!("there is no mutant `{name}`: {:?}", Mutant::ALL);
                options.mutant = Some(mutant.ok_or_else(known)?);
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
