//! `egret validate`: is this topology right? Starts nothing, and touches no state.

use super::args::Source;
use super::failure::{Failure, Outcome};
use super::{Context, load};
use crate::packing::{Packing, RoundRobin};
use egret_dataplane::plan::{PackingPlan, Topology};
use serde_json::json;

/// Runs the command.
pub(crate) fn run(context: &Context, source: &Source) -> Outcome {
    let topology = load::topology(context, source)?;
    let packing = pack(&topology)?;
    let (components, tasks, containers) =
        (topology.components.len(), topology.task_count(), packing.containers.len());
    let document = json!({
        "topology": topology.name, "valid": true,
        "components": components, "tasks": tasks, "containers": containers,
    });
    context.output.result(&document, || {
        let name = &topology.name;
        format!("{name} is valid: {components} components, {tasks} tasks in {containers} containers")
    })
}

/// Packs a topology; one that does not fit is invalid.
///
/// # Errors
/// Wrong usage, with what is needed and what is given.
pub(crate) fn pack(topology: &Topology) -> Result<PackingPlan, Failure> {
    RoundRobin.pack(topology).map_err(|error| Failure::usage(format!("{}: {error}", topology.name)))
}
