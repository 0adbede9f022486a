//! A bolt that waits for two inputs and emits one tuple for both.

use crate::Item;
use egret::{Bolt, BoltCollector, Held, Input, Result};
use std::collections::HashMap;

/// Waits for a number from both `left` and `right`, and anchors the tuple for both on both.
#[derive(Default)]
pub(crate) struct Join {
    waiting: HashMap<(bool, u64), Held>,
}

impl Bolt for Join {
    fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> Result<()> {
        let item = input.get::<Item>()?;
        let is_left = input.is_from("left");
        if let Some(other) = self.waiting.remove(&(!is_left, item.n)) {
            out.emit(&item).anchors(&[&other, input])?;
            out.ack(&other)?;
            return out.ack(input);
        }
        match self.waiting.insert((is_left, item.n), input.hold()) {
            // An earlier emission of the same, which has failed meanwhile.
            Some(stale) => out.fail(&stale),
            None => Ok(()),
        }
    }
}
