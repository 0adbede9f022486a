//! Inputs as anchors: what an emission can be tied to, and what is acked or failed.

use super::Input;
use std::cell::Cell;

/// An input that emissions are anchored on and that is acked or failed: an [`Input`], or a [`Held`] of one that came
/// earlier.
pub trait Anchor: sealed::Sealed {
    #[doc(hidden)]
    fn tie(&self) -> &Tie;
}

/// An input that a bolt keeps beyond [`Bolt::execute`](crate::Bolt::execute): not its fields, but the right and the
/// duty to anchor on it and to ack or fail it. Made by [`Input::hold`].
///
/// An input that is held and neither acked nor failed fails after `topology.message.timeout.secs`, also when the
/// `Held` is dropped.
///
/// ```
/// use egret::{Bolt, BoltCollector, Held, Input, Tuple};
///
/// #[derive(Tuple)]
/// struct Number {
///     n: u64,
/// }
///
/// /// Adds up pairs of numbers. A sum belongs to the trees of both.
/// #[derive(Default)]
/// struct Pairs {
///     first: Option<(u64, Held)>,
/// }
///
/// impl Bolt for Pairs {
///     fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> egret::Result<()> {
///         let n = input.get::<Number>()?.n;
///         let Some((other, held)) = self.first.take() else {
///             self.first = Some((n, input.hold()));
///             return Ok(());
///         };
///         out.emit(&Number { n: n + other }).anchors(&[&held, input])?;
///         out.ack(&held)?;
///         out.ack(input)
///     }
/// }
/// ```
#[derive(Debug)]
pub struct Held(Tie);

impl Held {
    pub(super) fn new(tie: Tie) -> Self {
        Self(tie)
    }
}

/// How an input is tied to the trees it is part of.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Tie {
    settled: Cell<bool>,
}

impl Tie {
    /// Whether this is the first ack, fail or hold; the later ones do nothing.
    #[inline]
    pub(super) fn settle(&self) -> bool {
        !self.settled.replace(true)
    }

    /// The same input, now in the hands of a [`Held`].
    pub(super) fn take(&self) -> Self {
        Self { settled: Cell::new(self.settled.replace(true)) }
    }
}

impl Anchor for Input<'_> {
    #[inline]
    fn tie(&self) -> &Tie {
        self.own_tie()
    }
}

impl Anchor for Held {
    #[inline]
    fn tie(&self) -> &Tie {
        &self.0
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Input<'_> {}
    impl Sealed for super::Held {}
}
