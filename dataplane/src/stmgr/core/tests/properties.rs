//! What holds under every schedule.

use super::component;
use super::world::{Dice, World};
use crate::frame::Destination;
use crate::ids::TaskId;
use crate::plan::Component;
use crate::stmgr::counters::Cause;
use proptest::prelude::*;

/// A random acyclic topology and a random packing of it.
pub(super) fn random_world(seed: u64, tracked: bool) -> World {
    let mut dice = Dice::new(seed);
    let count = 2 + dice.below(4);
    let names: Vec<String> = (0..count).map(|i| format!("c{i}")).collect();
    let mut components: Vec<Component> = Vec::new();
    for i in 0..count {
        let mut inputs = Vec::new();
        // The first is a spout, and some others are.
        let above = if dice.below(5) == 0 { &[] } else { &names[..i] };
        for (at, from) in above.iter().enumerate() {
            // Each bolt reads the component before it at least, and some another stream of it, too.
            if at + 1 == i || dice.below(3) == 0 {
                let all = dice.below(2) == 0;
                inputs.push((from.as_str(), all));
                if dice.below(4) == 0 {
                    inputs.push((from.as_str(), !all));
                }
            }
        }
        components.push(component(&names[i], 1 + dice.below(3) as u32, &inputs));
    }
    let tasks: u32 = components.iter().map(|c| c.parallelism).sum();
    let containers = 1 + dice.below(3);
    let places: Vec<u32> = (0..tasks).map(|_| 1 + dice.below(containers) as u32).collect();
    World::new(components, &places, dice.below(20) as u32, seed, tracked)
}

pub(super) fn dropped(world: &World, cause: Cause) -> u64 {
    world.containers.iter().map(|c| c.core.counters.dropped(cause)).sum()
}

pub(super) fn start_all(world: &mut World) {
    for (c, i) in world.instances() {
        world.start(c, i);
    }
    for a in 0..world.containers.len() {
        (0..a).for_each(|b| world.link(a, b));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn without_faults_all_arrives_once_and_in_order(seed: u64, tracked: bool, steps in 0usize..3000) {
        let mut world = random_world(seed, tracked);
        // In any order of starting, too: instances and links come up while others already emit.
        for _ in 0..steps {
            let all = world.instances();
            let (c, i) = all[world.dice.below(all.len())];
            world.start(c, i);
            let (a, b) = (world.dice.below(world.containers.len()), world.dice.below(world.containers.len()));
            if a != b && world.dice.below(50) == 0 {
                world.link(a, b);
            }
            world.random_step();
        }
        world.settle();
        world.check_settled();
        world.check_complete();
    }

    #[test]
    fn a_dead_instance_loses_what_it_held_and_that_is_counted(seed: u64, tracked: bool, steps in 0usize..4000) {
        let mut world = random_world(seed, tracked);
        world.spouts_end_early |= seed % 4 == 0;
        start_all(&mut world);
        for _ in 0..steps {
            let all = world.instances();
            let (c, i) = all[world.dice.below(all.len())];
            match world.dice.below(200) {
                0 => world.kill(c, i),
                1..10 => world.start(c, i),
                _ => world.random_step(),
            }
        }
        world.settle();
        world.check_settled();
        let lost = dropped(&world, Cause::InstanceDied) + dropped(&world, Cause::TaskEnded);
        prop_assert_eq!(world.sent_tuples, world.executed_tuples + lost);
    }

    #[test]
    fn acks_get_lost_only_on_links_that_break(seed: u64, steps in 0usize..4000) {
        let mut world = random_world(seed, true);
        start_all(&mut world);
        for _ in 0..steps {
            let (a, b) = (world.dice.below(world.containers.len()), world.dice.below(world.containers.len()));
            match world.dice.below(200) {
                0 if a != b => world.unlink(a, b),
                1..10 if a != b => world.link(a, b),
                _ => world.random_step(),
            }
        }
        world.settle();
        world.check_settled();
        let void: u64 = world.containers.iter().map(|c| c.core.counters.void_acks).sum();
        prop_assert_eq!(world.acks.sent, world.acks.applied + world.acks.on_broken_links + void);
    }

    /// Of what `b` executes some comes from container 2, until that is gone.
    #[test]
    fn acks_that_nobody_can_get_stop_no_tuple_of_others(seed: u64, steps in 0usize..500) {
        let components = vec![component("a", 2, &[]), component("b", 1, &[("a", false)])];
        let (here, bolt, blocks) = (TaskId(1), TaskId(3), 40);
        let mut world = World::new(components, &[1, 2, 1], blocks, seed, true);
        start_all(&mut world);
        (0..steps).for_each(|_| world.random_step());
        world.unlink(0, 1);
        world.exhaust();
        let executed = &world.got[&(bolt, here, Destination::Task(bolt))];
        prop_assert_eq!(executed, &(0..blocks).collect::<Vec<_>>());
        world.settle();
        world.check_settled();
    }

    #[test]
    fn links_that_come_and_go_lose_only_what_was_on_them(seed: u64, tracked: bool, steps in 0usize..4000) {
        let mut world = random_world(seed, tracked);
        world.spouts_end_early |= seed % 4 == 0;
        start_all(&mut world);
        for _ in 0..steps {
            let (a, b) = (world.dice.below(world.containers.len()), world.dice.below(world.containers.len()));
            let all = world.instances();
            let (c, i) = all[world.dice.below(all.len())];
            match world.dice.below(300) {
                0..2 if a != b => world.unlink(a, b),
                2..20 if a != b => world.link(a, b),
                20 => world.kill(c, i),
                21..30 => world.start(c, i),
                _ => world.random_step(),
            }
        }
        world.settle();
        world.check_settled();
        prop_assert!(world.executed_tuples <= world.sent_tuples);
        if !tracked && world.container_ids().len() == 1 && dropped(&world, Cause::InstanceDied) == 0 {
            world.check_complete();
        }
    }
}
