//! Several cores in one thread, under a random schedule.

mod backpressure;
mod hostile;
mod losses;
mod properties;
mod world;

use crate::ids::{ContainerId, TaskId};
use crate::plan::{
    Component, Config, ContainerPlan, Field, FieldKind, Grouping, Input, PackingPlan, Program, Resources,
    Role, Schema, Stream, TaskPlan, Topology,
};

/// A component by name, parallelism and inputs: `(from, is it a broadcast)`.
pub(in crate::stmgr) fn component(id: &str, parallelism: u32, inputs: &[(&str, bool)]) -> Component {
    let grouping = |all| if all { Grouping::All } else { Grouping::Shuffle };
    let schema = Schema { fields: vec![Field { name: "n".into(), kind: FieldKind::U64 }] };
    Component {
        id: id.into(),
        role: if inputs.is_empty() { Role::Spout } else { Role::Bolt },
        parallelism,
        kind: "test".into(),
        args: "null".into(),
        // A stream for each way of reading, since a bolt reads a stream once.
        outputs: ["default", "all"].map(|name| Stream { name: name.into(), schema: schema.clone() }).into(),
        inputs: inputs
            .iter()
            .map(|&(from, all)| Input {
                from: from.into(),
                stream: if all { "all" } else { "default" }.into(),
                grouping: grouping(all),
            })
            .collect(),
        resources: Resources::default(),
        config: Config::default(),
    }
}

pub(in crate::stmgr) fn topology(components: Vec<Component>) -> Topology {
    let topology =
        Topology { name: "t".into(), config: Config::default(), components, program: Program::Builtin };
    assert_eq!(topology.validate(), []);
    topology
}

/// Packs task `i + 1` into container `containers[i]`.
pub(in crate::stmgr) fn packing(topology: &Topology, containers: &[u32]) -> PackingPlan {
    let mut ids = containers.to_vec();
    ids.sort_unstable();
    ids.dedup();
    let plan = |&id: &u32| {
        let tasks = containers.iter().enumerate().filter(|&(_, &c)| c == id).map(|(i, _)| {
            let task = TaskId(i as u32 + 1);
            let (component, index) = topology.component_of(task).unwrap();
            let component = topology.components[component.0 as usize].id.clone();
            TaskPlan { task, component, index, resources: Resources::default() }
        });
        ContainerPlan { id: ContainerId(id), tasks: tasks.collect(), required: Resources::default() }
    };
    PackingPlan { topology: topology.name.clone(), containers: ids.iter().map(plan).collect() }
}
