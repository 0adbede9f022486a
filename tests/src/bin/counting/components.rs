//! The components, none of which allocates.

use super::{EXECUTED, Item};
use egret::{Bolt, BoltCollector, Input, Next, Result, Spout, SpoutCollector};
use std::sync::atomic::Ordering;

/// Emits numbers without end.
#[derive(Default)]
pub(crate) struct Source(u64);

impl Spout for Source {
    type Id = u64;

    fn next_tuple(&mut self, out: &mut SpoutCollector<u64>) -> Result<Next> {
        out.emit(&Item { n: self.0, payload: &[7; 92] }).id(self.0)?;
        self.0 += 1;
        Ok(Next::Emitted)
    }
}

/// Passes tuples on.
pub(crate) struct Pass;

impl Bolt for Pass {
    fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> Result<()> {
        let Item { n, payload } = input.get::<Item<'_>>()?;
        out.emit(&Item { n, payload }).anchor(input)?;
        out.ack(input)
    }
}

/// Counts them.
pub(crate) struct Sink;

impl Bolt for Sink {
    fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> Result<()> {
        EXECUTED.fetch_add(1, Ordering::Relaxed);
        out.ack(input)
    }
}
