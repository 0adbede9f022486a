//! Which number a task of a spout emits next, and when: numbers are shared by all tasks, paced by the clock.

use super::args::{ArgKind, ArgSpec};
use super::numbers::Range;
use std::time::{Duration, Instant};

/// How many numbers there are.
pub(super) const COUNT: ArgSpec = ArgSpec::optional(
    "count",
    ArgKind::Number(0, u64::MAX),
    "how many tuples, over all tasks; without it the spout never ends",
);

/// How many are due per second.
pub(super) const RATE: ArgSpec = ArgSpec::optional(
    "rate",
    ArgKind::Rate,
    "tuples per second over all tasks, by the clock whatever the topology does; as fast as possible without it",
);

/// Deals the numbers `0..count` to `tasks` tasks in turn and paces them at `rate` per second over all tasks.
///
/// The pace is an open loop: number `k` is due `k / rate` seconds after the start, however late earlier ones were, so a
/// topology that falls behind is not given fewer tuples.
#[derive(Debug)]
pub(super) struct Pace {
    next: u64,
    step: u64,
    end: u64,
    /// The number that is due at the start.
    first: u64,
    /// Per second; `None` is as fast as possible.
    rate: Option<f64>,
    start: Option<Instant>,
    /// Numbers below this were due when the clock was last read, so that it is not read for each of them.
    due: u64,
}

/// What a task does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Emits this number.
    Number(u64),
    /// Waits.
    Wait(Duration),
    /// Ends.
    Done,
}

impl Pace {
    /// The share of task `index` of `tasks`.
    pub(super) fn new(range: Range, index: u32, tasks: u32) -> Self {
        let end = range.count.unwrap_or(u64::MAX);
        Self { next: index.into(), step: tasks.into(), end, first: 0, rate: range.rate, start: None, due: 0 }
    }

    /// The same without the numbers before `first`, which is due at the start.
    #[must_use]
    pub(super) fn starting_at(mut self, first: u64) -> Self {
        let steps = first.saturating_sub(self.next).div_ceil(self.step);
        self.next = self.next.saturating_add(steps.saturating_mul(self.step));
        self.first = first;
        self
    }

    /// The next number, if there is one.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// The next turn; `clock` is read only when the answer depends on it.
    pub(super) fn turn(&mut self, clock: impl FnOnce() -> Instant) -> Turn {
        if self.next >= self.end {
            return Turn::Done;
        }
        if let Some(rate) = self.rate
            && self.next >= self.due
            && let Some(wait) = self.wait(rate, clock())
        {
            return Turn::Wait(wait);
        }
        let number = self.next;
        self.next = self.next.saturating_add(self.step);
        Turn::Number(number)
    }

    /// How long until `next` is due, or `None` when it is.
    fn wait(&mut self, rate: f64, now: Instant) -> Option<Duration> {
        let start = *self.start.get_or_insert(now);
        let elapsed = now.duration_since(start);
        let due = ((elapsed.as_secs_f64() * rate) as u64).saturating_add(1);
        self.due = self.first.saturating_add(due);
        if self.next < self.due {
            return None;
        }
        // A rate so low that the moment is beyond the clock's range just waits long, again and again.
        let after = self.next.saturating_sub(self.first) as f64;
        let at = Duration::try_from_secs_f64(after / rate).unwrap_or(Duration::MAX);
        Some(at.saturating_sub(elapsed).clamp(Duration::from_nanos(1), Duration::from_secs(3600)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(count: Option<u64>, rate: Option<f64>, index: u32, tasks: u32) -> Pace {
        Pace::new(Range { count, rate }, index, tasks)
    }

    fn all(count: u64, index: u32, tasks: u32) -> Vec<u64> {
        let mut pace = pace(Some(count), None, index, tasks);
        let mut numbers = Vec::new();
        while let Turn::Number(n) = pace.turn(|| panic!("no rate, no clock")) {
            numbers.push(n);
        }
        numbers
    }

    #[test]
    fn tasks_share_the_numbers_without_overlap() {
        for tasks in 1..5 {
            let mut numbers: Vec<_> = (0..tasks).flat_map(|i| all(10, i, tasks)).collect();
            numbers.sort_unstable();
            assert_eq!(numbers, (0..10).collect::<Vec<_>>());
        }
        assert!(all(2, 3, 4).is_empty());
        assert_eq!(pace(Some(0), None, 0, 1).turn(Instant::now), Turn::Done);
    }

    #[test]
    fn the_pace_is_an_open_loop_over_all_tasks() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut pace = pace(None, Some(1000.0), 1, 2);
        assert_eq!(pace.turn(|| at(0)), Turn::Wait(Duration::from_millis(1)));
        assert_eq!(pace.turn(|| at(1)), Turn::Number(1));
        // Ten milliseconds late: what became due meanwhile is caught up without a look at the clock.
        assert_eq!(pace.turn(|| at(10)), Turn::Number(3));
        for n in [5, 7, 9] {
            assert_eq!(pace.turn(|| panic!("known to be due")), Turn::Number(n));
        }
        assert_eq!(pace.turn(|| at(10)), Turn::Wait(Duration::from_millis(1)));
    }

    #[test]
    fn a_successor_keeps_its_share_and_does_not_catch_up() {
        for (first, next) in [(0, 1), (1, 1), (2, 4), (4, 4), (5, 7)] {
            assert_eq!(pace(None, None, 1, 3).starting_at(first).turn(Instant::now), Turn::Number(next));
        }
        assert_eq!(pace(Some(8), None, 1, 3).starting_at(8).turn(Instant::now), Turn::Done);
        assert_eq!(pace(None, None, 1, 3).starting_at(u64::MAX).turn(Instant::now), Turn::Done);
        let start = Instant::now();
        let mut paced = pace(None, Some(1000.0), 0, 1).starting_at(500);
        assert_eq!(paced.turn(|| start), Turn::Number(500));
        assert_eq!(paced.turn(|| start), Turn::Wait(Duration::from_millis(1)));
    }

    #[test]
    fn extreme_rates_do_not_overflow() {
        let mut slow = pace(None, Some(f64::MIN_POSITIVE), 1, 2);
        assert_eq!(slow.turn(Instant::now), Turn::Wait(Duration::from_secs(3600)));
        let mut fast = pace(None, Some(f64::MAX), 0, 1);
        assert_eq!(fast.turn(Instant::now), Turn::Number(0));
    }
}
