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
