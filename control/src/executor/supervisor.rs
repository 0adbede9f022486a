//! When each process of a container is started, restarted, signalled and given up on: decisions only.
//!
//! | event | while running | while ending |
//! |---|---|---|
//! | tmaster or stmgr exits 0 | end: the topology is over | it is done |
//! | any other exit | a death: start again after a delay, or give up | it is done |
//! | a process cannot be started | a death | it is done |
//! | told to terminate, or the topology is found to be over | end | – |
//! | [`PATIENCE`] after the ending began | – | kill what is left |
//!
//! The delay grows with each death in a row, as [`Backoff`] says. A process that was killed from outside (SIGKILL) did not
//! fail by itself: such deaths count for the delay, but not for giving up. Time is given as the duration since the
//! executor's start.

use crate::backoff::{Backoff, Row, STEADY};
use crate::layout::ProcessName;
use egret_dataplane::ids::Incarnation;
use std::time::Duration;

/// How long children get to end after they were asked to.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);
/// An instance that exits 0 is taken to end with its topology. When its stmgr, which waits for its instances no longer
/// than 3 s, has not ended by then, it is started again after all.
const ORDERLY_INSTANCE: Duration = Duration::from_secs(5);

/// How deaths are answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    /// The pauses before restarts.
    pub(super) backoff: Backoff,
    /// After how many failures in a row of one process the container fails; without it, never.
    pub(super) give_up_after: Option<u32>,
}

/// What the driver has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Start the process at this position; then say `started` or `exited`.
    Spawn(usize, Incarnation),
    /// Ask it to end.
    Terminate(usize),
    /// Force it to end.
    Kill(usize),
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With exit status 0.
    Orderly,
    /// By its own doing, or it could not be started.
    Failed,
    /// Somebody sent it SIGKILL.
    Killed,
}

/// Why a container ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Its topology is over.
    Completed,
    /// The executor was told to end.
    Terminated,
    /// The process at this position died too often.
    GaveUp(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Waiting { until: Duration },
    Running { since: Duration },
    Done,
}

#[derive(Debug)]
struct Process {
    name: ProcessName,
    life: Life,
    /// Over all executors of the container.
    starts: u32,
    deaths: Row,
    /// The deaths of that row that were its own doing.
    failures: Row,
}

#[derive(Clone, Copy, Debug)]
struct Ending {
    outcome: Outcome,
    kill_at: Duration,
    killed: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Supervisor {
    processes: Vec<Process>,
    policy: Policy,
    ending: Option<Ending>,
}

impl Supervisor {
    /// All processes are due at once. Each comes with how often it was started by the executors before this one.
    pub(super) fn new(processes: Vec<(ProcessName, u32)>, policy: Policy) -> Self {
        let life = Life::Waiting { until: Duration::ZERO };
        let (deaths, failures) = (Row::default(), Row::default());
        let process = |(name, starts)| Process { name, life, starts, deaths, failures };
        Self { processes: processes.into_iter().map(process).collect(), policy, ending: None }
    }

    pub(super) fn name(&self, index: usize) -> &ProcessName {
        &self.processes[index].name
    }

    /// Failures of a process without a long life between them.
    pub(super) fn failures_in_a_row(&self, index: usize) -> u32 {
        self.processes[index].failures.deaths()
    }

    /// Whether the container is ending.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// How long the process at this position waits for its restart yet.
    pub(super) fn waits(&self, index: usize, now: Duration) -> Option<Duration> {
        match self.processes[index].life {
            Life::Waiting { until } => Some(until.saturating_sub(now)),
            _ => None,
        }
    }

    /// What is due by now.
    pub(super) fn tick(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        if let Some(ending) = &mut self.ending {
            if now >= ending.kill_at && !ending.killed {
                ending.killed = true;
                effects.extend(self.running().map(Effect::Kill));
            }
            return;
        }
        for (index, process) in self.processes.iter_mut().enumerate() {
            if matches!(process.life, Life::Waiting { until } if until <= now) {
                process.starts += 1;
                process.life = Life::Running { since: now };
                effects.push(Effect::Spawn(index, Incarnation(process.starts)));
            }
        }
    }

    /// When `tick` is due next, if it is.
    pub(super) fn next_tick(&self) -> Option<Duration> {
        if let Some(ending) = self.ending {
            return (!ending.killed).then_some(ending.kill_at);
        }
        let waiting = self.processes.iter().filter_map(|p| match p.life {
            Life::Waiting { until } => Some(until),
            _ => None,
        });
        waiting.min()
    }

