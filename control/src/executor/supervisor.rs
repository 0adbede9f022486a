//! When each process of a container is started, restarted, signalled and given up on: decisions only.
//!
//! | event | while running | while ending |
//! |---|---|---|
//! | tmaster or stmgr exits 0 | end: the topology is over | it is done |
//! | any other exit | a death: start again after a delay, or give up | it is done |
//! | a process cannot be started | a death | it is done |
//! | told to terminate | end | – |
//! | [`PATIENCE`] after the ending began | – | kill what is left |
//!
//! The delay doubles with each death in a row; a process that lived for [`STEADY`] begins a new row. Time is given as
//! the duration since the executor's start.

use crate::layout::ProcessName;
use egret_dataplane::ids::Incarnation;
use std::time::Duration;

/// A process that lived this long did not fail at its start.
pub(super) const STEADY: Duration = Duration::from_secs(30);
/// How long children get to end after they were asked to.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);
/// An instance that exits 0 is taken to end with its topology. When its stmgr, which waits for its instances no longer
/// than 3 s, has not ended by then, it is started again after all.
const ORDERLY_INSTANCE: Duration = Duration::from_secs(5);

/// How deaths are answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    /// Before the first restart in a row.
    pub(super) delay: Duration,
    /// What the delay grows to.
    pub(super) delay_max: Duration,
    /// After how many deaths in a row of one process the container fails; without it, never.
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
    starts: u32,
    deaths_in_a_row: u32,
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
    /// All processes are due at once.
    pub(super) fn new(names: Vec<ProcessName>, policy: Policy) -> Self {
        let life = Life::Waiting { until: Duration::ZERO };
        let process = |name| Process { name, life, starts: 0, deaths_in_a_row: 0 };
        Self { processes: names.into_iter().map(process).collect(), policy, ending: None }
    }

    pub(super) fn name(&self, index: usize) -> &ProcessName {
        &self.processes[index].name
    }

    /// Deaths of a process without a long life between them.
    pub(super) fn deaths_in_a_row(&self, index: usize) -> u32 {
        self.processes[index].deaths_in_a_row
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

    /// A process ended, or could not be started. `code` is its exit status unless a signal ended it.
    pub(super) fn exited(
        &mut self,
        index: usize,
        code: Option<i32>,
        now: Duration,
        effects: &mut Vec<Effect>,
    ) {
        let process = &mut self.processes[index];
        let Life::Running { since } = process.life else { return };
        process.life = Life::Done;
        if self.ending.is_some() {
            return;
        }
        let is_instance = matches!(process.name, ProcessName::Instance(..));
        if code == Some(0) && !is_instance {
            return self.end(Outcome::Completed, now, effects);
        }
        let steady = now.saturating_sub(since) >= STEADY;
        process.deaths_in_a_row = if steady { 1 } else { process.deaths_in_a_row.saturating_add(1) };
        let in_order = code == Some(0);
        // What is the end of the topology, as a rule, is no failure, whatever went before it; one more would be.
        let most = self.policy.give_up_after.map(|most| most + u32::from(in_order));
        if most.is_some_and(|most| process.deaths_in_a_row >= most) {
            return self.end(Outcome::GaveUp(index), now, effects);
        }
        let mut delay = self.policy.delay_after(process.deaths_in_a_row);
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

impl Policy {
    /// The delay after the `deaths`th death in a row.
    fn delay_after(&self, deaths: u32) -> Duration {
        let doublings = deaths.saturating_sub(1).min(31);
        self.delay.saturating_mul(1 << doublings).min(self.delay_max.max(self.delay))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use egret_dataplane::ids::TaskId;

    const SECOND: Duration = Duration::from_secs(1);

    fn supervisor(give_up_after: Option<u32>) -> Supervisor {
        let names = vec![ProcessName::Stmgr, ProcessName::Instance(TaskId(1), "a".to_owned())];
        let policy = Policy {
            delay: Duration::from_millis(100),
            delay_max: Duration::from_millis(700),
            give_up_after,
        };
        Supervisor::new(names, policy)
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
    fn the_delay_doubles_up_to_its_bound_and_a_long_life_resets_it() {
        let mut s = supervisor(None);
        let mut now = Duration::ZERO;
        effects(|e| s.tick(now, e));
        for (n, delay_ms) in (2..).zip([100, 200, 400, 700, 700]) {
            effects(|e| s.exited(1, None, now, e));
            assert_eq!(s.next_tick(), Some(now + Duration::from_millis(delay_ms)));
            now += Duration::from_millis(delay_ms);
            assert_eq!(effects(|e| s.tick(now, e)), [Effect::Spawn(1, Incarnation(n))]);
        }
        now += STEADY;
        effects(|e| s.exited(1, Some(101), now, e));
        assert_eq!(s.next_tick(), Some(now + Duration::from_millis(100)));
    }

    #[test]
    fn a_stmgr_that_exits_0_ends_the_container() {
        let mut s = supervisor(Some(3));
        effects(|e| s.tick(Duration::ZERO, e));
        assert_eq!(effects(|e| s.exited(0, Some(0), SECOND, e)), [Effect::Terminate(1)]);
        assert_eq!(s.outcome(), None);
        effects(|e| s.exited(1, None, SECOND, e));
        assert_eq!(s.outcome(), Some(Outcome::Completed));
    }

    #[test]
    fn an_instance_that_exits_0_leaves_its_stmgr_time_to_end() {
        let mut s = supervisor(Some(3));
        effects(|e| s.tick(Duration::ZERO, e));
        assert_eq!(effects(|e| s.exited(1, Some(0), SECOND, e)), []);
        assert_eq!(effects(|e| s.tick(SECOND + PATIENCE, e)), []);
        effects(|e| s.exited(0, Some(0), SECOND + PATIENCE, e));
        assert_eq!(s.outcome(), Some(Outcome::Completed));
    }

    #[test]
    fn three_deaths_in_a_row_are_enough_when_it_may_give_up() {
        let mut s = supervisor(Some(3));
        let mut now = Duration::ZERO;
        for _ in 0..2 {
            effects(|e| s.tick(now, e));
            assert_eq!(effects(|e| s.exited(1, Some(1), now, e)), []);
            now += SECOND;
        }
        effects(|e| s.tick(now, e));
        assert_eq!(effects(|e| s.exited(1, None, now, e)), [Effect::Terminate(0)]);
        effects(|e| s.exited(0, Some(0), now, e));
        assert_eq!(s.outcome(), Some(Outcome::GaveUp(1)));
    }

    #[test]
    fn an_orderly_exit_after_two_deaths_is_no_third_one() {
        let mut s = supervisor(Some(3));
        let mut now = Duration::ZERO;
        for code in [None, Some(1), Some(0)] {
            effects(|e| s.tick(now, e));
            assert_eq!(effects(|e| s.exited(1, code, now, e)), []);
            now += SECOND;
        }
        effects(|e| s.exited(0, Some(0), now, e));
        assert_eq!(s.outcome(), Some(Outcome::Completed));
    }

    #[test]
    fn an_instance_that_exits_0_again_and_again_is_given_up_on() {
        let mut s = supervisor(Some(3));
        let mut now = Duration::ZERO;
        for _ in 0..3 {
            effects(|e| s.tick(now, e));
            assert_eq!(effects(|e| s.exited(1, Some(0), now, e)), []);
            now += ORDERLY_INSTANCE;
        }
        effects(|e| s.tick(now, e));
        assert_eq!(effects(|e| s.exited(1, Some(0), now, e)), [Effect::Terminate(0)]);
        assert_eq!(s.gave_up_on(), Some(1));
    }

    #[test]
    fn what_does_not_end_when_asked_is_killed_once() {
        let mut s = supervisor(None);
        effects(|e| s.tick(Duration::ZERO, e));
        assert_eq!(effects(|e| s.terminate(SECOND, e)), [Effect::Terminate(0), Effect::Terminate(1)]);
        effects(|e| s.exited(1, None, SECOND, e));
        assert_eq!(s.next_tick(), Some(SECOND + PATIENCE));
        assert_eq!(effects(|e| s.tick(SECOND + PATIENCE, e)), [Effect::Kill(0)]);
        assert_eq!(effects(|e| s.tick(10 * SECOND, e)), []);
        assert_eq!(s.next_tick(), None);
        effects(|e| s.exited(0, None, 10 * SECOND, e));
        assert_eq!(s.outcome(), Some(Outcome::Terminated));
    }

    #[test]
    fn terminated_while_a_restart_is_due_it_starts_nothing_more() {
        let mut s = supervisor(None);
        effects(|e| s.tick(Duration::ZERO, e));
        effects(|e| s.exited(0, None, SECOND, e));
        effects(|e| s.exited(1, None, SECOND, e));
        effects(|e| s.terminate(SECOND, e));
        assert_eq!(s.outcome(), Some(Outcome::Terminated));
        assert_eq!(effects(|e| s.tick(10 * SECOND, e)), []);
    }
}
