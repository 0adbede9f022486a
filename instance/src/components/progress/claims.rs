//! The progress of a task whose tuples are emitted at most once.

use super::Place;
use super::position_file::{PositionError, PositionFile};
use egret_dataplane::host;
use std::time::{Duration, Instant};

/// How long about one claim should last.
const CLAIM_TIME: Duration = Duration::from_millis(1);
/// The most places of one claim.
pub(super) const MAX_CLAIM: u64 = 64 << 10;

/// The places that this process alone may emit.
pub(in super::super) struct Claims<P> {
    file: PositionFile,
    /// Places before this one are claimed.
    end: P,
    size: u64,
    claimed: Instant,
}

impl<P: Place> Claims<P> {
    /// Without any, before `end`.
    pub(super) fn new(file: PositionFile, end: P) -> Self {
        Self { file, end, size: 1, claimed: host::now() }
    }

    /// A tuple from this place is about to be emitted.
    #[inline]
    pub(super) fn begin(&mut self, place: P) -> Result<(), PositionError> {
        if place < self.end { Ok(()) } else { self.claim(place) }
    }

    /// Claims this place and some more.
    #[cold]
    fn claim(&mut self, place: P) -> Result<(), PositionError> {
        let now = host::now();
        let soon = now.duration_since(self.claimed) < CLAIM_TIME;
        self.size = if soon { (self.size * 2).min(MAX_CLAIM) } else { 1 };
        self.claimed = now;
        let end = place.ahead(self.size);
        self.file.write(&end.words())?;
        self.end = end;
        Ok(())
    }

    /// Gives back what was claimed and not emitted. If that cannot be written, it is lost, as it may be.
    pub(super) fn close(&mut self, next: P) {
        if next < self.end && self.file.write(&next.words()).is_ok() {
            self.end = next;
        }
    }
}