    /// A process ended, or could not be started.
    pub(super) fn exited(&mut self, index: usize, end: End, now: Duration, effects: &mut Vec<Effect>) {
        let process = &mut self.processes[index];
        let Life::Running { since } = process.life else { return };
        process.life = Life::Done;
        if self.ending.is_some() {
            return;
        }
        let is_instance = matches!(process.name, ProcessName::Instance(..));
        if end == End::Orderly && !is_instance {
            return self.end(Outcome::Completed, now, effects);
        }
        let lived = now.saturating_sub(since);
        process.deaths.died(lived);
        if lived >= STEADY {
            process.failures = Row::default();
        }
        let in_order = end == End::Orderly;
        if end != End::Killed {
            process.failures.died(lived);
            // What is the end of the topology, as a rule, is no failure, whatever went before it; one more would be.
            let most = self.policy.give_up_after.map(|most| most + u32::from(in_order));
            if most.is_some_and(|most| process.failures.deaths() >= most) {
                return self.end(Outcome::GaveUp(index), now, effects);
            }
        }
        let mut delay = self.policy.backoff.after(process.deaths);
        if in_order {
            delay = delay.max(ORDERLY_INSTANCE);
        }
        process.life = Life::Waiting { until: now + delay };
    }

    /// The executor was told to end.
    pub(super) fn terminate(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        if self.ending.is_none() {
            self.end(Outcome::Terminated, now, effects);
        }
    }

    /// The topology was found to be over.
    pub(super) fn complete(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        if self.ending.is_none() {
            self.end(Outcome::Completed, now, effects);
        }
    }

    /// Why it ended, once no process is left.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        let ending = self.ending?;
        self.running().next().is_none().then_some(ending.outcome)
    }

    /// The process that died too often.
    pub(super) fn gave_up_on(&self) -> Option<usize> {
        match self.ending?.outcome {
            Outcome::GaveUp(index) => Some(index),
            _ => None,
        }
    }

    fn end(&mut self, outcome: Outcome, now: Duration, effects: &mut Vec<Effect>) {
        self.ending = Some(Ending { outcome, kill_at: now + PATIENCE, killed: false });
        effects.extend(self.running().map(Effect::Terminate));
    }

