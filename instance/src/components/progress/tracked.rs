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
    /// How many new tuples there were.
    begun: u64,
    max_pending: u64,
    /// New tuples until the next look, and how many there were at the last one.
    left: u64,
    granted: u64,
    /// New tuples since the position was kept, as of the last look, and how many there may be.
    fresh: u64,
    max_fresh: u64,
    /// How many had been emitted, and how many were in flight, when it was kept.
    kept: (u64, usize),
    saved: Instant,
    looked: Instant,
    turns: u32,
    /// Where the spout stopped, once it has nothing new, and how many it had emitted then.
    rest: Option<(P, u64)>,
    warned: bool,
}

impl<P: Place> Tracked<P> {
    /// With these in flight at first, all to be replayed.
    pub(super) fn new(file: PositionFile, max_pending: u64, lost: impl Iterator<Item = P>) -> Self {
        let mut in_flight = InFlight::new(max_pending);
        lost.for_each(|place| in_flight.put_back(place));
        let now = host::now();
        Self {
            file,
            words: Vec::new(),
            kept: (0, in_flight.len()),
            in_flight,
            begun: 0,
            max_pending,
            left: 0,
            granted: 0,
            fresh: 0,
            // A position is kept before anything is emitted, so that there is one.
            max_fresh: 0,
            saved: now,
            looked: now,
            turns: 1,
            rest: None,
            warned: false,
        }
    }

    #[inline]
    pub(super) fn next_failed(&mut self) -> Option<P> {
        self.in_flight.next_failed()
    }

    /// A new tuple is about to be emitted.
    #[inline(always)]
    pub(super) fn begin(&mut self, place: P) {
        if self.left == 0 {
            self.look(place);
        }
        self.left -= 1;
        self.begun += 1;
    }

    /// A tuple was emitted, with this id.
    #[inline(always)]
    pub(super) fn emitted(&mut self, id: u64, place: P) {
        self.in_flight.put(id, place);
    }

    #[inline]
    pub(super) fn ack(&mut self, id: u64) -> Option<P> {
        let place = self.in_flight.remove(id);
        self.has_one_less();
        place
    }

    #[inline]
    pub(super) fn ack_all(&mut self, first: u64, mask: u64) {
        self.in_flight.remove_all(first, mask);
        self.has_one_less();
    }

    /// A tuple will not be emitted after all.
    pub(super) fn leave_out(&mut self, place: P) {
        self.in_flight.leave_out(place);
        self.has_one_less();
    }

    /// A tuple is left to a successor.
    #[cold]
    pub(super) fn keep(&mut self, place: P) {
        self.in_flight.keep(place);
    }

    /// A tuple could not be emitted for now.
    pub(super) fn put_back(&mut self, place: P) {
        self.in_flight.put_back(place);
    }

    #[inline]
    fn has_one_less(&mut self) {
        if let Some((rest, begun)) = self.rest
            && self.in_flight.len() == 0
            && begun == self.begun
        {
            self.save(rest);
        }
    }

    pub(super) fn fail(&mut self, id: u64) {
        self.in_flight.fail(id);
    }

    pub(super) fn rest(&mut self, next: P, ended: bool) {
        self.rest = ended.then_some((next, self.begun));
        if self.has_changed() && host::now().duration_since(self.saved) >= SAVE_INTERVAL {
            self.save(next);
        }
    }

    /// Whether something was emitted or acked since the position was kept.
    fn has_changed(&self) -> bool {
        self.kept != (self.begun, self.in_flight.len())
    }

    /// Keeps the position if it must be kept before one more new tuple, and grants some.
    #[cold]
    #[inline(never)]
    fn look(&mut self, next: P) {
        self.fresh += self.granted;
        self.granted = 0;
        if self.fresh >= self.max_fresh || self.is_old() {
            self.save(next);
        }
        self.granted = u64::from(self.turns).min(self.max_fresh - self.fresh);
        self.left = self.granted;
    }

    /// Looks at the clock: seldom when tuples are many.
    fn is_old(&mut self) -> bool {
        let now = host::now();
        let seldom = now.duration_since(self.looked) > SELDOM;
        self.turns = if seldom { 1 } else { (self.turns * 2).min(MAX_TURNS) };
        self.looked = now;
        self.has_changed() && now.duration_since(self.saved) >= SAVE_INTERVAL
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
        // What was granted and not emitted yet counts from now on.
        self.left = self.left.min(self.max_fresh);
        (self.fresh, self.granted) = (0, self.left);
        self.kept = (self.begun, self.in_flight.len());
        self.saved = host::now();
    }
}
