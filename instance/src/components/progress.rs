//! How far a spout has come: what is in flight, what is to be replayed, and where its successor goes on.
//!
//! In `ATLEAST_ONCE` the position that is kept is the place before which everything is acked, and beside it the first
//! places in flight: a successor replays those and goes on from the one after them. It is written at the latest when so
//! much has been emitted since that more than `topology.max.spout.pending` (and a 64th of it) would come twice, a tenth
//! of a second after something changed, and when the spout rests.
//!
//! In `ATMOST_ONCE` the position is written *before* what it covers is emitted, for as many places at once as the spout
//! emits in about a millisecond: a successor goes on behind them, so nothing is ever emitted twice.

use super::in_flight::InFlight;
use super::position_file::{MAX_WORDS, PositionError, PositionFile};
use crate::collector::{Payload, SpoutEmission};
use crate::{Context, Error};
use egret_dataplane::plan::config;
use std::time::{Duration, Instant};

/// Where a tuple comes from. Places are ordered as they are emitted.
pub(super) trait Place: Copy + Ord {
    /// The place as numbers.
    fn words(self) -> [u64; PLACE_WORDS];
    /// The place that these numbers stand for.
    fn of_words(words: [u64; PLACE_WORDS]) -> Self;
    /// The first place that is not one of the next `count` from here.
    fn ahead(self, count: u64) -> Self;
}

const PLACE_WORDS: usize = 3;
/// How many places in flight are kept beside the position.
const MAX_HOLES: usize = MAX_WORDS / PLACE_WORDS - 1;
/// How old a kept position becomes while there is something new.
const SAVE_INTERVAL: Duration = Duration::from_millis(100);
/// How long about one claim should last.
const CLAIM_TIME: Duration = Duration::from_millis(1);
const MAX_CLAIM: u64 = 64 << 10;
/// The most tuples between two looks at the clock.
const MAX_TURNS: u32 = 64;

/// How far a spout's task has come.
pub(super) struct Progress<P> {
    file: PositionFile,
    promise: Promise<P>,
    words: Vec<u64>,
}

enum Promise<P> {
    AtLeastOnce(Tracked<P>),
    AtMostOnce(Claims<P>),
}

struct Tracked<P> {
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

struct Claims<P> {
    /// Places before this one may be emitted.
    end: P,
    size: u64,
    claimed: Instant,
}

/// Where a task begins.
pub(super) struct Start<P> {
    /// The place of the first new tuple.
    pub(super) place: P,
    /// What the task's first process set up.
    pub(super) setup: Vec<u8>,
    /// An earlier process has left it; what that had in flight is replayed first.
    pub(super) resumed: bool,
}

/// Whether the topology tracks its tuples.
pub(super) fn is_tracked(context: &Context) -> bool {
    context.config().is(config::RELIABILITY_MODE, "ATLEAST_ONCE")
}

impl<P: Place> Progress<P> {
    /// Goes on from where an earlier process of the task was, or begins at `first` with what `setup` gives. `kind` says
    /// what the task does; a position of a task that did something else is of no use.
    ///
    /// When a position file cannot be used, `ATLEAST_ONCE` begins anew with a warning, since it rather repeats; for
    /// `ATMOST_ONCE`, which must not, it is an error.
    pub(super) fn open(
        context: &Context,
        kind: &str,
        first: P,
        setup: impl FnOnce() -> Result<Vec<u8>, Error>,
    ) -> Result<(Self, Start<P>), Error> {
        let path = context.container_dir().join(format!("task-{}.position", context.task()));
        let tracked = is_tracked(context);
        let earlier = match PositionFile::open(&path, kind) {
            Err(error @ PositionError::Unusable { .. }) if tracked => {
                tracing::warn!("{error}, so tuples come again");
                None
            }
            earlier => earlier?,
        };
        let (file, setup, words) = match earlier {
            Some((file, saved)) => (file, saved.setup, saved.position),
            None => {
                let setup = setup()?;
                (PositionFile::create(&path, kind, &setup)?, setup, None)
            }
        };
        let mut places =
            words.as_deref().unwrap_or_default().as_chunks::<PLACE_WORDS>().0.iter().map(|w| P::of_words(*w));
        let start = Start { place: places.next().unwrap_or(first), setup, resumed: words.is_some() };
        let promise = if tracked {
            let max_pending = context.config().number(config::MAX_SPOUT_PENDING);
            Promise::AtLeastOnce(Tracked::new(max_pending, places))
        } else {
            Promise::AtMostOnce(Claims { end: start.place, size: 1, claimed: Instant::now() })
        };
        Ok((Self { file, promise, words: Vec::new() }, start))
    }

