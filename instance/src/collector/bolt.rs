//! What a bolt emits and acks with.

use super::anchored::Union;
use super::{
    Anchor, BoltEmission, EmitError, Emitter, Fields, InNone, InOne, Input, InputBlock, Payload, Target,
    Unchanged,
};
use crate::Result;
use crate::tuple::{Tuple, Value};

/// Emits a bolt's tuples, and acks and fails its inputs.
pub struct BoltCollector {
    pub(crate) emitter: Emitter,
    union: Union,
}

impl BoltCollector {
    /// Over an emitter; the runtime and tests make it.
    #[must_use]
    pub fn new(emitter: Emitter) -> Self {
        Self { emitter, union: Union::default() }
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
    #[inline(always)]
    pub fn ack(&mut self, input: &(impl Anchor + ?Sized)) -> Result<()> {
        let tie = input.tie();
        if tie.settle() {
            self.emitter.counters.acked += 1;
            if !self.emitter.ack_one(tie) {
                self.emitter.ack(tie)?;
            }
            if input.is_kept() {
                self.emitter.settle_kept();
            }
        }
        Ok(())
    }

    /// Says that an input could not be processed; its spout tuple fails. Only the first ack or fail of an input counts.
    ///
    /// # Errors
    /// When the instance is stopping.
    #[inline]
    pub fn fail(&mut self, input: &(impl Anchor + ?Sized)) -> Result<()> {
        let tie = input.tie();
        if tie.settle() {
            self.emitter.counters.failed += 1;
            self.emitter.fail(tie)?;
            if input.is_kept() {
                self.emitter.settle_kept();
            }
        }
        Ok(())
    }

    #[inline(always)]
    pub(super) fn emit_anchored<A: Anchor>(
        &mut self,
        payload: &impl Payload,
        target: Target<'_>,
        anchor: &A,
    ) -> Result<(), EmitError> {
        let tie = anchor.tie();
        match tie.root_count() {
            0 => self.emitter.emit(payload, target, InNone).map(drop),
            1 => {
                let edges = self.emitter.emit(payload, target, InOne(tie.first().root))?;
                self.emitter.grow(tie, 0, edges)
            }
            _ => self.union.emit(&mut self.emitter, payload, target, &[anchor]),
        }
    }

    #[inline]
    pub(super) fn emit_joined(
        &mut self,
        payload: &impl Payload,
        target: Target<'_>,
        anchors: &[&dyn Anchor],
    ) -> Result<(), EmitError> {
        if anchors.iter().all(|anchor| anchor.tie().root_count() == 0) {
            self.emitter.emit(payload, target, InNone).map(drop)
        } else {
            self.union.emit(&mut self.emitter, payload, target, anchors)
        }
    }

    /// User code gave an error, or a panic, for the tuple at hand: fails it, unless it was acked or failed before.
    pub(crate) fn fail_at_hand(&mut self, block: &InputBlock<'_>) -> Result<()> {
        let tie = block.at_hand();
        if tie.fails_by_error() {
            self.emitter.fail(tie)?;
        }
        Ok(())
    }

    /// The emitter below.
    pub fn emitter(&mut self) -> &mut Emitter {
        &mut self.emitter
    }
}
