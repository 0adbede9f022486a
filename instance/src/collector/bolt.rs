//! What a bolt emits and acks with.

use super::{Anchor, BoltEmission, Emitter, Fields, Input, Unchanged};
use crate::Result;
use crate::tuple::{Tuple, Value};

/// Emits a bolt's tuples, and acks and fails its inputs.
pub struct BoltCollector {
    pub(crate) emitter: Emitter,
}

impl BoltCollector {
    /// Over an emitter; the runtime and tests make it.
    #[must_use]
    pub fn new(emitter: Emitter) -> Self {
        Self { emitter }
    }

    /// Begins to emit a tuple.
    #[inline]
    pub fn emit<'c, T: Tuple>(&'c mut self, tuple: &'c T) -> BoltEmission<'c, &'c T> {
        BoltEmission::new(self, tuple)
    }

    /// Begins to emit a tuple whose fields are known at run time only: one value for each of the stream.
    #[inline]
    pub fn emit_values<'c>(&'c mut self, values: &'c [Value<'c>]) -> BoltEmission<'c, Fields<'c>> {
        BoltEmission::new(self, Fields(values))
    }

    /// Begins to emit an input as it is. The stream must have the same fields as the one it came on.
    ///
    /// # Errors
    /// [`TupleError`](crate::TupleError) when the input is damaged.
    #[inline]
    pub fn forward<'c>(&'c mut self, input: &Input<'c>) -> Result<BoltEmission<'c, Unchanged<'c>>> {
        let row = input.row()?;
        Ok(BoltEmission::new(self, Unchanged(row)))
    }

    /// Says that an input is done with. Only the first ack or fail of an input counts.
    ///
    /// # Errors
    /// When the instance is stopping.
    #[inline]
    pub fn ack(&mut self, input: &(impl Anchor + ?Sized)) -> Result<()> {
        if input.tie().settle() {
            self.emitter.counters.acked += 1;
        }
        Ok(())
    }

    /// Says that an input could not be processed; its spout tuple fails. Only the first ack or fail of an input counts.
    ///
    /// # Errors
    /// When the instance is stopping.
    #[inline]
    pub fn fail(&mut self, input: &(impl Anchor + ?Sized)) -> Result<()> {
        if input.tie().settle() {
            self.emitter.counters.failed += 1;
        }
        Ok(())
    }

    /// The emitter below.
    pub fn emitter(&mut self) -> &mut Emitter {
        &mut self.emitter
    }
}
