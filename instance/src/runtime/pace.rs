//! When to look at the clock, and when to flush.
//!
//! Looking at the clock costs more than a small tuple does, so a task does it once in some calls of user code: in as many
//! as take an eighth of the flush interval, as far as the last ones tell.

use std::time::{Duration, Instant};

/// The most calls between two looks: what a component that turns slow all of a sudden can be late by.
const MAX_TURNS: u32 = 64;

/// Decides from the times it is given; it has no clock of its own.
#[derive(Debug)]
pub(crate) struct Pace {
    interval: Duration,
    turns: u32,
    last_look: Instant,
    /// When tuples were first seen waiting in an open block.
    waiting_since: Option<Instant>,
}

impl Pace {
    pub(crate) fn new(flush_interval: Duration, now: Instant) -> Self {
        Self { interval: flush_interval, turns: 1, last_look: now, waiting_since: None }
    }

    /// How many calls to make before the next look.
    #[inline]
    pub(crate) fn turns(&self) -> u32 {
        self.turns
    }

    /// Whether the last calls were so quick that there is no need to look after each few.
    #[inline]
    pub(crate) fn is_quick(&self) -> bool {
        self.turns == MAX_TURNS
    }

    /// Takes a look after [`turns`](Self::turns) calls; whether it is time to flush, if something `waits`.
    #[inline]
    pub(crate) fn look(&mut self, now: Instant, waits: bool) -> bool {
        let took = now.saturating_duration_since(self.last_look);
        self.last_look = now;
        self.turns = if took > self.interval / 8 { 1 } else { (self.turns * 2).min(MAX_TURNS) };
        if !waits {
            self.waiting_since = None;
            return false;
        }
        // What waits now may have begun to wait right after the last look.
        let since = *self.waiting_since.get_or_insert(now - took);
        now.saturating_duration_since(since) >= self.interval
    }

    /// Everything has been flushed.
    pub(crate) fn flushed(&mut self) {
        self.waiting_since = None;
    }

    /// The task has waited: that time says nothing about its calls.
    pub(crate) fn waited(&mut self, now: Instant) {
        self.last_look = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn quick_calls_are_looked_at_seldom_and_slow_ones_each_time() {
        let mut now = Instant::now();
        let mut pace = Pace::new(10 * MS, now);
        for _ in 0..10 {
            now += MS / 100;
            assert!(!pace.look(now, true) || pace.turns() == MAX_TURNS);
        }
        assert_eq!(pace.turns(), MAX_TURNS);
        now += 2 * MS;
        let _ = pace.look(now, false);
        assert_eq!(pace.turns(), 1);
    }

    #[test]
    fn what_waits_is_flushed_after_the_interval() {
        let start = Instant::now();
        let mut pace = Pace::new(10 * MS, start);
        assert!(!pace.look(start + 4 * MS, true));
        assert!(!pace.look(start + 9 * MS, true));
        assert!(pace.look(start + 10 * MS, true));
        pace.flushed();
        assert!(!pace.look(start + 12 * MS, true));
    }
}
