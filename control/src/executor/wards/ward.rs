//! When an executor counts as dead, and when it is started again: decisions only.
//!
//! | it is | and then | it is |
//! |---|---|---|
//! | sought | found alive | watched |
//! | sought | found dead, for [`UNSEEN`] when it was never seen alive | due |
//! | sought | not to be found for [`START`], or, when it was seen alive and left in good order, for [`LEFT`] | due |
//! | watched | its process ends | sought, at once |
//! | due | started again | watched |
//! | due | somebody else was faster | sought |
//! | due | the topology has ended | over |
//!
//! Time is given as the duration since any fixed moment.

use crate::backoff::{Backoff, Row};
use crate::layout::ExecutorPresence;
use std::time::Duration;

/// A container that was left without an executor before this one looked may have been given a new one just now.
const UNSEEN: Duration = Duration::from_millis(300);
/// How long an executor may take from its start until it holds its container for the first time.
const START: Duration = Duration::from_secs(5);
/// A container ends in good order with its topology, which takes its last steps within this time. When it goes on
/// without that container, it needs it back.
const LEFT: Duration = Duration::from_secs(15);
/// How often an executor is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long to wait for somebody who starts, revives or ends the same topology.
const BUSY: Duration = Duration::from_millis(200);
/// How much later than the executor before it each executor acts that could.
const RANK: Duration = Duration::from_millis(300);

/// What the driver has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Nothing,
    /// Look whether the executor lives, and call `found` or `unknown`.
    Look,
    /// Start it again, and call `tried`.
    Revive,
}

/// What came of a try to start it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    Started { watched: bool },
    NotNeeded,
    Later,
    Failed,
    Over,
}

/// A death that was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoticedDeath {
    pub(super) delay: Duration,
    pub(super) in_a_row: u32,
}

#[derive(Clone, Copy, Debug)]
enum Life {
    Sought { since: Duration, look_at: Duration },
    Watched,
    Due { at: Duration },
    Over,
}

/// An executor that is looked after.
#[derive(Debug)]
pub(super) struct Ward {
    backoff: Backoff,
    life: Life,
    row: Row,
    /// Since when it lives, or lived, if it was ever seen alive.
    alive_since: Option<Duration>,
}

impl Ward {
    pub(super) fn new(backoff: Backoff) -> Self {
        let life = Life::Sought { since: Duration::ZERO, look_at: Duration::ZERO };
        Self { backoff, life, row: Row::default(), alive_since: None }
    }

    /// When `step` is due next.
    pub(super) fn due(&self) -> Option<Duration> {
        match self.life {
            Life::Sought { look_at: at, .. } | Life::Due { at } => Some(at),
            Life::Watched | Life::Over => None,
        }
    }

    /// What is to be done now.
    pub(super) fn step(&self, now: Duration) -> Step {
        match self.life {
            Life::Sought { look_at, .. } if look_at <= now => Step::Look,
            Life::Due { at } if at <= now => Step::Revive,
            _ => Step::Nothing,
        }
    }

    /// The process that was watched has ended.
    pub(super) fn gone(&mut self, now: Duration) {
        if matches!(self.life, Life::Watched) {
            self.seek(now);
        }
    }

    /// It could not be told whether it lives.
    pub(super) fn unknown(&mut self, now: Duration) {
        if let Life::Sought { look_at, .. } = &mut self.life {
            *look_at = now + LOOK_EVERY;
        }
    }

    /// How it was found; says so when that is a death. `rank` executors are to act before this one.
    pub(super) fn found(
        &mut self,
        presence: ExecutorPresence,
        rank: u32,
        now: Duration,
    ) -> Option<NoticedDeath> {
        let Life::Sought { since, .. } = self.life else { return None };
        let patience = match (presence, self.alive_since.is_some()) {
            (ExecutorPresence::Lives, _) => {
                self.alive_since = Some(now);
                self.life = Life::Watched;
                return None;
            }
            (ExecutorPresence::Died, true) => Duration::ZERO,
            (ExecutorPresence::Absent, true) => LEFT,
            (ExecutorPresence::Died, false) => UNSEEN,
            (ExecutorPresence::Absent, false) => START,
        };
        if now.saturating_sub(since) < patience {
            self.unknown(now);
            return None;
        }
        self.row.died(self.alive_since.map_or(Duration::ZERO, |alive| since.saturating_sub(alive)));
        let delay = self.backoff.after(self.row) + RANK * rank;
        self.life = Life::Due { at: now + delay };
        Some(NoticedDeath { delay, in_a_row: self.row.deaths() })
    }

