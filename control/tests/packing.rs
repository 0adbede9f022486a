//! Packing against its limits.
#![allow(clippy::unwrap_used)]

use egret_control::packing::{Packing, RoundRobin};
use egret_dataplane::ids::TaskId;
use egret_dataplane::plan::{Component, Config, PackingPlan, Program, Resources, Role, Topology, config};
use proptest::prelude::*;
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;

fn component(id: &str, parallelism: u32, ram_bytes: u64) -> Component {
    Component {
        id: id.to_owned(),
        role: Role::Spout,
        parallelism,
        kind: "sequence".to_owned(),
        args: "{}".to_owned(),
        outputs: Vec::new(),
        inputs: Vec::new(),
        resources: Resources { ram_bytes, ..Resources::default() },
        config: Config::default(),
    }
}

fn topology(components: Vec<Component>, entries: &[(&str, &str)]) -> Topology {
    let mut config = Config::default();
    for (key, value) in entries {
        config.set(key, value).unwrap();
    }
    Topology { name: "t".to_owned(), config, components, program: Program::Builtin }
}

fn refusal(topology: &Topology) -> String {
    RoundRobin.pack(topology).unwrap_err().to_string()
}

fn tasks_of(plan: &PackingPlan) -> Vec<Vec<u32>> {
    plan.containers.iter().map(|c| c.tasks.iter().map(|t| t.task.0).collect()).collect()
}

#[test]
fn tasks_go_round() {
    let t = topology(vec![component("a", 3, 0), component("b", 2, 0)], &[(config::CONTAINERS, "2")]);
    let plan = RoundRobin.pack(&t).unwrap();
    assert_eq!(tasks_of(&plan), [vec![1, 3, 5], vec![2, 4]]);
    // The stmgr's share counts.
    assert_eq!(plan.containers[1].required.ram_bytes, 3 * 128 * MIB);
    assert_eq!(plan.containers[1].required.cpu_millis, 200);
}

#[test]
fn without_a_number_and_limits_one_container_is_enough() {
    let t = topology(vec![component("a", 9, 0)], &[]);
    assert_eq!(RoundRobin.pack(&t).unwrap().containers.len(), 1);
}

#[test]
fn without_a_number_there_are_as_many_containers_as_the_limits_need() {
    // Two instances beside each stmgr.
    let t = topology(vec![component("a", 5, 0)], &[(config::CONTAINER_RAM, "384MiB")]);
    assert_eq!(tasks_of(&RoundRobin.pack(&t).unwrap()), [vec![1, 4], vec![2, 5], vec![3]]);
}

#[test]
fn there_is_no_container_without_a_task() {
    let t = topology(vec![component("a", 2, 0)], &[(config::CONTAINERS, "5")]);
    assert_eq!(RoundRobin.pack(&t).unwrap().containers.len(), 2);
}

/// BR-031.
#[test]
fn too_little_ram_names_container_needed_given_and_who_reserves_it() {
    let t = topology(vec![component("lines", 1, 64 * MIB)], &[(config::CONTAINER_RAM, "128MiB")]);
    let text = refusal(&t);
    for part in [
        "container 1 needs 192 MiB of RAM",
        "is given 128 MiB by `topology.container.ram`",
        "its stmgr reserves 128 MiB (`egret.stmgr.ram`)",
        "1 task of `lines` reserves 64 MiB",
        "to at least 192 MiB",
    ] {
        assert!(text.contains(part), "{part} in: {text}");
    }
}

#[test]
fn one_byte_is_too_little_and_said_so() {
    let t = topology(vec![component("lines", 1, 0)], &[(config::CONTAINER_RAM, "1")]);
    let text = refusal(&t);
    assert!(text.contains("needs 256 MiB of RAM, but is given 1 bytes"), "{text}");
}

#[test]
fn zero_is_no_limit_and_the_largest_number_is_none_either() {
    for limit in ["0", "18446744073709551615"] {
        let t = topology(vec![component("lines", 4, 0)], &[(config::CONTAINER_RAM, limit)]);
        assert_eq!(RoundRobin.pack(&t).unwrap().containers.len(), 1, "{limit}");
    }
}

#[test]
fn sums_over_64_bits_are_refused_not_wrapped() {
    let t = topology(vec![component("lines", 2, u64::MAX / 2)], &[(config::CONTAINERS, "1")]);
    assert!(refusal(&t).contains("container 1 needs"), "{}", refusal(&t));
}