    /// The next tuple to replay, with the id that it had.
    #[inline]
    pub(super) fn next_failed(&mut self) -> Option<(u32, P)> {
        match &mut self.promise {
            Promise::AtLeastOnce(tracked) => tracked.in_flight.next_failed(),
            Promise::AtMostOnce(_) => None,
        }
    }

    /// A new tuple, from this place, is about to be emitted: with this id, or untracked.
    ///
    /// # Errors
    /// When the position cannot be written in `ATMOST_ONCE`. The tuple must not be emitted then.
    #[inline]
    pub(super) fn begin(&mut self, place: P) -> Result<Option<u32>, PositionError> {
        match &mut self.promise {
            Promise::AtLeastOnce(tracked) => {
                if tracked.is_due() {
                    tracked.save(place, &mut self.words, &mut self.file);
                }
                tracked.fresh += 1;
                tracked.changed = true;
                tracked.rest = None;
                Ok(Some(tracked.in_flight.push(place)))
            }
            Promise::AtMostOnce(claims) => {
                if place >= claims.end {
                    self.file.write(&claims.next(place).words())?;
                }
                Ok(None)
            }
        }
    }

    /// Emits a tuple that was begun, or is replayed. One that cannot be emitted is left out, unless the instance is
    /// stopping: then it is emitted later, should the instance go on after all.
    #[inline]
    pub(super) fn emit(
        &mut self,
        emission: SpoutEmission<'_, u32, impl Payload>,
        id: Option<u32>,
    ) -> Result<(), Error> {
        let Some(id) = id else { return emission.untracked() };
        emission.id(id).inspect_err(|error| self.not_emitted(id, error))
    }

    #[cold]
    fn not_emitted(&mut self, id: u32, error: &Error) {
        if let Promise::AtLeastOnce(tracked) = &mut self.promise {
            if error.is_stopped() { tracked.in_flight.fail(id) } else { tracked.in_flight.remove(id) }
        }
    }

    /// A tuple failed, or one that [`next_failed`](Self::next_failed) gave is put back.
    pub(super) fn fail(&mut self, id: u32) {
        if let Promise::AtLeastOnce(tracked) = &mut self.promise {
            tracked.in_flight.fail(id);
        }
    }

    /// A tuple is processed.
    #[inline]
    pub(super) fn ack(&mut self, id: u32) {
        let Promise::AtLeastOnce(tracked) = &mut self.promise else { return };
        tracked.in_flight.remove(id);
        tracked.changed = true;
        if tracked.in_flight.len() == 0
            && let Some(rest) = tracked.rest
        {
            tracked.save(rest, &mut self.words, &mut self.file);
        }
    }

    /// Nothing new is at hand; `next` is the place where it would be. `ended` when there never will be.
    #[inline]
    pub(super) fn rest(&mut self, next: P, ended: bool) {
        if let Promise::AtLeastOnce(tracked) = &mut self.promise {
            tracked.rest = ended.then_some(next);
            if tracked.changed && tracked.saved.elapsed() >= SAVE_INTERVAL {
                tracked.save(next, &mut self.words, &mut self.file);
            }
        }
    }

