//! The trait of spouts.

use super::Context;
use crate::Result;
use crate::collector::{Acked, SpoutCollector};
use std::time::Duration;

/// What a call of [`Spout::next_tuple`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Next {
    /// Tuples were emitted; call again at once.
    Emitted,
    /// There is nothing just now. The task waits a little, longer with each time in a row.
    Idle,
    /// There is nothing for this long.
    Wait(Duration),
    /// There will never be anything again.
    Exhausted,
}

/// Brings tuples into a topology. One instance of it runs each task, in a process of its own.
///
/// ```
/// use egret::{Context, Next, Spout, SpoutCollector, Tuple};
///
/// #[derive(Tuple)]
/// struct Number {
///     n: u64,
/// }
///
/// struct Countdown(u64);
///
/// impl Spout for Countdown {
///     type Id = u64;
///
///     fn next_tuple(&mut self, out: &mut SpoutCollector<u64>) -> egret::Result<Next> {
///         if self.0 == 0 {
///             return Ok(Next::Exhausted);
///         }
///         out.emit(&Number { n: self.0 }).id(self.0)?;
///         self.0 -= 1;
///         Ok(Next::Emitted)
///     }
///
///     fn fail(&mut self, id: u64) {
///         println!("{id} got lost");
///     }
/// }
/// ```
pub trait Spout: 'static {
    /// What identifies an emitted tuple to this spout; `()` for a spout that tracks none.
    type Id: 'static;

    /// Called once, before anything else.
    ///
    /// # Errors
    /// An error ends the instance, which is started again.
    fn open(&mut self, context: &Context) -> Result<()> {
        let _ = context;
        Ok(())
    }

    /// Emits some tuples, or says why it does not. It should return soon: acks wait for it.
    ///
    /// # Errors
    /// An error is reported; `egret.instance.error.action` says whether the instance goes on.
    fn next_tuple(&mut self, out: &mut SpoutCollector<Self::Id>) -> Result<Next>;

    /// The tuple with this id, and all that came of it, is processed. In `ATMOST_ONCE`: it was emitted.
    fn ack(&mut self, id: Self::Id) {
        let _ = id;
    }

    /// Several tuples are processed. By default [`Spout::ack`] is called for each; a spout that overrides this needs `ack` as
    /// well, to which some come one by one (in `ATMOST_ONCE` all). What is not taken of `ids` is acked, and not told again.
    fn ack_all(&mut self, ids: &mut Acked<'_, Self::Id>) {
        ids.for_each(|id| self.ack(id));
    }

    /// The tuple with this id, or something that came of it, failed or took too long.
    fn fail(&mut self, id: Self::Id) {
        let _ = id;
    }

    /// Tuples may flow from now on.
    fn activate(&mut self) {}

    /// [`Spout::next_tuple`] is not called until [`Spout::activate`] is.
    fn deactivate(&mut self) {}

    /// Called last, unless the process is killed.
    fn close(&mut self) {}
}
