//! `egret plan`: which task runs in which container and on which processor; with `--dry-run`, which would.

use super::args::Source;
use super::failure::{Failure, Outcome};
use super::output::table;
use super::validate::pack;
use super::{Context, check_name, load};
use egret_dataplane::affinity::{Policy, Processor, Processors};
use egret_dataplane::ids::ContainerId;
use egret_dataplane::plan::{Config, PackingPlan, PhysicalPlan, config};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::Path;

/// Runs the command.
pub(crate) fn run(context: &Context, target: &Path, dry_run: bool, args: &[OsString]) -> Outcome {
    let view = if dry_run {
        let source = Source { topology: target.to_owned(), args: args.to_vec() };
        let topology = load::topology(context, &source)?;
        View { packing: pack(&topology)?, physical: None, pinning: Pinning::of(&topology.config) }
    } else {
        running(context, target)?
    };
    context.output.result(&view.json(), || view.text())
}

/// The plans of a topology in the cluster.
fn running(context: &Context, target: &Path) -> Result<View, Failure> {
    let name = target.to_string_lossy();
    if let Err(absent) = check_name(context, &name) {
        return Err(hint(absent, target));
    }
    let state = context.state()?;
    let absent = || hint(Failure::absent(&name, context.global.cluster()), target);
    let packing = state.packing_plan(&name)?.ok_or_else(absent)?;
    let topology = state.topology(&name)?.ok_or_else(absent)?;
    let physical = state.physical_plan(&name)?;
    Ok(View { packing, physical, pinning: Pinning::of(&topology.config) })
}

/// A file where a name should be was meant as a dry run.
fn hint(mut failure: Failure, target: &Path) -> Failure {
    if target.exists() {
        failure.message.push_str("; for a file or program that is not running, add --dry-run");
    }
    failure
}

/// Where the stmgr and the task threads of each container are pinned on this host.
struct Pinning {
    name: String,
    policy: Policy,
    processors: Processors,
}

impl Pinning {
    fn of(config: &Config) -> Self {
        let name = config.text(config::AFFINITY).unwrap_or_default().to_owned();
        Self { name, policy: Policy::of(config), processors: Processors::here() }
    }

    fn of_container(&self, container: ContainerId) -> Option<Processor> {
        self.policy.choose(container, &self.processors)
    }

    fn text(&self, container: ContainerId) -> String {
        match self.of_container(container) {
            None => "any".to_owned(),
            Some(Processor { id, node: None }) => id.to_string(),
            Some(Processor { id, node: Some(node) }) => format!("{id} of node {node}"),
        }
    }
}

struct View {
    packing: PackingPlan,
    physical: Option<PhysicalPlan>,
    pinning: Pinning,
}

impl View {
    fn address(&self, container: usize) -> Option<&str> {
        self.physical.as_ref()?.stmgrs.get(container).map(|stmgr| stmgr.address.as_str())
    }

    fn json(&self) -> Value {
        let ended = self.physical.as_ref().map(|plan| plan.ended.as_slice()).unwrap_or_default();
        let containers = self.packing.containers.iter().enumerate().map(|(i, container)| {
            let tasks = container.tasks.iter().map(|task| {
                let mut value = serde_json::to_value(task).unwrap_or_default();
                value["ended"] = json!(ended.contains(&task.task));
                value
            });
            let processor = self.pinning.of_container(container.id);
            json!({
                "id": container.id, "address": self.address(i), "required": container.required,
                "processor": processor.map(|p| p.id), "node": processor.and_then(|p| p.node),
                "tasks": tasks.collect::<Value>(),
            })
        });
        json!({
            "topology": self.packing.topology,
            "epoch": self.physical.as_ref().map(|plan| plan.epoch),
            "affinity": self.pinning.name,
            "containers": containers.collect::<Value>(),
        })
    }

    fn text(&self) -> String {
        let containers = self.packing.containers.iter().enumerate();
        let rows = containers.flat_map(|(i, container)| {
            let address = self.address(i).unwrap_or("-").to_owned();
            let processor = self.pinning.text(container.id);
            container.tasks.iter().map(move |task| {
                vec![
                    container.id.to_string(),
                    task.task.to_string(),
                    task.component.clone(),
                    task.index.to_string(),
                    processor.clone(),
                    address.clone(),
                ]
            })
        });
        let plan = match &self.physical {
            Some(plan) => format!("plan of epoch {}", plan.epoch),
            None => "no plan distributed yet".to_owned(),
        };
        let (name, count) = (&self.packing.topology, self.packing.containers.len());
        let table = table(&["CONTAINER", "TASK", "COMPONENT", "INDEX", "PROCESSOR", "STMGR"], rows);
        let pinning = &self.pinning.name;
        format!(
            "{name}: {count} containers, {plan}; container 0 holds the tmaster\npinning on this host: {pinning}\n\n{table}"
        )
    }
}
