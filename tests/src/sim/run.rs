//! One scenario from its start to its end.

use super::components;
use super::control::SimControl;
use super::faults::Faults;
use super::journal::Journal;
use super::scenario::Scenario;
use super::state::SimState;
use egret::local::{Cluster, Parts, Seat};
use egret_control::layout::WorkDir;
use egret_control::packing::{Packing, RoundRobin};
use egret_dataplane::ids::ContainerId;
use egret_dataplane::message::TopologyStatus;
use egret_dataplane::net::handshake::Secret;
use egret_dataplane::simulation::{Dice, Outcome, Weather, World};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long a topology may take to complete once everything is healed, in virtual time. Its slowest part is trees that
/// time out after up to 30 s, some of them several times.
const PATIENCE: Duration = Duration::from_secs(1800);

/// Turns of a run at most: several times what any needs. One that never ends without time passing would not be noticed
/// otherwise.
const MAX_TURNS: u64 = 50_000_000;

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
    /// How often the simulator chose who goes on.
    pub turns: u64,
}

/// Runs a scenario.
///
/// # Panics
/// When there is no folder for it.
#[must_use]
pub fn run(scenario: Scenario) -> Run {
    // In memory where that can be: a disk would be what most of the time is spent on.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let folder = folder.unwrap_or_else(|error| panic!("a folder for the simulation: {error}"));
    let scenario = Arc::new(scenario);
    let journal = Journal::new(&scenario);
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
    let faults = Faults::new(&scenario, &state, control.clone());
    let cluster = Cluster::new(World::new(scenario.seed), parts, scenario.seed);
    cluster.world().set_weather(Weather {
        min_delay: Duration::from_micros(20),
        max_delay: scenario.max_delay,
        pieces: scenario.has_faults,
        ..Weather::default()
    });
    let folder = folder.path().to_owned();
    let mut stage = Stage { scenario, journal, control, cluster, faults, folder, turns: 0 };
    stage.suffer();
    stage.complete();
    stage.conclude()
}

struct Stage {
    scenario: Arc<Scenario>,
    journal: Journal,
    control: Rc<SimControl>,
    cluster: Cluster,
    faults: Faults,
    /// The topology's work folder.
    folder: PathBuf,
    turns: u64,
}

impl Stage {
    fn now(&self) -> Duration {
        self.cluster.world().now()
    }

    /// Somebody goes on. Says whether nobody can before the deadline, or whether all this has taken too long.
    fn turn(&mut self, deadline: Duration) -> bool {
        self.turns += 1;
        if self.turns == MAX_TURNS {
            self.journal.violation(format!("not over after {MAX_TURNS} turns, at {:?}", self.now()));
        }
        self.cluster.turn(deadline) || self.turns >= MAX_TURNS
    }

    /// The time of the faults.
    fn suffer(&mut self) {
        let Scenario { has_faults, fault_time, .. } = *self.scenario;
        while self.now() < fault_time && !self.control.is_over() && self.turns < MAX_TURNS {
            let gap = if has_faults { self.faults.gap() } else { fault_time };
            let next = (self.now() + gap).min(fault_time);
            while !self.control.is_over() && !self.turn(next) {}
            if has_faults && next < fault_time && !self.control.is_over() {
                self.faults.strike(&mut self.cluster);
            }
        }
    }

    /// Everything is healed, and the topology completes.
    fn complete(&mut self) {
        let was_over = self.control.is_over();
        // An instance that comes back too late finds no stmgr any more; its executor ends it.
        let is_stmgr = |seat: &Seat| matches!(seat, Seat::Stmgr(_)) && self.cluster.process(*seat).is_some();
        let stmgrs: Vec<Seat> = self.cluster.seats().into_iter().filter(is_stmgr).collect();
        self.faults.heal(&self.cluster);
        let deadline = self.now() + PATIENCE;
        while !self.control.is_over() {
            if self.turn(deadline) {
                let (waited_s, done) = (PATIENCE.as_secs(), self.cluster.done());
                let what = format!("not complete {waited_s} s after all was healed; done: {done:?}");
                return self.journal.violation(format!("{what}; {}", self.journal.progress()));
            }
        }
        // Everyone else leaves, unless it was in the middle of a fault.
        let deadline = self.now() + Duration::from_secs(60);
        while !was_over && stmgrs.iter().any(|&seat| !self.cluster.is_done(seat)) {
            if self.turn(deadline) {
                let done = self.cluster.done();
                return self
                    .journal
                    .violation(format!("the tmaster has ended, and of all only these: {done:?}"));
            }
        }
        self.journal.conclude(&self.scenario, !self.scenario.has_faults, self.final_status().as_ref());
    }

    /// What the last tmaster wrote when it had seen the topology to its end.
    fn final_status(&self) -> Option<TopologyStatus> {
        let path = WorkDir::at(&self.folder).container(ContainerId(0)).final_status();
        serde_json::from_slice(&std::fs::read(path).ok()?).ok()
    }

    fn conclude(self) -> Run {
        for (seat, outcome) in self.cluster.crashes() {
            // A process that is refused or that gives up says so with its exit code; none may panic.
            if let Outcome::Panicked(what) = outcome {
                self.journal.violation(format!("{seat:?} panicked: {what}"));
            }
        }
        for panic in self.cluster.take_panics() {
            self.journal.violation(panic);
        }
        let Self { journal, cluster, faults, turns, .. } = self;
        let trace = cluster.world().trace() ^ journal.trace();
        let (took, executed) = (cluster.world().now(), journal.executed());
        drop(cluster);
        Run { violations: journal.violations(), log: faults.log, trace, took, executed, turns }
    }
}
