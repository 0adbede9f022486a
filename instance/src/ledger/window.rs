//! How many trees may be in flight: as many as complete well within the timeout.
//!
//! When a bolt is slow, tuples queue up before it. With more of them in the queue than it executes within the timeout, each
//! times out there and is replayed behind the others, and from then on the bolt executes nothing but tuples that were given
//! up already (STORM-2359). So the limit begins small and grows as TCP's window does in its slow start: by one with each
//! tree that completes within a quarter of the timeout, which doubles it in each round trip. Where latency is small it
//! is at `topology.max.spout.pending` after some round trips, and stays there; before a slow bolt it stops where a tuple
//! waits for a quarter of the timeout, or half.
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
    /// Trees completed since the limit shrank last, and when that was.
    completed: u64,
    since_us: u64,
}

impl Window {
    /// At most `max` trees, at least 1, that may each take `timeout_us`.
    #[must_use]
    pub fn new(max: u32, timeout_us: u64) -> Self {
        let max = u64::from(max.max(1));
        Self { max, limit: FIRST.min(max), timeout_us, shortest_us: u64::MAX, completed: 0, since_us: 0 }
    }

    /// How many trees may be in flight now.
    #[inline]
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit as u32
    }

    /// So many trees completed, each after this long.
    #[inline]
    pub fn completed(&mut self, us: u64, trees: u64) {
        self.completed += trees;
        self.shortest_us = self.shortest_us.min(us);
        if us <= (self.timeout_us / 4).max(self.shortest_us.saturating_mul(2)) {
            self.limit = (self.limit + trees).min(self.max);
        }
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
        for _ in 0..8 {
            window.completed(1000, u64::from(window.limit()));
        }
        assert_eq!(window.limit(), 65_536);
        assert_eq!(Window::new(10, 1).limit(), 10);
    }

    #[test]
    fn trees_that_wait_in_a_queue_do_not() {
        let mut window = Window::new(65_536, 4_000_000);
        window.completed(10, 1);
        window.completed(1_000_001, 1000);
        assert_eq!(window.limit(), 257);
    }

    #[test]
    fn a_bolt_that_keeps_its_tuples_is_no_queue() {
        let mut window = Window::new(65_536, 4_000_000);
        window.completed(3_500_000, 256);
        assert_eq!(window.limit(), 512);
    }

    #[test]
    fn timeouts_shrink_it_once_in_a_timeout() {
        let mut window = Window::new(65_536, 1_000_000);
        for _ in 0..8 {
            window.completed(1000, u64::from(window.limit()));
        }
        let completed = u64::from(window.limit()) - 256;
        window.timed_out(10_000_000);
        assert_eq!(u64::from(window.limit()), completed / 10 / 2);
        window.timed_out(10_999_999);
        assert_eq!(u64::from(window.limit()), completed / 10 / 2);
        window.timed_out(11_000_000);
        assert_eq!(window.limit(), 1);
    }
}
