//! The `identity` bolt: what comes in goes out.

use super::schema::as_input;
use super::types::ComponentType;
use crate::topology::Factory;
use crate::{Bolt, BoltCollector, Input, Result};
use egret_dataplane::plan::Role;

/// The type `identity`.
pub(super) static TYPE: ComponentType = ComponentType {
    name: "identity",
    role: Role::Bolt,
    help: "passes the tuple on",
    args: &[],
    outputs: as_input,
    check: |_, _| Ok(()),
    make: |_| Factory::bolt(|| Identity),
};

/// Passes every tuple on as it is. Its output stream has the fields of its inputs, which must be the same for all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity;

impl Bolt for Identity {
    fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> Result<()> {
        out.forward(input)?.anchor(input)?;
        out.ack(input)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use crate::Value;
    use egret_dataplane::plan::FieldKind;
    use serde_json::json;

    #[test]
    fn every_kind_of_field_comes_through() {
        let fields =
            [("n", FieldKind::I16), ("f", FieldKind::F32), ("s", FieldKind::Str), ("b", FieldKind::Bytes)];
        let mut bolt = Bench::bolt("identity", json!({}), &fields).start().unwrap();
        let row = |s| [Value::I16(-7), Value::F32(0.5), Value::Str(s), Value::Bytes(&[1, 255])];
        bolt.execute(&[&row("short"), &row("a longer text than fits inline")]).unwrap();
        let expected = |s: &str| ["-7".to_owned(), "0.5".to_owned(), s.to_owned(), "01ff".to_owned()];
        assert_eq!(bolt.emitted(), [expected("short"), expected("a longer text than fits inline")]);
    }
}
