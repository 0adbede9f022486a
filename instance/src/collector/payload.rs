//! The things that can be emitted: a typed tuple, the values of a new row, or an input as it is.

use super::{EmitError, StreamInfo};
use crate::tuple::{Record, Row, Tuple, Value, Values};

/// Something to emit. Implemented by references to tuples, [`Fields`] and [`Unchanged`].
pub trait Payload: sealed::Sealed {
    /// Checks that its fields are the stream's.
    #[doc(hidden)]
    fn check(&self, stream: &StreamInfo) -> Result<(), EmitError>;

    /// The record that is written, once it is checked. Apart from the check, so that it does not come wrapped in a
    /// result, through memory.
    #[doc(hidden)]
    fn record<'s>(&'s self, stream: &'s StreamInfo) -> impl Record + 's;
}

/// The fields of a new row: one value for each field of the stream, in order.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(pub &'a [Value<'a>]);

/// A tuple as it came: its archive is copied, not written anew.
#[derive(Clone, Copy, Debug)]
pub struct Unchanged<'a>(pub Row<'a>);

impl<T: Tuple> Payload for &T {
    #[inline]
    fn check(&self, stream: &StreamInfo) -> Result<(), EmitError> {
        stream.check_type::<T>()
    }

    #[inline]
    fn record<'s>(&'s self, _: &'s StreamInfo) -> impl Record + 's {
        *self
    }
}

impl Payload for Fields<'_> {
    #[inline]
    fn check(&self, stream: &StreamInfo) -> Result<(), EmitError> {
        if Values::fit(stream.layout(), self.0) { Ok(()) } else { Err(stream.wrong_values(self.0)) }
    }

    #[inline]
    fn record<'s>(&'s self, stream: &'s StreamInfo) -> impl Record + 's {
        Values::of(stream.layout(), self.0)
    }
}

impl Payload for Unchanged<'_> {
    #[inline]
    fn check(&self, stream: &StreamInfo) -> Result<(), EmitError> {
        stream.check_layout(self.0.layout())
    }

    #[inline]
    fn record<'s>(&'s self, _: &'s StreamInfo) -> impl Record + 's {
        &self.0
    }
}

mod sealed {
    pub trait Sealed {}
    impl<T: crate::tuple::Tuple> Sealed for &T {}
    impl Sealed for super::Fields<'_> {}
    impl Sealed for super::Unchanged<'_> {}
}
