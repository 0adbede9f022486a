//! Explores the simulator: `cargo run -p egret-tests --bin egret-sim -- --seeds N [--seed S] [--minutes M]`.

use egret_dataplane::mutants::{self, Mutant};
use egret_tests::random::Random;
use egret_tests::sim::{Run, Scenario, regression_seeds, run};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often it says how far it is.
const PROGRESS: Duration = Duration::from_secs(10);
/// The exit status after Ctrl-C, as that of the other commands.
const INTERRUPTED: u8 = 130;

const USAGE: &str = "\
usage: egret-sim [--seed S] [--seeds N] [--minutes M] [--for SECONDS] [--jobs J] [--no-timeouts] [--around-tmaster] [--regressions] [-v]
  --seed S        the first seed; a fresh one when it is not given
  --seeds N       how many seeds (1)
  --minutes M     faults for at most so many simulated minutes (10)
  --for SECONDS   goes on with seeds for so long in real time
  --jobs J        so many seeds at a time (as many as there are processors)
  --no-timeouts   no tree times out: it completes only if all that is lost fails at once
  --around-tmaster
                  with each seed more goes wrong around the tmaster
  --regressions   the seeds that found something before
  --mutant NAME   with a planted bug awake
  -v              what happened, fault by fault; twice: what the processes log
It says every 10 s how far it is. Ctrl-C lets the seeds that run end, and shows the sum; a second one ends it.
Exit status: 0 all is well; 1 a seed failed; 2 wrong usage; 130 after Ctrl-C.";

struct Options {
    /// Each with its minutes; the next one is the last.
    seeds: Vec<(u64, u64)>,
    minutes: u64,
    until: Option<Duration>,
    jobs: usize,
    no_timeouts: bool,
    around_tmaster: bool,
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

/// The seeds that are left, what came of the others, and whether to stop.
struct Exploration<'a> {
    options: &'a Options,
    begun: Instant,
    seeds: Mutex<Vec<(u64, u64)>>,
    sum: Mutex<Sum>,
    /// The signal that it got; 0 for none.
    signal: Arc<AtomicUsize>,
}

fn explore(options: &Options) -> ExitCode {
    let signal = match await_signals() {
        Ok(signal) => signal,
        Err(error) => {
            eprintln!("error: cannot listen for Ctrl-C: {error}");
            return ExitCode::FAILURE;
        }
    };
    let exploration = Exploration {
        options,
        begun: Instant::now(),
        seeds: Mutex::new(options.seeds.clone()),
        sum: Mutex::default(),
        signal,
    };
    if let Some((seed, minutes)) = options.seeds.last() {
        println!("the first seed is {seed}, of {minutes} minutes");
    }
    std::thread::scope(|scope| {
        let (working, done) = mpsc::channel();
        for _ in 0..options.jobs {
            let working = working.clone();
            scope.spawn(|| {
                exploration.work();
                drop(working);
            });
        }
        drop(working);
        exploration.say_how_far(&done);
    });
    println!("{}", exploration.sum().text(exploration.begun));
    let failed = exploration.sum().failed;
    match exploration.signal.load(Ordering::Relaxed) {
        _ if failed > 0 => ExitCode::FAILURE,
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(INTERRUPTED),
    }
}

/// The first of them is kept; the second one ends the process.
fn await_signals() -> std::io::Result<Arc<AtomicUsize>> {
    let signal = Arc::new(AtomicUsize::new(0));
    let came = Arc::new(AtomicBool::new(false));
    for number in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_default(number, came.clone())?;
        signal_hook::flag::register(number, came.clone())?;
        signal_hook::flag::register_usize(number, signal.clone(), number as usize)?;
    }
    Ok(signal)
}

impl Exploration<'_> {
    fn sum(&self) -> MutexGuard<'_, Sum> {
        self.sum.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let options = self.options;
        mutants::wake(options.mutant);
        while let Some((seed, minutes)) = self.next() {
            let scenario = Scenario::new(seed, Duration::from_secs(60 * minutes));
            let scenario = if options.no_timeouts { scenario.without_timeouts() } else { scenario };
            let result = run(if options.around_tmaster { scenario.around_tmaster() } else { scenario });
            tell(&mut self.sum(), &result, seed, minutes, options);
        }
    }

    fn next(&self) -> Option<(u64, u64)> {
        let until = self.options.until;
        let is_late = until.is_some_and(|until| self.begun.elapsed() >= until);
        if is_late || self.signal.load(Ordering::Relaxed) != 0 {
            return None;
        }
        let mut seeds = self.seeds.lock().unwrap_or_else(PoisonError::into_inner);
        let (seed, minutes) = seeds.pop()?;
        if until.is_some() && seeds.is_empty() {
            seeds.push((seed.wrapping_add(1), minutes));
        }
        Some((seed, minutes))
    }

    /// Until nobody works any more.
    fn say_how_far(&self, done: &Receiver<()>) {
        while done.recv_timeout(PROGRESS) == Err(RecvTimeoutError::Timeout) {
            eprintln!("so far {}", self.sum().text(self.begun));
        }
    }
}

impl Sum {
    fn text(&self, begun: Instant) -> String {
        let Self { ran, failed, executed, turns, .. } = self;
        let (real_s, hours) = (begun.elapsed().as_secs_f64(), self.simulated.as_secs_f64() / 3600.0);
        let rate = *ran as f64 / real_s;
        format!(
            "{ran} seeds, {failed} failed; {hours:.1} simulated hours, {executed} tuples executed, {turns} turns, \
             {real_s:.1} s, {rate:.1} seeds/s"
        )
    }
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
        let mut more = if options.no_timeouts { " --no-timeouts" } else { "" }.to_owned();
        more += if options.around_tmaster { " --around-tmaster" } else { "" };
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
        around_tmaster: false,
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
            "--around-tmaster" => options.around_tmaster = true,
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
