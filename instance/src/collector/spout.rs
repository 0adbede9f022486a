//! What a spout emits with.

use super::{Emitter, Fields, SpoutEmission};
use crate::tuple::{Tuple, Value};

/// Emits a spout's tuples. `Id` is the type of the ids that come back by [`Spout::ack`](crate::Spout::ack).
pub struct SpoutCollector<Id> {
    pub(crate) emitter: Emitter,
    /// Ids emitted since `next_tuple` was called.
    pub(crate) emitted_ids: Vec<Id>,
}

impl<Id> SpoutCollector<Id> {
    /// Over an emitter; the runtime and tests make it.
    #[must_use]
    pub fn new(emitter: Emitter) -> Self {
        Self { emitter, emitted_ids: Vec::new() }
    }

    /// Begins to emit a tuple.
    #[inline]
    pub fn emit<'c, T: Tuple>(&'c mut self, tuple: &'c T) -> SpoutEmission<'c, Id, &'c T> {
        SpoutEmission::new(self, tuple)
    }

    /// Begins to emit a tuple whose fields are known at run time only: one value for each of the stream.
    #[inline]
    pub fn emit_values<'c>(&'c mut self, values: &'c [Value<'c>]) -> SpoutEmission<'c, Id, Fields<'c>> {
        SpoutEmission::new(self, Fields(values))
    }

    /// The emitter below.
    pub fn emitter(&mut self) -> &mut Emitter {
        &mut self.emitter
    }
}
