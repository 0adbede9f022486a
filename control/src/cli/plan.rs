//! `egret plan`: which task runs in which container; with `--dry-run`, which would.

use super::args::Source;
use super::failure::{Failure, Outcome};
use super::output::table;
use super::validate::pack;
use super::{Context, check_name, load};
use egret_dataplane::plan::{PackingPlan, PhysicalPlan};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::Path;

/// Runs the command.
pub(crate) fn run(context: &Context, target: &Path, dry_run: bool, args: &[OsString]) -> Outcome {
    let (packing, physical) = if dry_run {
        let source = Source { topology: target.to_owned(), args: args.to_vec() };
        (pack(&load::topology(context, &source)?)?, None)
    } else {
        running(context, target)?
    };
    let view = View { packing, physical };
    context.output.result(&view.json(), || view.text())
}

/// The plans of a topology in the cluster.
fn running(context: &Context, target: &Path) -> Result<(PackingPlan, Option<PhysicalPlan>), Failure> {
    let name = target.to_string_lossy();
    if let Err(absent) = check_name(context, &name) {
        return Err(hint(absent, target));
    }
    let state = context.state()?;
    let absent = || hint(Failure::absent(&name, context.global.cluster()), target);
    let packing = state.packing_plan(&name)?.ok_or_else(absent)?;
    Ok((packing, state.physical_plan(&name)?))
}

/// A file where a name should be was meant as a dry run.
fn hint(mut failure: Failure, target: &Path) -> Failure {
    if target.exists() {
        failure.message.push_str("; for a file or program that is not running, add --dry-run");
    }
    failure
}

struct View {
    packing: PackingPlan,
    physical: Option<PhysicalPlan>,
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
            json!({
                "id": container.id, "address": self.address(i), "required": container.required,
                "tasks": tasks.collect::<Value>(),
            })
        });
        json!({
            "topology": self.packing.topology,
            "epoch": self.physical.as_ref().map(|plan| plan.epoch),
            "containers": containers.collect::<Value>(),
        })
    }

    fn text(&self) -> String {
        let containers = self.packing.containers.iter().enumerate();
        let rows = containers.flat_map(|(i, container)| {
            let address = self.address(i).unwrap_or("-").to_owned();
            container.tasks.iter().map(move |task| {
                vec![
                    container.id.to_string(),
                    task.task.to_string(),
                    task.component.clone(),
                    task.index.to_string(),
                    address.clone(),
                ]
            })
        });
        let plan = match &self.physical {
            Some(plan) => format!("plan of epoch {}", plan.epoch),
            None => "no plan distributed yet".to_owned(),
        };
        let (name, count) = (&self.packing.topology, self.packing.containers.len());
        let table = table(&["CONTAINER", "TASK", "COMPONENT", "INDEX", "STMGR"], rows);
        format!("{name}: {count} containers, {plan}; container 0 holds the tmaster\n\n{table}")
    }
}