#[test]
fn too_few_containers_name_the_fullest() {
    let components = vec![component("big", 2, 512 * MIB), component("small", 1, 0)];
    let t = topology(components, &[(config::CONTAINERS, "2"), (config::CONTAINER_RAM, "700MiB")]);
    let text = refusal(&t);
    assert!(text.contains("container 1 needs 768 MiB of RAM, but is given 700 MiB"), "{text}");
    assert!(text.contains("1 task of `big` reserves 512 MiB, 1 task of `small` reserves 128 MiB"), "{text}");
    // What the message proposes is enough.
    let components = t.components.clone();
    let t = topology(components, &[(config::CONTAINERS, "2"), (config::CONTAINER_RAM, "768MiB")]);
    assert!(RoundRobin.pack(&t).is_ok());
}

#[test]
fn cores_and_disk_are_limits_too() {
    let t = topology(vec![component("a", 1, 0)], &[(config::CONTAINER_CPU, "0.05")]);
    assert!(refusal(&t).contains("needs 0.100 cores of CPU, but is given 0.050 cores"), "{}", refusal(&t));
    let entries = [(config::CONTAINER_DISK, "1GiB"), (config::COMPONENT_DISK, "2GiB")];
    let t = topology(vec![component("a", 1, 0)], &entries);
    assert!(refusal(&t).contains("needs 2 GiB of disk"), "{}", refusal(&t));
}

/// BR-032: Heron gave all instances of a component the RAM left in the emptier of two containers.
#[test]
fn one_spout_and_two_bolts_on_two_containers_do_not_overcommit_either() {
    let components = vec![component("spout", 1, 0), component("bolt", 2, 0)];
    let t = topology(components, &[(config::CONTAINERS, "2"), (config::CONTAINER_RAM, "2GiB")]);
    let plan = RoundRobin.pack(&t).unwrap();
    for container in &plan.containers {
        let sum: u64 = container.tasks.iter().map(|t| t.resources.ram_bytes).sum();
        assert!(sum + 128 * MIB <= 2 << 30);
    }
}

/// Which component and index each task is.
fn identity(plan: &PackingPlan) -> BTreeMap<TaskId, (String, u32)> {
    let tasks = plan.containers.iter().flat_map(|c| &c.tasks);
    tasks.map(|t| (t.task, (t.component.clone(), t.index))).collect()
}

/// BR-026.
#[test]
fn a_task_is_the_same_whatever_the_containers() {
    let components = || vec![component("a", 3, 0), component("b", 4, 0), component("c", 1, 0)];
    let of = |containers: &str| {
        let t = topology(components(), &[(config::CONTAINERS, containers)]);
        identity(&RoundRobin.pack(&t).unwrap())
    };
    let one = of("1");
    assert_eq!(one[&TaskId(5)], ("b".to_owned(), 1));
    for containers in ["2", "3", "5", "8"] {
        assert_eq!(of(containers), one, "{containers} containers");
    }
}

proptest! {
    #[test]
    fn no_container_is_over_its_limit_and_every_task_is_placed_once(
        shapes in prop::collection::vec((1u32..6, 1u64..400), 1..6),
        containers in 0u32..6,
        limit_mib in 0u64..2000,
    ) {
        let components: Vec<_> = shapes.iter().enumerate()
            .map(|(i, (parallelism, mib))| component(&format!("c{i}"), *parallelism, mib * MIB)).collect();
        let (containers, limit) = (containers.to_string(), format!("{limit_mib}MiB"));
        let t = topology(components, &[(config::CONTAINERS, &containers), (config::CONTAINER_RAM, &limit)]);
        match RoundRobin.pack(&t) {
            Ok(plan) => {
                let mut placed: Vec<u32> = tasks_of(&plan).concat();
                placed.sort_unstable();
                prop_assert_eq!(placed, (1..=t.task_count()).collect::<Vec<_>>());
                for (number, container) in (1..).zip(&plan.containers) {
                    let sum: u64 = container.tasks.iter().map(|t| t.resources.ram_bytes).sum();
                    prop_assert_eq!(container.id.0, number);
                    prop_assert!(container.tasks.is_sorted_by_key(|t| t.task) && !container.tasks.is_empty());
                    prop_assert_eq!(container.required.ram_bytes, sum + 128 * MIB);
                    prop_assert!(limit_mib == 0 || container.required.ram_bytes <= limit_mib * MIB);
                }
            }
            // Only what cannot fit by round robin is refused.
            Err(error) => prop_assert!(limit_mib > 0, "{error}"),
        }
    }
}
