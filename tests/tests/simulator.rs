//! The simulator finds what it should, repeats itself, and finds nothing where it found something before.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use egret::{Next, Spout, SpoutCollector, TopologyBuilder};
use egret_control::packing::{Packing, RoundRobin};
use egret_dataplane::ids::{ContainerId, Epoch};
use egret_dataplane::message::Message;
use egret_dataplane::mutants::{self, Mutant};
use egret_dataplane::plan::PhysicalPlan;
use egret_dataplane::stmgr::registration::Registration;
use egret_dataplane::stmgr::route::Routes;
use egret_tests::sim::{Run, Scenario, run};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long things go wrong in these.
const MOST: Duration = Duration::from_secs(60);

fn simulate(seed: u64) -> Run {
    run(Scenario::new(seed, MOST))
}

#[test]
fn a_seed_repeats_its_run() {
    let usual = (0..8).map(|seed| Scenario::new(seed, MOST));
    for scenario in usual.chain([Scenario::new(10, MOST).around_tmaster()]) {
        let seed = scenario.seed;
        let (once, again) = (run(scenario.clone()), run(scenario));
        assert_eq!((once.trace, once.took, once.log), (again.trace, again.took, again.log), "seed {seed}");
    }
}

#[test]
fn what_must_hold_holds() {
    for seed in 100..120 {
        let run = simulate(seed);
        assert!(run.violations.is_empty(), "seed {seed}: {:?}\n{}", run.violations, run.log.join("\n"));
    }
}

#[test]
fn what_was_found_once_stays_fixed() {
    let seeds = egret_tests::sim::regression_seeds();
    for (seed, minutes) in seeds {
        let run = run(Scenario::new(seed, Duration::from_secs(60 * minutes)));
        assert!(run.violations.is_empty(), "seed {seed}: {:?}\n{}", run.violations, run.log.join("\n"));
    }
}

/// Without timeouts a tree is over only when it is acked or known to be lost. The first two seeds end with links that break
/// between containers whose spouts are elsewhere.
#[test]
fn what_is_lost_fails_at_once() {
    for seed in [128, 852].into_iter().chain(200..230) {
        let run = run(Scenario::new(seed, MOST).without_timeouts());
        assert!(run.violations.is_empty(), "seed {seed}: {:?}\n{}", run.violations, run.log.join("\n"));
    }
}

fn expect_found(mutant: Mutant, most: u64) {
    expect_found_in(mutant, most, |scenario| scenario);
}

/// So many seeds are enough to find a planted bug.
fn expect_found_in(mutant: Mutant, most: u64, kind: impl Fn(Scenario) -> Scenario) {
    mutants::wake(Some(mutant));
    let mut scenarios = (0..most).map(|seed| kind(Scenario::new(seed, MOST)));
    let found = scenarios.position(|scenario| !run(scenario).violations.is_empty());
    mutants::wake(None);
    println!("{mutant:?}: found with seed number {:?}", found.map(|seed| seed + 1));
    assert!(found.is_some(), "{mutant:?} is not found in {most} seeds");
}

#[test]
fn seeds_that_found_something_mean_what_they_meant() {
    for (seed, minutes) in egret_tests::sim::regression_seeds() {
        assert!(!Scenario::new(seed, Duration::from_secs(60 * minutes)).is_newer, "seed {seed}");
    }
}

/// Its process only starts again, as after a panic of user code.
#[test]
fn a_panic_of_a_task_is_found() {
    expect_found(Mutant::PanicsAtFails, 30);
}

#[test]
fn a_tree_that_is_done_early_is_found() {
    expect_found(Mutant::LedgerEarly, 30);
}

#[test]
fn an_end_before_the_last_tuples_is_found() {
    expect_found(Mutant::EndBeforeFlush, 30);
}

#[test]
fn a_block_that_is_freed_twice_is_found() {
    expect_found(Mutant::FreedTwice, 30);
}

#[test]
fn holders_of_a_peer_that_is_gone_are_found() {
    expect_found(Mutant::StopForgotten, 30);
}

#[test]
fn holders_that_are_stated_late_are_found() {
    expect_found(Mutant::StatementLate, 30);
}

#[test]
fn a_restarted_peer_that_is_not_heard_is_found() {
    expect_found(Mutant::VersionKept, 100);
}

/// BR-034: a tmaster that does not ask which plan the stmgrs have.
#[test]
fn epochs_that_are_used_twice_are_found() {
    expect_found_in(Mutant::EpochReused, 60, Scenario::around_tmaster);
}

/// The epoch that a stmgr goes by when a plan has come after one of epoch 5.
fn epoch_after_one_of(epoch: u64) -> Epoch {
    let mut t = TopologyBuilder::new("epochs");
    t.spout("none", 1, || Never);
    let blueprint = t.build().unwrap();
    let (topology, packing) = (blueprint.topology(), RoundRobin.pack(blueprint.topology()).unwrap());
    let routes = Routes::new(topology, &packing, ContainerId(1)).unwrap();
    let (mut registration, mut actions) = (Registration::new(&routes), Vec::new());
    for epoch in [5, epoch] {
        let (topology, packing) = (topology.clone(), packing.clone());
        let plan =
            PhysicalPlan { epoch: Epoch(epoch), topology, packing, stmgrs: Vec::new(), ended: Vec::new() };
        registration.from_tmaster(Message::Plan(Box::new(plan)), &routes, &mut actions);
    }
    registration.epoch()
}

/// No seed finds this one: a stmgr says which epoch it has when it registers, and no tmaster sends it an older plan over that
/// connection. So a second lock is tested as such: the check holds, and one that does not would be seen.
#[test]
fn an_older_plan_is_not_taken_and_one_that_is_is_noticed() {
    assert_eq!((epoch_after_one_of(6), epoch_after_one_of(4)), (Epoch(6), Epoch(5)));
    mutants::wake(Some(Mutant::StaleEpoch));
    let taken = epoch_after_one_of(4);
    mutants::wake(None);
    assert_eq!(taken, Epoch(4), "the planted bug is there");
}

struct Never;

impl Spout for Never {
    type Id = ();

    fn next_tuple(&mut self, _: &mut SpoutCollector<()>) -> egret::Result<Next> {
        Ok(Next::Exhausted)
    }
}

#[test]
fn a_leaked_block_is_found() {
    expect_found(Mutant::BlockLeaked, 30);
}

#[test]
fn a_tree_too_many_is_found() {
    expect_found(Mutant::PendingIgnored, 30);
}

#[test]
fn credit_that_is_kept_is_found() {
    expect_found(Mutant::CreditKept, 30);
}

#[test]
fn a_forgotten_wake_up_is_found() {
    expect_found(Mutant::WakeForgotten, 30);
}

/// What was explored until then is told all the same.
#[test]
fn an_exploration_that_is_interrupted_ends_with_its_sum() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut sim = Command::new(env!("CARGO_BIN_EXE_egret-sim"));
        sim.args(["--seed", "0", "--seeds", "1000000", "--minutes", "1", "--jobs", "1"]);
        let mut sim = sim.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(sim.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(lines.next().unwrap(), "the first seed is 0, of 1 minutes");
        kill_process(Pid::from_child(&sim), signal).unwrap();
        let sum = lines.last().unwrap();
        assert!(sum.contains(" seeds, 0 failed; "), "{sum}");
        assert_eq!(sim.wait().unwrap().code(), Some(130));
    }
}
