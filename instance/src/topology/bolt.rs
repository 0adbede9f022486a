//! The traits of bolts.

use super::Context;
use crate::Result;
use crate::collector::{BasicCollector, BoltCollector, Input};

/// Executes tuples and emits others. One instance of it runs each task, in a process of its own.
///
/// ```
/// use egret::{Bolt, BoltCollector, Input, Tuple};
///
/// #[derive(Tuple)]
/// struct Line<'a> {
///     line: &'a str,
/// }
///
/// #[derive(Tuple)]
/// struct Word<'a> {
///     word: &'a str,
/// }
///
/// struct Split;
///
/// impl Bolt for Split {
///     fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> egret::Result<()> {
///         for word in input.get::<Line>()?.line.split_whitespace() {
///             out.emit(&Word { word }).anchor(input)?;
///         }
///         out.ack(input)
///     }
/// }
/// ```
pub trait Bolt: 'static {
    /// Called once, before anything else.
    ///
    /// # Errors
    /// An error ends the instance, which is started again.
    fn prepare(&mut self, context: &Context) -> Result<()> {
        let _ = context;
        Ok(())
    }

    /// Executes one tuple, and acks or fails it now or later.
    ///
    /// # Errors
    /// An error fails the tuple and is reported; `egret.instance.error.action` says whether the instance goes on.
    fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> Result<()>;

    /// Called every `topology.tick.tuple.freq.ms`, if that is set.
    ///
    /// # Errors
    /// As [`Bolt::execute`], without a tuple to fail.
    fn tick(&mut self, out: &mut BoltCollector) -> Result<()> {
        let _ = out;
        Ok(())
    }

    /// No tuple is at hand, so the task is about to wait: the moment to write out what was gathered.
    ///
    /// # Errors
    /// As [`Bolt::tick`].
    fn idle(&mut self, out: &mut BoltCollector) -> Result<()> {
        let _ = out;
        Ok(())
    }

    /// All inputs have ended: the last chance to emit. In `ATLEAST_ONCE` a spout ends when its last tree has, so an input
    /// that is kept until here to be acked keeps the topology from ending: [`Bolt::idle`] is the place to ack it.
    ///
    /// # Errors
    /// An error ends the task without all of its results, and has the topology fail.
    fn finish(&mut self, out: &mut BoltCollector) -> Result<()> {
        let _ = out;
        Ok(())
    }

    /// Called last, unless the process is killed.
    fn cleanup(&mut self) {}
}

/// A bolt that anchors what it emits on its input, and acks that when it returns `Ok` and fails it otherwise.
///
/// ```
/// use egret::{BasicBolt, BasicCollector, Input, Tuple};
///
/// #[derive(Tuple)]
/// struct Word<'a> {
///     word: &'a str,
/// }
///
/// struct Upper;
///
/// impl BasicBolt for Upper {
///     fn execute(&mut self, input: &Input<'_>, out: &mut BasicCollector<'_>) -> egret::Result<()> {
///         let word = input.get::<Word>()?.word.to_uppercase();
///         out.emit(&Word { word: &word })
///     }
/// }
/// ```
pub trait BasicBolt: 'static {
    /// Called once, before anything else.
    ///
    /// # Errors
    /// An error ends the instance, which is started again.
    fn prepare(&mut self, context: &Context) -> Result<()> {
        let _ = context;
        Ok(())
    }

    /// Executes one tuple.
    ///
    /// # Errors
    /// An error fails the tuple and is reported; `egret.instance.error.action` says whether the instance goes on.
    fn execute(&mut self, input: &Input<'_>, out: &mut BasicCollector<'_>) -> Result<()>;

    /// Called every `topology.tick.tuple.freq.ms`, if that is set.
    ///
    /// # Errors
    /// As [`BasicBolt::execute`], without a tuple to fail.
    fn tick(&mut self, out: &mut BasicCollector<'_>) -> Result<()> {
        let _ = out;
        Ok(())
    }

    /// No tuple is at hand, so the task is about to wait: the moment to write out what was gathered.
    ///
    /// # Errors
    /// As [`BasicBolt::tick`].
    fn idle(&mut self, out: &mut BasicCollector<'_>) -> Result<()> {
        let _ = out;
        Ok(())
    }

    /// All inputs have ended: the last chance to emit.
    ///
    /// # Errors
    /// An error ends the task without all of its results, and has the topology fail.
    fn finish(&mut self, out: &mut BasicCollector<'_>) -> Result<()> {
        let _ = out;
        Ok(())
    }

    /// Called last, unless the process is killed.
    fn cleanup(&mut self) {}
}

/// Makes a bolt of a basic bolt.
pub(super) struct Basic<B>(pub(super) B);

impl<B: BasicBolt> Bolt for Basic<B> {
    fn prepare(&mut self, context: &Context) -> Result<()> {
        self.0.prepare(context)
    }

    #[inline]
    fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> Result<()> {
        self.0.execute(input, &mut BasicCollector::new(out, Some(input)))?;
        out.ack(input)
    }

    fn tick(&mut self, out: &mut BoltCollector) -> Result<()> {
        self.0.tick(&mut BasicCollector::new(out, None))
    }

    fn idle(&mut self, out: &mut BoltCollector) -> Result<()> {
        self.0.idle(&mut BasicCollector::new(out, None))
    }

    fn finish(&mut self, out: &mut BoltCollector) -> Result<()> {
        self.0.finish(&mut BasicCollector::new(out, None))
    }

    fn cleanup(&mut self) {
        self.0.cleanup();
    }
}
