//! How long to wait before something that died is started again: longer with each death in a row.

use egret_dataplane::plan::{Config, config};
use std::time::Duration;

/// What lived this long did not fail at its start: its next death begins a new row.
pub(crate) const STEADY: Duration = Duration::from_secs(30);

/// The delays before restarts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    /// Before the first restart in a row.
    pub(crate) delay: Duration,
    /// What the delay grows to.
    pub(crate) delay_max: Duration,
}

/// How often something died without a long life in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row(u32);

impl Backoff {
    /// What a topology is configured to.
    pub(crate) fn of(config: &Config) -> Self {
        let ms = |key| Duration::from_millis(config.number(key));
        Self { delay: ms(config::RESTART_DELAY_MS), delay_max: ms(config::RESTART_DELAY_MAX_MS) }
    }

    /// The delay after a row of deaths.
    pub(crate) fn after(&self, row: Row) -> Duration {
        let doublings = row.0.saturating_sub(1).min(31);
        self.delay.saturating_mul(1 << doublings).min(self.delay_max.max(self.delay))
    }
}

impl Row {
    /// One more death, after a life of this length.
    pub(crate) fn died(&mut self, lived: Duration) {
        self.0 = if lived >= STEADY { 1 } else { self.0.saturating_add(1) };
    }

    /// How many deaths it has.
    pub(crate) fn deaths(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_up_to_its_bound_and_a_long_life_resets_it() {
        let backoff = Backoff { delay: Duration::from_millis(100), delay_max: Duration::from_millis(700) };
        let mut row = Row::default();
        for delay_ms in [100, 200, 400, 700, 700] {
            row.died(STEADY / 2);
            assert_eq!(backoff.after(row), Duration::from_millis(delay_ms));
        }
        row.died(STEADY);
        assert_eq!(backoff.after(row), Duration::from_millis(100));
    }

    #[test]
    fn no_row_is_too_long() {
        let backoff = Backoff { delay: Duration::from_secs(600), delay_max: Duration::from_secs(3600) };
        let mut row = Row(u32::MAX - 1);
        (0..3).for_each(|_| row.died(Duration::ZERO));
        assert_eq!(backoff.after(row), Duration::from_secs(3600));
    }
}