    /// The task stops before the place `next`.
    pub(super) fn close(&mut self, next: P) {
        match &mut self.promise {
            Promise::AtLeastOnce(tracked) => tracked.save(next, &mut self.words, &mut self.file),
            Promise::AtMostOnce(claims) => {
                // What was claimed and not emitted is free again. If that cannot be said, it is lost, as it may be.
                if next < claims.end && self.file.write(&next.words()).is_ok() {
                    claims.end = next;
                }
            }
        }
    }
}

impl<P: Place> Tracked<P> {
    /// With these in flight at first, all to be replayed.
    fn new(max_pending: u64, lost: impl Iterator<Item = P>) -> Self {
        let mut in_flight = InFlight::new();
        for place in lost {
            let id = in_flight.push(place);
            in_flight.fail(id);
        }
        let now = Instant::now();
        Self {
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

    /// Whether the position must be kept before one more new tuple.
    #[inline]
    fn is_due(&mut self) -> bool {
        self.turns_left -= 1;
        let old = self.turns_left == 0 && self.is_old();
        self.fresh >= self.max_fresh || old
    }

    /// Looks at the clock: seldom when tuples are many.
    fn is_old(&mut self) -> bool {
        let now = Instant::now();
        let seldom = now.duration_since(self.looked) > CLAIM_TIME;
        self.turns = if seldom { 1 } else { (self.turns * 2).min(MAX_TURNS) };
        self.turns_left = self.turns;
        self.looked = now;
        self.changed && now.duration_since(self.saved) >= SAVE_INTERVAL
    }

    /// Keeps the position; `next` is the place of the next new tuple.
    #[cold]
    fn save(&mut self, next: P, words: &mut Vec<u64>, file: &mut PositionFile) {
        let mut places = self.in_flight.iter();
        words.clear();
        words.extend(next.words());
        words.extend(places.by_ref().take(MAX_HOLES).flat_map(P::words));
        if let Some(place) = places.next() {
            words[..PLACE_WORDS].copy_from_slice(&place.words());
        }
        if let Err(error) = file.write(words)
            && !std::mem::replace(&mut self.warned, true)
        {
            tracing::warn!("{error}; should this process die, tuples come again that were acked already");
        }
        // Emitting so many more makes no more than `max_pending` that would come twice, or little more.
        let room = self.max_pending.saturating_sub(self.in_flight.len() as u64);
        self.max_fresh = room.max(self.max_pending / 64).max(1);
        (self.fresh, self.changed, self.saved) = (0, false, Instant::now());
    }
}

impl<P: Place> Claims<P> {
    /// Claims some places from this one on; the place behind them.
    #[cold]
    fn next(&mut self, place: P) -> P {
        let now = Instant::now();
        let soon = now.duration_since(self.claimed) < CLAIM_TIME;
        self.size = if soon { (self.size * 2).min(MAX_CLAIM) } else { 1 };
        self.claimed = now;
        self.end = place.ahead(self.size);
        self.end
    }
}

/// The place of a spout whose tuples are numbered.
impl Place for u64 {
    fn words(self) -> [u64; PLACE_WORDS] {
        [self, 0, 0]
    }

    fn of_words([n, ..]: [u64; PLACE_WORDS]) -> Self {
        n
    }

    fn ahead(self, count: u64) -> Self {
        self.saturating_add(count)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use std::collections::BTreeSet;
    use std::path::Path;

    fn open(folder: &Path, mode: &str, pending: u64) -> Result<(Progress<u64>, Start<u64>), Error> {
        let bench = Bench::spout("sequence", json!({})).process(folder, 1);
        let bench = bench.config(config::RELIABILITY_MODE, mode);
        let context = bench.config(config::MAX_SPOUT_PENDING, &pending.to_string()).context();
        Progress::open(&context, "numbers", 0, || Ok(b"setup".to_vec()))
    }

    /// What a task emits again or for the first time when it goes on until `end`, and what of that is replayed.
    fn rest(progress: &mut Progress<u64>, start: u64, end: u64) -> (Vec<u64>, usize) {
        let mut all = Vec::new();
        while let Some((_, number)) = progress.next_failed() {
            all.push(number);
        }
        let replayed = all.len();
        all.extend(start..end);
        (all, replayed)
    }

    #[derive(Clone, Debug)]
    enum Step {
        Emit(u8),
        Ack(usize),
        Fail(usize),
        Rest,
        Close,
        Die,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (1..40_u8).prop_map(Step::Emit),
            9 => any::<usize>().prop_map(Step::Ack),
            3 => any::<usize>().prop_map(Step::Fail),
            1 => Just(Step::Rest),
            1 => Just(Step::Close),
            2 => Just(Step::Die),
        ]
    }

    proptest! {
        /// Whatever is not acked is emitted by a successor, and not much of what is.
        #[test]
        fn at_least_once_over_deaths(
            pending in 1_u64..300,
            steps in prop::collection::vec(step(), 0..300),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let (mut progress, start) = open(folder.path(), "ATLEAST_ONCE", pending).unwrap();
            prop_assert!(!start.resumed);
            let (mut next, mut flying, mut acked) = (0, Vec::new(), BTreeSet::new());
            for step in steps {
                match step {
                    Step::Emit(count) => for _ in 0..count {
                        if flying.len() as u64 == pending {
                            break;
                        }
                        if let Some((id, number)) = progress.next_failed() {
                            flying.push((id, number));
                        } else {
                            flying.push((progress.begin(next).unwrap().unwrap(), next));
                            next += 1;
                        }
                    },
                    Step::Ack(i) if !flying.is_empty() => {
                        // Mostly the old ones, as it is.
                        let (id, number) = flying.remove(i % flying.len().min(8));
                        progress.ack(id);
                        acked.insert(number);
                    }
                    Step::Fail(i) if !flying.is_empty() => progress.fail(flying.remove(i % flying.len()).0),
                    Step::Rest => progress.rest(next, true),
                    Step::Close => progress.close(next),
                    Step::Die => {
                        drop(progress);
                        let before = next;
                        let start;
                        (progress, start) = open(folder.path(), "ATLEAST_ONCE", pending).unwrap();
                        prop_assert_eq!(&start.setup, b"setup");
                        next = start.place;
                        flying.clear();
                        let (again, _) = rest(&mut progress, next, before);
                        let open: BTreeSet<u64> = (0..before).filter(|n| !acked.contains(n)).collect();
                        let emitted: BTreeSet<u64> = again.iter().copied().collect();
                        prop_assert_eq!(emitted.len(), again.len());
                        prop_assert!(open.is_subset(&emitted), "lost {:?}", open.difference(&emitted));
                        // With few in flight the holes are exact.
                        if pending <= MAX_HOLES as u64 {
                            prop_assert!(again.len() as u64 <= pending + pending / 64 + 1, "{again:?}");
                        }
                        // Everything goes on as if it had just been emitted.
                        drop(progress);
                        (progress, _) = open_at(folder.path(), pending);
                    }
                    _ => {}
                }
            }
        }
    }

    fn open_at(folder: &Path, pending: u64) -> (Progress<u64>, Start<u64>) {
        open(folder, "ATLEAST_ONCE", pending).unwrap()
    }

    #[test]
    fn a_stuck_tuple_holds_back_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut progress = open(folder.path(), "ATLEAST_ONCE", 10).unwrap().0;
        progress.begin(0).unwrap();
        for number in 1..100_000 {
            let id = progress.begin(number).unwrap().unwrap();
            progress.ack(id);
        }
        drop(progress);
        let (mut progress, start) = open(folder.path(), "ATLEAST_ONCE", 10).unwrap();
        let (again, replayed) = rest(&mut progress, start.place, 100_000);
        assert_eq!((again[0], replayed), (0, 1));
        assert!(again.len() <= 11, "{again:?}");
    }

    #[test]
    fn at_the_end_nothing_comes_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut progress = open(folder.path(), "ATLEAST_ONCE", 1000).unwrap().0;
        let ids: Vec<u32> = (0..500).map(|n| progress.begin(n).unwrap().unwrap()).collect();
        progress.rest(500, true);
        ids.into_iter().for_each(|id| progress.ack(id));
        drop(progress);
        let (mut progress, start) = open(folder.path(), "ATLEAST_ONCE", 1000).unwrap();
        assert_eq!((start.place, start.resumed, progress.next_failed()), (500, true, None));
    }

