//! The progress of a task whose tuples are tracked.

use super::in_flight::InFlight;
use super::position_file::{MAX_WORDS, PositionFile};
use super::{PLACE_WORDS, Place};
use egret_dataplane::host;
use std::time::{Duration, Instant};

/// How many places in flight are kept beside the position.
pub(super) const MAX_HOLES: usize = MAX_WORDS / PLACE_WORDS - 1;
/// How old a kept position becomes while there is something new.
const SAVE_INTERVAL: Duration = Duration::from_millis(100);
/// Tuples that come more seldom than this all have the clock looked at.
const SELDOM: Duration = Duration::from_millis(1);
/// The most tuples between two looks at the clock.
const MAX_TURNS: u32 = 64;

/// What is in flight, and the position that is kept of it.
pub(in super::super) struct Tracked<P> {
    file: PositionFile,
    words: Vec<u64>,
    in_flight: InFlight<P>,
    max_pending: u64,
    /// New tuples since the position was kept, and how many there may be.
    fresh: u64,
    max_fresh: u64,
    /// Something was emitted or acked since.
    changed: bool,
    saved: Instant,
    looked: Instant,
    turns: u32,
    turns_left: u32,
    /// Where the spout stopped, once it has nothing new.
    rest: Option<P>,
    warned: bool,
}

impl<P: Place> Tracked<P> {
    /// With these in flight at first, all to be replayed.
    pub(super) fn new(file: PositionFile, max_pending: u64, lost: impl Iterator<Item = P>) -> Self {
        let mut in_flight = InFlight::new();
        for place in lost {
            let id = in_flight.push(place);
            in_flight.fail(id);
        }
        let now = host::now();
        Self {
            file,
            words: Vec::new(),
            in_flight,
            max_pending,
            fresh: 0,
            // A position is kept before anything is emitted, so that there is one.
            max_fresh: 0,
            changed: false,
            saved: now,
            looked: now,
            turns: 1,
            turns_left: 1,
            rest: None,
            warned: false,
        }
    }

    #[inline]
    pub(super) fn next_failed(&mut self) -> Option<(u32, P)> {
        self.in_flight.next_failed()
    }

    /// A new tuple is about to be emitted; its id.
    #[inline(always)]
    pub(super) fn begin(&mut self, place: P) -> u32 {
        if self.is_due() {
            self.save(place);
        }
        self.fresh += 1;
        self.changed = true;
        self.rest = None;
        self.in_flight.push(place)
    }

    #[inline]
    pub(super) fn ack(&mut self, id: u32) {
        self.in_flight.remove(id);
        self.changed = true;
        if self.in_flight.len() == 0
            && let Some(rest) = self.rest
        {
            self.save(rest);
        }
    }

    pub(super) fn fail(&mut self, id: u32) {
        self.in_flight.fail(id);
    }

    pub(super) fn rest(&mut self, next: P, ended: bool) {
        self.rest = ended.then_some(next);
        if self.changed && self.saved.elapsed() >= SAVE_INTERVAL {
            self.save(next);
        }
    }

    /// Whether the position must be kept before one more new tuple.
    #[inline]
    fn is_due(&mut self) -> bool {
        self.turns_left -= 1;
        let old = self.turns_left == 0 && self.is_old();
        self.fresh >= self.max_fresh || old
    }

    /// Looks at the clock: seldom when tuples are many.
    fn is_old(&mut self) -> bool {
        let now = host::now();
        let seldom = now.duration_since(self.looked) > SELDOM;
        self.turns = if seldom { 1 } else { (self.turns * 2).min(MAX_TURNS) };
        self.turns_left = self.turns;
        self.looked = now;
        self.changed && now.duration_since(self.saved) >= SAVE_INTERVAL
    }

    /// Keeps the position; `next` is the place of the next new tuple.
    #[cold]
    #[inline(never)]
    pub(super) fn save(&mut self, next: P) {
        let mut places = self.in_flight.iter();
        self.words.clear();
        self.words.extend(next.words());
        self.words.extend(places.by_ref().take(MAX_HOLES).flat_map(P::words));
        if let Some(place) = places.next() {
            self.words[..PLACE_WORDS].copy_from_slice(&place.words());
        }
        if let Err(error) = self.file.write(&self.words)
            && !std::mem::replace(&mut self.warned, true)
        {
            tracing::warn!("{error}; should this process die, tuples come again that were acked already");
        }
        // Emitting so many more makes no more than `max_pending` that would come twice, or little more.
        let room = self.max_pending.saturating_sub(self.in_flight.len() as u64);
        self.max_fresh = room.max(self.max_pending / 64).max(1);
        (self.fresh, self.changed, self.saved) = (0, false, host::now());
    }
}
