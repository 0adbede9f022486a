//! When to look for trees that took too long.
//!
//! A look walks all slots, so there are few: the next one is when the oldest tree of the last look would time out, but
//! never within a twentieth of the timeout after the last one. While trees complete in time that is one look in a
//! timeout; a tree that does not is found at most a twentieth of the timeout late (or 10 ms, if that is more).

/// The shortest time between two looks.
const MIN_PERIOD_US: u64 = 10_000;

/// Decides from the times it is given.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    timeout_us: u64,
    period_us: u64,
    next_us: Option<u64>,
}

impl Timeouts {
    /// For trees that may take this long.
    #[must_use]
    pub fn new(timeout_us: u64) -> Self {
        Self { timeout_us, period_us: (timeout_us / 20).max(MIN_PERIOD_US), next_us: None }
    }

    /// Whether a tree emitted then is too old now. Never early.
    #[inline]
    #[must_use]
    pub fn is_over(&self, emitted_us: u64, now_us: u64) -> bool {
        now_us.saturating_sub(emitted_us) >= self.timeout_us
    }

    /// A tree was emitted, none before it that is not known.
    #[inline]
    pub fn emitted(&mut self, now_us: u64) {
        if self.next_us.is_none() {
            self.next_us = Some(now_us + self.timeout_us);
        }
    }

    /// Whether it is time for a look.
    #[inline]
    #[must_use]
    pub fn is_due(&self, now_us: u64) -> bool {
        self.next_us.is_some_and(|next| now_us >= next)
    }

    /// A look was taken, and this is when the oldest tree that is left was emitted.
    pub fn looked(&mut self, now_us: u64, oldest_us: Option<u64>) {
        self.next_us = oldest_us.map(|oldest| (oldest + self.timeout_us).max(now_us + self.period_us));
    }

    /// When the next look is due, if something is in flight.
    #[must_use]
    pub fn next_us(&self) -> Option<u64> {
        self.next_us
    }
}
