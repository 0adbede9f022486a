//! The things that can be emitted: a typed tuple, the values of a new row, or an input as it is.

use super::{EmitError, StreamInfo};
use crate::tuple::{Record, Row, Tuple, Value, Values};

/// Something to emit. Implemented by references to tuples, [`Fields`] and [`Unchanged`].
pub trait Payload: sealed::Sealed {
    /// The record that is written, after a check that its fields are the stream's.
    #[doc(hidden)]
    fn record<'s>(&'s self, stream: &'s StreamInfo) -> Result<impl Record + 's, EmitError>;
}

/// The fields of a new row: one value for each field of the stream, in order.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(pub &'a [Value<'a>]);

/// A tuple as it came: its archive is copied, not written anew.
#[derive(Clone, Copy, Debug)]
pub struct Unchanged<'a>(pub Row<'a>);

impl<T: Tuple> Payload for &T {
    #[inline]
    fn record<'s>(&'s self, stream: &'s StreamInfo) -> Result<impl Record + 's, EmitError> {
        stream.check_type::<T>()?;
        Ok(*self)
    }
}

impl Payload for Fields<'_> {
    #[inline]
    fn record<'s>(&'s self, stream: &'s StreamInfo) -> Result<impl Record + 's, EmitError> {
        Values::new(stream.layout(), self.0).ok_or_else(|| stream.wrong_values(self.0))
    }
}

impl Payload for Unchanged<'_> {
    #[inline]
    fn record<'s>(&'s self, stream: &'s StreamInfo) -> Result<impl Record + 's, EmitError> {
        stream.check_layout(self.0.layout())?;
        Ok(self.0)
    }
}

mod sealed {
    pub trait Sealed {}
    impl<T: crate::tuple::Tuple> Sealed for &T {}
    impl Sealed for super::Fields<'_> {}
    impl Sealed for super::Unchanged<'_> {}
}