    /// What came of a try to start it again.
    pub(super) fn tried(&mut self, attempt: Attempt, now: Duration) {
        match attempt {
            Attempt::Started { watched: true } => {
                self.alive_since = Some(now);
                self.life = Life::Watched;
            }
            Attempt::Started { watched: false } => {
                self.alive_since = Some(now);
                self.seek(now);
            }
            Attempt::NotNeeded => self.seek(now),
            Attempt::Later => self.life = Life::Due { at: now + BUSY },
            Attempt::Failed => {
                self.row.died(Duration::ZERO);
                self.life = Life::Due { at: now + self.backoff.after(self.row) };
            }
            Attempt::Over => self.life = Life::Over,
        }
    }

    fn seek(&mut self, now: Duration) {
        self.life = Life::Sought { since: now, look_at: now };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ExecutorPresence::{Absent, Died, Lives};

    const SECOND: Duration = Duration::from_secs(1);
    const MS: Duration = Duration::from_millis(1);

    fn ward() -> Ward {
        Ward::new(Backoff { delay: 100 * MS, delay_max: 30 * SECOND })
    }

    /// One that was seen alive, at second 1.
    fn alive() -> Ward {
        let mut ward = ward();
        assert_eq!(ward.step(SECOND), Step::Look);
        assert_eq!(ward.found(Lives, 0, SECOND), None);
        assert_eq!((ward.step(9 * SECOND), ward.due()), (Step::Nothing, None));
        ward
    }

    #[test]
    fn a_death_is_answered_after_a_delay_that_grows() {
        let mut ward = alive();
        let mut now = 2 * SECOND;
        for (n, delay) in (1..).zip([100 * MS, 200 * MS, 400 * MS]) {
            ward.gone(now);
            assert_eq!(ward.step(now), Step::Look);
            assert_eq!(ward.found(Died, 0, now), Some(NoticedDeath { delay, in_a_row: n }));
            assert_eq!(ward.step(now), Step::Nothing);
            now += delay;
            assert_eq!(ward.step(now), Step::Revive);
            ward.tried(Attempt::Started { watched: true }, now);
            assert_eq!(ward.step(now + SECOND), Step::Nothing);
        }
    }

    #[test]
    fn a_long_life_begins_a_new_row() {
        let mut ward = alive();
        ward.gone(2 * SECOND);
        ward.found(Died, 0, 2 * SECOND);
        ward.tried(Attempt::Started { watched: true }, 3 * SECOND);
        ward.gone(40 * SECOND);
        let death = ward.found(Died, 0, 40 * SECOND).unwrap();
        assert_eq!((death.in_a_row, death.delay), (1, 100 * MS));
    }

    #[test]
    fn the_lowest_living_executor_acts_first() {
        let mut delays = Vec::new();
        for rank in 0..3 {
            let mut ward = alive();
            ward.gone(2 * SECOND);
            delays.push(ward.found(Died, rank, 2 * SECOND).unwrap().delay);
        }
        assert_eq!(delays, [100 * MS, 400 * MS, 700 * MS]);
    }

    #[test]
    fn one_that_left_in_good_order_is_missed_only_when_the_topology_goes_on() {
        let mut ward = alive();
        ward.gone(2 * SECOND);
        assert_eq!(ward.found(Absent, 0, 2 * SECOND), None);
        assert_eq!(ward.due(), Some(2 * SECOND + LOOK_EVERY));
        assert!(ward.found(Absent, 0, 2 * SECOND + LEFT).is_some());
    }

    #[test]
    fn one_that_was_never_seen_gets_time_to_start() {
        for (presence, patience) in [(Absent, START), (Died, UNSEEN)] {
            let mut ward = ward();
            assert_eq!(ward.found(presence, 0, patience / 2), None);
            assert!(ward.found(presence, 0, patience).is_some());
        }
    }

    #[test]
    fn when_another_was_faster_its_executor_is_looked_for() {
        let mut ward = alive();
        ward.gone(2 * SECOND);
        ward.found(Died, 1, 2 * SECOND);
        ward.tried(Attempt::Later, 3 * SECOND);
        assert_eq!(ward.due(), Some(3 * SECOND + BUSY));
        ward.tried(Attempt::NotNeeded, 4 * SECOND);
        assert_eq!(ward.step(4 * SECOND), Step::Look);
        ward.found(Lives, 0, 4 * SECOND);
        assert_eq!(ward.due(), None);
    }

    #[test]
    fn nothing_is_revived_of_a_topology_that_is_over() {
        let mut ward = alive();
        ward.gone(2 * SECOND);
        ward.found(Died, 0, 2 * SECOND);
        ward.tried(Attempt::Over, 3 * SECOND);
        assert_eq!((ward.due(), ward.step(99 * SECOND)), (None, Step::Nothing));
    }
}