    #[test]
    fn at_most_once_never_repeats_and_loses_little() {
        let folder = tempfile::tempdir().unwrap();
        let mut next = 0;
        for _ in 0..20 {
            let (mut progress, start) = open(folder.path(), "ATMOST_ONCE", 10).unwrap();
            assert!(start.place >= next, "{} comes again", start.place);
            assert!(start.place - next <= MAX_CLAIM);
            next = start.place;
            for _ in 0..1000 {
                assert_eq!(progress.begin(next).unwrap(), None);
                next += 1;
            }
        }
        let (mut progress, start) = open(folder.path(), "ATMOST_ONCE", 10).unwrap();
        let next = start.place;
        progress.begin(next).unwrap();
        progress.close(next + 1);
        drop(progress);
        let (mut progress, start) = open(folder.path(), "ATMOST_ONCE", 10).unwrap();
        assert_eq!(start.place, next + 1);
        // Nothing was claimed, so nothing is given back.
        progress.close(next + 1);
        drop(progress);
        assert_eq!(open(folder.path(), "ATMOST_ONCE", 10).unwrap().1.place, next + 1);
    }

    #[test]
    fn a_file_that_is_no_use_is_repeated_over_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("task-2.position");
        std::fs::write(&path, "hello").unwrap();
        let error = open(folder.path(), "ATMOST_ONCE", 10).err().unwrap().to_string();
        assert!(error.contains("task-2.position` is something else"), "{error}");
        let (progress, start) = open(folder.path(), "ATLEAST_ONCE", 10).unwrap();
        assert_eq!((start.place, start.resumed), (0, false));
        drop(progress);
        assert!(open(folder.path(), "ATMOST_ONCE", 10).is_ok());
    }
}
