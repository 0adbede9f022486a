//! One scenario from its start to its end.

use super::components;
use super::control::SimControl;
use super::faults::Faults;
use super::journal::Journal;
use super::scenario::Scenario;
use super::state::SimState;
use egret::local::{Cluster, Parts, Seat};
use egret_control::packing::{Packing, RoundRobin};
use egret_dataplane::net::handshake::Secret;
use egret_dataplane::simulation::{Dice, Outcome, Weather, World};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long a topology may take to complete once everything is healed, in virtual time. Its slowest part is trees that
/// time out after up to 30 s, some of them several times.
const PATIENCE: Duration = Duration::from_secs(1800);

/// What became of a scenario.
#[derive(Debug)]
pub struct Run {
    /// What may not have happened.
    pub violations: Vec<String>,
    /// Faults, with their times.
    pub log: Vec<String>,
    /// A number that two runs share which went alike.
    pub trace: u64,
    /// How long it took in virtual time.
    pub took: Duration,
    /// Copies of tuples that were executed.
    pub executed: u64,
}

/// Runs a scenario.
///
/// # Panics
/// When there is no folder for it.
#[must_use]
pub fn run(scenario: Scenario) -> Run {
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("a folder for the simulation: {error}"));
    let scenario = Arc::new(scenario);
    let journal = Journal::new(scenario.mode);
    let blueprint = components::blueprint(&scenario, &journal);
    let state = SimState::new(&journal);
    let packing = RoundRobin.pack(blueprint.topology());
    let packing = packing.unwrap_or_else(|error| panic!("seed {} cannot be packed: {error}", scenario.seed));
    let secret = Secret::from_hex(&format!("{:064x}", scenario.seed)).unwrap_or_else(|| panic!("a secret"));
    let control = Rc::new(SimControl::new(&state, blueprint.topology(), &packing, &secret, folder.path()));
    let mut speeds = Dice::new(scenario.seed ^ 0x59_eed);
    let spread = scenario.spread;
    let parts = Parts {
        blueprint,
        packing,
        secret,
        folder: folder.path().to_owned(),
        control: control.clone(),
        step: Box::new(move |_| Duration::from_nanos(1000 * speeds.between(1, spread))),
        restart_delay: Box::new(|dice| Duration::from_millis(dice.between(1, 2000))),
    };
    let mut faults = Faults::new(&scenario, &state, control.clone());
    let mut cluster = Cluster::new(World::new(scenario.seed), parts, scenario.seed);
    let (max_delay, min_delay) = (scenario.max_delay, Duration::from_micros(20));
    cluster.world().set_weather(Weather {
        min_delay,
        max_delay,
        pieces: scenario.has_faults,
        ..Weather::default()
    });
    suffer(&scenario, &control, &mut cluster, &mut faults);
    complete(&scenario, &control, &mut cluster, &mut faults, &journal);
    let trace = cluster.world().trace() ^ journal.trace();
    let (took, executed) = (cluster.world().now(), journal.executed());
    drop(cluster);
    Run { violations: journal.violations(), log: faults.log, trace, took, executed }
}

/// The time of the faults.
fn suffer(scenario: &Scenario, control: &SimControl, cluster: &mut Cluster, faults: &mut Faults) {
    while cluster.world().now() < scenario.fault_time && !control.is_over() {
        let gap = if scenario.has_faults { faults.gap() } else { scenario.fault_time };
        let next = (cluster.world().now() + gap).min(scenario.fault_time);
        while !control.is_over() && !cluster.turn(next) {}
        if scenario.has_faults && next < scenario.fault_time && !control.is_over() {
            faults.strike(cluster);
        }
    }
}

/// Everything is healed, and the topology completes.
fn complete(
    scenario: &Scenario,
    control: &SimControl,
    cluster: &mut Cluster,
    faults: &mut Faults,
    journal: &Journal,
) {
    let was_over = control.is_over();
    // An instance that comes back too late finds no stmgr any more; its executor ends it.
    let is_stmgr = |seat: &Seat| matches!(seat, Seat::Stmgr(_)) && cluster.process(*seat).is_some();
    let stmgrs: Vec<Seat> = cluster.seats().into_iter().filter(is_stmgr).collect();
    faults.heal(cluster);
    let deadline = cluster.world().now() + PATIENCE;
    while !control.is_over() {
        if cluster.turn(deadline) {
            let (waited_s, done) = (PATIENCE.as_secs(), cluster.done());
            journal.violation(format!("not complete {waited_s} s after all was healed; done: {done:?}"));
            return;
        }
    }
    // Everyone else leaves, unless it was in the middle of a fault.
    let deadline = cluster.world().now() + Duration::from_secs(60);
    let is_left = |cluster: &Cluster| stmgrs.iter().any(|&seat| !cluster.is_done(seat));
    while !was_over && is_left(cluster) {
        if cluster.turn(deadline) {
            journal.violation(format!("the tmaster has ended, and of all only these: {:?}", cluster.done()));
            break;
        }
    }
    for (seat, outcome) in cluster.crashes() {
        // A process that is refused or that gives up says so with its exit code; none may panic.
        if let Outcome::Panicked(what) = outcome {
            journal.violation(format!("{seat:?} panicked: {what}"));
        }
    }
    journal.conclude(scenario, !scenario.has_faults);
}
