//! How many trees may be in flight: as many as complete well within the timeout.
//!
//! When a bolt is slow, tuples queue up before it. With more of them in the queue than it executes within the timeout, each
//! times out there and is replayed behind the others, and from then on the bolt executes nothing but tuples that were given
//! up already (STORM-2359). So the limit begins small and grows as TCP's window does in its slow start: by one with each
//! tree that completes within a quarter of the timeout, which doubles it in each round trip. Where latency is small it
//! is at `topology.max.spout.pending` after some round trips, and stays there; before a slow bolt it stops where a tuple
//! waits for a quarter of the timeout, or half.
//!
//! As with TCP it only grows while it is what holds the spout back (RFC 7661): one that has little to say would learn from short
//! queues that there is room for any number. And it grows no further than to what completed lately, in half of a timeout at most:
//! backpressure lets a queue run short time and again, and each time the trees that come first are quick.
//!
//! A tree may take long without any queue: the bolt keeps its tuples for a while. So a latency that is not much more than
//! the shortest one seen lets the limit grow too, and only trees that did time out shrink it: to half of what completes within
//! a timeout, at most once in a timeout.

/// Enough to learn the latency from, and little enough for a bolt that takes milliseconds.
const FIRST: u64 = 256;

/// Decides from the times it is given.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    max: u64,
    limit: u64,
    timeout_us: u64,
    /// The shortest latency so far.
    shortest_us: u64,
    /// Trees completed in this quarter of a timeout and the one before, and when this one began.
    quarter: u64,
    quarter_before: u64,
    quarter_since_us: u64,
    /// Trees completed since the limit shrank last, and when that was.
    completed: u64,
    since_us: u64,
}

impl Window {
    /// At most `max` trees, at least 1, that may each take `timeout_us`.
    #[must_use]
    pub fn new(max: u32, timeout_us: u64) -> Self {
        let max = u64::from(max.max(1));
        Self {
            max,
            limit: FIRST.min(max),
            timeout_us,
            shortest_us: u64::MAX,
            quarter: 0,
            quarter_before: 0,
            quarter_since_us: 0,
            completed: 0,
            since_us: 0,
        }
    }

    /// How many trees may be in flight now.
    #[inline]
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit as u32
    }

    /// So many trees completed now, each after this long; with them so many were in flight.
    #[inline]
    pub fn completed(&mut self, us: u64, trees: u64, in_flight: u64, now_us: u64) {
        self.completed += trees;
        self.count(trees, now_us);
        self.shortest_us = self.shortest_us.min(us);
        let is_used = self.limit <= 2 * in_flight;
        if is_used && us <= (self.timeout_us / 4).max(self.shortest_us.saturating_mul(2)) {
            let lately = self.quarter + self.quarter_before;
            self.limit = (self.limit + trees).min(lately.max(self.limit)).min(self.max);
        }
    }

    fn count(&mut self, trees: u64, now_us: u64) {
        let quarters = now_us.saturating_sub(self.quarter_since_us) / (self.timeout_us / 4).max(1);
        if quarters > 0 {
            self.quarter_before = if quarters == 1 { self.quarter } else { 0 };
            (self.quarter, self.quarter_since_us) = (0, now_us);
        }
        self.quarter += trees;
    }

    /// Trees timed out.
    pub fn timed_out(&mut self, now_us: u64) {
        let passed_us = now_us.saturating_sub(self.since_us);
        if passed_us >= self.timeout_us {
            let in_a_timeout =
                u128::from(self.completed) * u128::from(self.timeout_us) / u128::from(passed_us.max(1));
            self.limit = (u128::from(self.limit).min(in_a_timeout) as u64 / 2).max(1);
            (self.completed, self.since_us) = (0, now_us);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_trees_open_it_in_some_round_trips() {
        let mut window = Window::new(65_536, 30_000_000);
        assert_eq!(window.limit(), 256);
        for round in 0..9 {
            let all = u64::from(window.limit());
            window.completed(1000, all, all, 1000 * round);
        }
        assert_eq!(window.limit(), 65_536);
        assert_eq!(Window::new(10, 1).limit(), 10);
    }

    #[test]
    fn trees_that_wait_in_a_queue_do_not() {
        let mut window = Window::new(65_536, 4_000_000);
        window.completed(10, 300, 300, 10);
        assert_eq!(window.limit(), 300);
        window.completed(1_000_001, 1000, 1256, 20);
        assert_eq!(window.limit(), 300);
    }

    #[test]
    fn a_spout_that_is_held_back_by_something_else_learns_nothing() {
        let mut window = Window::new(65_536, 4_000_000);
        for _ in 0..1000 {
            window.completed(1000, 100, 100, 5);
        }
        assert_eq!(window.limit(), 256);
        window.completed(1000, 100, 128, 5);
        assert_eq!(window.limit(), 356);
    }

    /// A bolt that takes a millisecond a tuple, a timeout of 2 s, and a queue that runs short every 2 s.
    #[test]
    fn a_queue_that_runs_short_time_and_again_does_not_open_it() {
        let mut window = Window::new(65_536, 2_000_000);
        for second in (0..60).step_by(2) {
            for tree in 0..2000 {
                let now_us = (second * 1000 + tree) * 1000;
                let limit = u64::from(window.limit());
                window.completed((tree * 1000).min(limit * 1000), 1, limit, now_us);
            }
        }
        assert!(window.limit() <= 1000, "{} wait for {0} ms", window.limit());
    }

    #[test]
    fn a_bolt_that_keeps_its_tuples_is_no_queue() {
        let mut window = Window::new(65_536, 4_000_000);
        for burst in 1..=2 {
            window.completed(3_500_000, 256, 256, burst);
        }
        assert_eq!(window.limit(), 512);
    }

    #[test]
    fn timeouts_shrink_it_once_in_a_timeout() {
        let mut window = Window::new(65_536, 1_000_000);
        let mut completed = 0;
        for round in 0..9 {
            let all = u64::from(window.limit());
            window.completed(1000, all, all, 1000 * round);
            completed += all;
        }
        window.timed_out(10_000_000);
        assert_eq!(u64::from(window.limit()), completed / 10 / 2);
        window.timed_out(10_999_999);
        assert_eq!(u64::from(window.limit()), completed / 10 / 2);
        window.timed_out(11_000_000);
        assert_eq!(window.limit(), 1);
    }
}
