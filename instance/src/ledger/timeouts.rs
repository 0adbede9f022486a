//! When to look for trees that took too long.
//!
//! A look walks all pages, so there are few: the next one is when the oldest tree of the last look would time out, but
//! never within a twentieth of the timeout after the last one. While trees complete in time that is one look in a
//! timeout; a tree that does not is found at most a twentieth of the timeout late (or 10 ms, if that is more).
//!
//! A tree's time begins with the end of the turn that emitted it, but is stamped with its beginning, which is known when it
//! is emitted. So everything is given some slack, and a turn that takes longer than that is stamped once more at its end.

/// The shortest time between two looks.
const MIN_PERIOD_US: u64 = 10_000;
/// What a turn takes at most without being stamped again; a twentieth of the timeout if that is less.
const MAX_SLACK_US: u64 = 20_000;

/// Decides from the times it is given.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// The timeout and the slack.
    over_us: u64,
    slack_us: u64,
    period_us: u64,
    next_us: Option<u64>,
}

impl Timeouts {
    /// For trees that may take this long.
    #[must_use]
    pub fn new(timeout_us: u64) -> Self {
        let slack_us = (timeout_us / 20).min(MAX_SLACK_US);
        let period_us = (timeout_us / 20).max(MIN_PERIOD_US);
        Self { over_us: timeout_us + slack_us, slack_us, period_us, next_us: None }
    }

    /// Whether a turn that began then must be stamped again.
    #[inline]
    #[must_use]
    pub fn was_long(&self, began_us: u64, now_us: u64) -> bool {
        now_us.saturating_sub(began_us) > self.slack_us
    }

    /// Whether a tree stamped with this time is too old now. Never early.
    #[inline]
    #[must_use]
    pub fn is_over(&self, stamp_us: u64, now_us: u64) -> bool {
        now_us.saturating_sub(stamp_us) >= self.over_us
    }

    /// Trees were stamped with this time.
    #[inline]
    pub fn stamped(&mut self, stamp_us: u64) {
        if self.next_us.is_none() {
            self.next_us = Some(stamp_us + self.over_us);
        }
    }

    /// Whether it is time for a look.
    #[inline]
    #[must_use]
    pub fn is_due(&self, now_us: u64) -> bool {
        self.next_us.is_some_and(|next| now_us >= next)
    }

    /// A look was taken, and this is the oldest stamp of a tree that is left.
    pub fn looked(&mut self, now_us: u64, oldest_us: Option<u64>) {
        self.next_us = oldest_us.map(|oldest| (oldest + self.over_us).max(now_us + self.period_us));
    }

    /// When the next look is due, if something is in flight.
    #[must_use]
    pub fn next_us(&self) -> Option<u64> {
        self.next_us
    }
}
