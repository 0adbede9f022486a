//! How much a task may emit: so many bytes a second (`topology.component.output.bps`).
//!
//! A token bucket, kept as the time until which everything emitted is paid for (the generic cell rate algorithm). It
//! is asked once per block, and what was not used is good for a tenth of a second.

use std::time::{Duration, Instant};

/// For how long what was not used may be caught up with.
const BURST: Duration = Duration::from_millis(100);

/// Decides from the times it is given; it has no clock of its own.
#[derive(Debug)]
pub(crate) struct Rate {
    bytes_per_s: u64,
    paid_until: Instant,
}

impl Rate {
    /// `bytes_per_s` from now on; more than 0.
    pub(crate) fn new(bytes_per_s: u64, now: Instant) -> Self {
        Self { bytes_per_s, paid_until: now }
    }

    /// So many bytes have been emitted.
    pub(crate) fn spend(&mut self, bytes: u32, now: Instant) {
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let price = Duration::from_secs_f64(f64::from(bytes) / self.bytes_per_s as f64);
        self.paid_until = self.paid_until.max(earliest) + price;
    }

    /// How long to wait before the next emission, if it is not due.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        Some(self.paid_until.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_kept_over_any_second_but_for_a_burst_and_a_block() {
        let start = Instant::now();
        let (mut now, mut rate, mut emitted) = (start, Rate::new(100_000, start), 0u64);
        for second in 1..=5u32 {
            let end = start + Duration::from_secs(second.into());
            while now < end {
                match rate.wait(now) {
                    Some(left) => now += left,
                    None => {
                        rate.spend(16_384, now);
                        emitted += 16_384;
                    }
                }
            }
            let due = u64::from(second) * 100_000;
            assert!((due..=due + 10_000 + 16_384).contains(&emitted), "{emitted} in {second} s");
        }
        // After a long rest a tenth of a second is caught up with.
        now += Duration::from_secs(60);
        let mut at_once = 0;
        while rate.wait(now).is_none() {
            rate.spend(1000, now);
            at_once += 1000;
        }
        assert_eq!(at_once, 10_000 + 1000);
    }
}
