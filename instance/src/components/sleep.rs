//! The `sleep` bolt: a bolt that is slow.

use super::args::{ArgKind, ArgSpec, Args};
use super::schema::as_input;
use super::types::ComponentType;
use crate::topology::Factory;
use crate::{Bolt, BoltCollector, Input, Result};
use egret_dataplane::plan::Role;
use std::time::Duration;

/// The type `sleep`.
pub(super) static TYPE: ComponentType = ComponentType {
    name: "sleep",
    role: Role::Bolt,
    help: "waits and passes the tuple on",
    args: &[ArgSpec::required("micros", ArgKind::Number(0, 3_600_000_000), "microseconds per tuple")],
    outputs: as_input,
    check: |_, _| Ok(()),
    make: |args| Factory::bolt(move || Sleep::from_args(&args)),
};

/// Waits for each tuple and passes it on as it is.
#[derive(Clone, Copy, Debug)]
pub struct Sleep(Duration);

impl Sleep {
    /// Waits so long per tuple.
    #[must_use]
    pub fn new(time: Duration) -> Self {
        Self(time)
    }

    pub(super) fn from_args(args: &Args) -> Self {
        Self::new(Duration::from_micros(args.number("micros").unwrap_or(0)))
    }
}

impl Bolt for Sleep {
    fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> Result<()> {
        if !self.0.is_zero() {
            egret_dataplane::host::sleep(self.0);
        }
        out.forward(input)?.anchor(input)?;
        out.ack(input)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use egret_dataplane::plan::FieldKind;
    use serde_json::json;
    use std::time::{Duration, Instant};

    #[test]
    fn it_waits_for_each_tuple_and_passes_it_on() {
        let mut bolt =
            Bench::bolt("sleep", json!({"micros": 2000}), &[("w", FieldKind::Str)]).start().unwrap();
        let start = Instant::now();
        bolt.execute_texts(&["a", "b", "c"]).unwrap();
        assert!(start.elapsed() >= Duration::from_millis(6));
        assert_eq!(bolt.emitted().concat(), ["a", "b", "c"]);
    }
}