    fn running(&self) -> impl Iterator<Item = usize> + '_ {
        let all = self.processes.iter().enumerate();
        all.filter(|(_, p)| matches!(p.life, Life::Running { .. })).map(|(index, _)| index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use egret_dataplane::ids::TaskId;

    const SECOND: Duration = Duration::from_secs(1);

    fn supervisor(give_up_after: Option<u32>) -> Supervisor {
        let names = [ProcessName::Stmgr, ProcessName::Instance(TaskId(1), "a".to_owned())];
        let backoff = Backoff { delay: Duration::from_millis(100), delay_max: Duration::from_millis(700) };
        Supervisor::new(names.map(|name| (name, 0)).into(), Policy { backoff, give_up_after })
    }

    fn effects(act: impl FnOnce(&mut Vec<Effect>)) -> Vec<Effect> {
        let mut effects = Vec::new();
        act(&mut effects);
        effects
    }

    #[test]
    fn everything_starts_at_once() {
        let mut s = supervisor(None);
        let started = effects(|e| s.tick(Duration::ZERO, e));
        assert_eq!(started, [Effect::Spawn(0, Incarnation(1)), Effect::Spawn(1, Incarnation(1))]);
        assert_eq!(effects(|e| s.tick(SECOND, e)), []);
        assert_eq!(s.next_tick(), None);
    }

    #[test]
    fn each_restart_is_a_new_incarnation_after_a_longer_delay() {
        let mut s = supervisor(None);
        let mut now = Duration::ZERO;
        effects(|e| s.tick(now, e));
        for (n, delay_ms) in (2..).zip([100, 200, 400, 700, 700]) {
            effects(|e| s.exited(1, if n % 2 == 0 { End::Failed } else { End::Killed }, now, e));
            assert_eq!(s.next_tick(), Some(now + Duration::from_millis(delay_ms)));
            now += Duration::from_millis(delay_ms);
            assert_eq!(effects(|e| s.tick(now, e)), [Effect::Spawn(1, Incarnation(n))]);
        }
    }

    #[test]
    fn incarnations_go_on_from_those_of_the_executor_before() {
        let policy = supervisor(None).policy;
        let mut s = Supervisor::new(vec![(ProcessName::Stmgr, 7)], policy);
        assert_eq!(effects(|e| s.tick(SECOND, e)), [Effect::Spawn(0, Incarnation(8))]);
    }

    #[test]
    fn a_process_that_is_killed_from_outside_is_not_given_up_on() {
        let mut s = supervisor(Some(3));
        let mut now = Duration::ZERO;
        for _ in 0..10 {
            effects(|e| s.tick(now, e));
            assert_eq!(effects(|e| s.exited(1, End::Killed, now, e)), []);
            now += SECOND;
        }
        assert_eq!(s.failures_in_a_row(1), 0);
    }

    #[test]
    fn a_stmgr_that_exits_0_ends_the_container() {
        let mut s = supervisor(Some(3));
        effects(|e| s.tick(Duration::ZERO, e));
        assert_eq!(effects(|e| s.exited(0, End::Orderly, SECOND, e)), [Effect::Terminate(1)]);
        assert_eq!(s.outcome(), None);
        effects(|e| s.exited(1, End::Failed, SECOND, e));
        assert_eq!(s.outcome(), Some(Outcome::Completed));
    }

    #[test]
    fn an_instance_that_exits_0_leaves_its_stmgr_time_to_end() {
        let mut s = supervisor(Some(3));
        effects(|e| s.tick(Duration::ZERO, e));
        assert_eq!(effects(|e| s.exited(1, End::Orderly, SECOND, e)), []);
        assert_eq!(effects(|e| s.tick(SECOND + PATIENCE, e)), []);
        effects(|e| s.exited(0, End::Orderly, SECOND + PATIENCE, e));
        assert_eq!(s.outcome(), Some(Outcome::Completed));
    }

    #[test]
    fn three_deaths_in_a_row_are_enough_when_it_may_give_up() {
        let mut s = supervisor(Some(3));
        let mut now = Duration::ZERO;
        for _ in 0..2 {
            effects(|e| s.tick(now, e));
            assert_eq!(effects(|e| s.exited(1, End::Failed, now, e)), []);
            now += SECOND;
        }
        effects(|e| s.tick(now, e));
        assert_eq!(effects(|e| s.exited(1, End::Failed, now, e)), [Effect::Terminate(0)]);
        effects(|e| s.exited(0, End::Orderly, now, e));
        assert_eq!(s.outcome(), Some(Outcome::GaveUp(1)));
    }

    #[test]
    fn an_orderly_exit_after_two_deaths_is_no_third_one() {
        let mut s = supervisor(Some(3));
        let mut now = Duration::ZERO;
        for end in [End::Failed, End::Failed, End::Orderly] {
            effects(|e| s.tick(now, e));
            assert_eq!(effects(|e| s.exited(1, end, now, e)), []);
            now += SECOND;
        }
        effects(|e| s.exited(0, End::Orderly, now, e));
        assert_eq!(s.outcome(), Some(Outcome::Completed));
    }

    #[test]
    fn an_instance_that_exits_0_again_and_again_is_given_up_on() {
        let mut s = supervisor(Some(3));
        let mut now = Duration::ZERO;
        for _ in 0..3 {
            effects(|e| s.tick(now, e));
            assert_eq!(effects(|e| s.exited(1, End::Orderly, now, e)), []);
            now += ORDERLY_INSTANCE;
        }
        effects(|e| s.tick(now, e));
        assert_eq!(effects(|e| s.exited(1, End::Orderly, now, e)), [Effect::Terminate(0)]);
        assert_eq!(s.gave_up_on(), Some(1));
    }

    #[test]
    fn what_does_not_end_when_asked_is_killed_once() {
        let mut s = supervisor(None);
        effects(|e| s.tick(Duration::ZERO, e));
        assert_eq!(effects(|e| s.terminate(SECOND, e)), [Effect::Terminate(0), Effect::Terminate(1)]);
        effects(|e| s.exited(1, End::Failed, SECOND, e));
        assert_eq!(s.next_tick(), Some(SECOND + PATIENCE));
        assert_eq!(effects(|e| s.tick(SECOND + PATIENCE, e)), [Effect::Kill(0)]);
        assert_eq!(effects(|e| s.tick(10 * SECOND, e)), []);
        assert_eq!(s.next_tick(), None);
        effects(|e| s.exited(0, End::Failed, 10 * SECOND, e));
        assert_eq!(s.outcome(), Some(Outcome::Terminated));
    }

    #[test]
    fn terminated_while_a_restart_is_due_it_starts_nothing_more() {
        let mut s = supervisor(None);
        effects(|e| s.tick(Duration::ZERO, e));
        effects(|e| s.exited(0, End::Failed, SECOND, e));
        effects(|e| s.exited(1, End::Failed, SECOND, e));
        effects(|e| s.terminate(SECOND, e));
        assert_eq!(s.outcome(), Some(Outcome::Terminated));
        assert_eq!(effects(|e| s.tick(10 * SECOND, e)), []);
    }
}
