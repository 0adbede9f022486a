//! What a basic bolt emits with.

use super::{BoltCollector, Fields, InNone, Input, Payload, Target};
use crate::Result;
use crate::tuple::{Tuple, Value};
use egret_dataplane::ids::TaskId;

/// Emits a basic bolt's tuples, anchored on the input at hand.
pub struct BasicCollector<'a> {
    collector: &'a mut BoltCollector,
    /// None in `tick` and `finish`.
    input: Option<&'a Input<'a>>,
}

impl<'a> BasicCollector<'a> {
    #[inline]
    pub(crate) fn new(collector: &'a mut BoltCollector, input: Option<&'a Input<'a>>) -> Self {
        Self { collector, input }
    }

    #[inline]
    fn send(&mut self, payload: &impl Payload, target: Target<'_>) -> Result<()> {
        match self.input {
            Some(input) => self.collector.emit_anchored(payload, target, input)?,
            None => self.collector.emitter.emit(payload, target, InNone).map(drop)?,
        }
        Ok(())
    }

    /// Emits on the default stream.
    ///
    /// # Errors
    /// [`EmitError`](super::EmitError), as [`Error`](crate::Error).
    #[inline]
    pub fn emit<T: Tuple>(&mut self, tuple: &T) -> Result<()> {
        self.send(&tuple, Target::default())
    }

    /// Emits on this stream.
    ///
    /// # Errors
    /// [`EmitError`](super::EmitError), as [`Error`](crate::Error).
    #[inline]
    pub fn emit_on<T: Tuple>(&mut self, stream: &str, tuple: &T) -> Result<()> {
        self.send(&tuple, Target { stream: Some(stream), direct: None })
    }

    /// Emits on this stream to one task, which must read it by direct grouping.
    ///
    /// # Errors
    /// [`EmitError`](super::EmitError), as [`Error`](crate::Error).
    #[inline]
    pub fn emit_direct<T: Tuple>(&mut self, task: TaskId, stream: &str, tuple: &T) -> Result<()> {
        self.send(&tuple, Target { stream: Some(stream), direct: Some(task) })
    }

    /// Emits a tuple whose fields are known at run time only: one value for each field of the default stream.
    ///
    /// # Errors
    /// [`EmitError`](super::EmitError), as [`Error`](crate::Error).
    #[inline]
    pub fn emit_values(&mut self, values: &[Value<'_>]) -> Result<()> {
        self.send(&Fields(values), Target::default())
    }
}
