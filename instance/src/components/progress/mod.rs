//! How far a spout has come: what is in flight, what is to be replayed, and where its successor goes on.
//!
//! In `ATLEAST_ONCE` the position that is kept is the place before which everything is acked, and beside it the first
//! places in flight: a successor replays those and goes on from the one after them. It is written at the latest when so
//! much has been emitted since that more than `topology.max.spout.pending` (and a 64th of it) would come twice, a tenth
//! of a second after something changed, and when the spout rests.
//!
//! In `ATMOST_ONCE` the position is written *before* what it covers is emitted, for as many places at once as the spout
//! emits in about a millisecond: a successor goes on behind them, so nothing is ever emitted twice.

mod claims;
mod in_flight;
mod position_file;
#[cfg(test)]
mod tests;
mod tracked;

pub use position_file::PositionError;

use crate::collector::{Acked, Payload, SpoutEmission};
use crate::{Context, Error};
use claims::Claims;
use egret_dataplane::plan::config;
use position_file::PositionFile;
use tracked::Tracked;

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

/// How far a spout's task has come.
pub(super) enum Progress<P> {
    /// Tuples have ids and are replayed.
    AtLeastOnce(Box<Tracked<P>>),
    /// Tuples are emitted and forgotten.
    AtMostOnce(Claims<P>),
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
        let progress = if tracked {
            let max_pending = context.config().number(config::MAX_SPOUT_PENDING);
            Self::AtLeastOnce(Box::new(Tracked::new(file, max_pending, places)))
        } else {
            Self::AtMostOnce(Claims::new(file, start.place))
        };
        Ok((progress, start))
    }

    /// The next tuple to replay: to be [emitted](Self::emit), [put back](Self::put_back) or [left out](Self::leave_out).
    #[inline]
    pub(super) fn next_failed(&mut self) -> Option<P> {
        match self {
            Self::AtLeastOnce(tracked) => tracked.next_failed(),
            Self::AtMostOnce(_) => None,
        }
    }

    /// A new tuple, from this place, is about to be emitted.
    ///
    /// # Errors
    /// When the position cannot be written in `ATMOST_ONCE`. The tuple must not be emitted then.
    // Always inlined: what it gives is small, and dear when it goes through memory.
    #[inline(always)]
    pub(super) fn begin(&mut self, place: P) -> Result<(), PositionError> {
        match self {
            Self::AtLeastOnce(tracked) => {
                tracked.begin(place);
                Ok(())
            }
            Self::AtMostOnce(claims) => claims.begin(place),
        }
    }

    /// Whether tuples that fail are replayed.
    #[inline]
    pub(super) fn replays(&self) -> bool {
        matches!(self, Self::AtLeastOnce(_))
    }

    /// Emits a tuple that was begun, or is replayed. One that cannot be emitted is left out, unless the instance is
    /// stopping: then it is emitted later, should the instance go on after all.
    #[inline(always)]
    pub(super) fn emit(
        &mut self,
        emission: SpoutEmission<'_, u64, impl Payload>,
        place: P,
    ) -> Result<(), Error> {
        let Self::AtLeastOnce(tracked) = self else { return emission.untracked() };
        let mut guard = PanicGuard { tracked, place, is_over: false };
        let emitted = emission.numbered();
        guard.is_over = true;
        match emitted {
            Ok(id) => {
                guard.tracked.emitted(id, place);
                Ok(())
            }
            Err(error) => {
                drop(guard);
                self.not_emitted(place, error.is_stopped());
                Err(error)
            }
        }
    }

    #[cold]
    fn not_emitted(&mut self, place: P, comes_again: bool) {
        if comes_again {
            self.put_back(place);
        } else {
            self.leave_out(place);
        }
    }

    /// A tuple that was begun, or is to be replayed, is to be replayed later.
    pub(super) fn put_back(&mut self, place: P) {
        if let Self::AtLeastOnce(tracked) = self {
            tracked.put_back(place);
        }
    }

    /// A tuple that was begun, or is to be replayed, is given up.
    pub(super) fn leave_out(&mut self, place: P) {
        if let Self::AtLeastOnce(tracked) = self {
            tracked.leave_out(place);
        }
    }

    /// A tuple is processed; where it came from.
    #[inline]
    pub(super) fn ack(&mut self, id: u64) -> Option<P> {
        let Self::AtLeastOnce(tracked) = self else { return None };
        tracked.ack(id)
    }

    /// Tuples are processed.
    #[inline]
    pub(super) fn ack_all(&mut self, ids: &mut Acked<'_, u64>) {
        if let Self::AtLeastOnce(tracked) = self {
            while let Some((first, mask)) = ids.numbers() {
                tracked.ack_all(first, mask);
            }
            for id in ids {
                tracked.ack(id);
            }
        }
    }

    /// A tuple failed.
    pub(super) fn fail(&mut self, id: u64) {
        if let Self::AtLeastOnce(tracked) = self {
            tracked.fail(id);
        }
    }

    /// Nothing new is at hand; `next` is the place where it would be. `ended` when there never will be.
    #[inline]
    pub(super) fn rest(&mut self, next: P, ended: bool) {
        if let Self::AtLeastOnce(tracked) = self {
            tracked.rest(next, ended);
        }
    }

    /// The task stops before the place `next`.
    pub(super) fn close(&mut self, next: P) {
        match self {
            Self::AtLeastOnce(tracked) => tracked.save(next),
            Self::AtMostOnce(claims) => claims.close(next),
        }
    }
}

/// A tuple whose emission panics, in a grouping of the user's, is not replayed, since it would again. It counts as in flight: a
/// successor has another try.
struct PanicGuard<'a, P: Place> {
    tracked: &'a mut Tracked<P>,
    place: P,
    is_over: bool,
}

impl<P: Place> Drop for PanicGuard<'_, P> {
    #[inline]
    fn drop(&mut self) {
        if !self.is_over {
            self.tracked.keep(self.place);
        }
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
