//! The `null-sink` bolt: the end of the line.

use super::schema::no_stream;
use super::types::ComponentType;
use crate::topology::Factory;
use crate::{Bolt, BoltCollector, Input, Result};
use egret_dataplane::plan::Role;

/// The type `null-sink`.
pub(super) static TYPE: ComponentType = ComponentType {
    name: "null-sink",
    role: Role::Bolt,
    help: "takes every tuple and drops it; the runtime counts them",
    args: &[],
    outputs: no_stream,
    check: |_, _| Ok(()),
    make: |_| Factory::bolt(|| NullSink),
};

/// Takes every tuple and does nothing with it; the runtime counts what it executes.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullSink;

impl Bolt for NullSink {
    fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> Result<()> {
        out.ack(input)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use egret_dataplane::plan::FieldKind;
    use serde_json::json;

    #[test]
    fn it_takes_everything() {
        let mut bolt = Bench::bolt("null-sink", json!({}), &[("w", FieldKind::Str)]).start().unwrap();
        bolt.execute_texts(&["a", "b"]).unwrap();
        assert_eq!(bolt.counts(), (0, 2, 0));
    }
}
