//! Backpressure over several cores: who is held when, that nothing is stuck for it, and that lost statements heal.

use super::component;
use super::properties::{dropped, random_world, start_all};
use super::world::{Dice, World};
use crate::ids::TaskId;
use crate::stmgr::core::Delivered;
use crate::stmgr::counters::Cause;
use crate::stmgr::route::Slot;
use crate::stmgr::watermarks::Watermarks;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;

/// Spout `a` (task 1) feeds `b` (2) and `c` (3); spout `x` (4) feeds `y` (5).
fn two_branches(places: [u32; 5]) -> World {
    let components = vec![
        component("a", 1, &[]),
        component("b", 1, &[("a", false)]),
        component("c", 1, &[("a", false)]),
        component("x", 1, &[]),
        component("y", 1, &[("x", false)]),
    ];
    let mut world = World::new(components, &places, 1000, 7, false);
    start_all(&mut world);
    world
}

/// Who has a ring full of grants comes forward before it needs more, and is not looked after meanwhile.
#[test]
fn grants_beyond_a_full_ring_wait_for_their_task() {
    let components = vec![component("a", 1, &[]), component("b", 1, &[("a", false)])];
    let mut world = World::new(components, &[1, 1], 1, 1, false);
    let core = &mut world.containers[0].core;
    core.attach(Slot(0));
    let mut room = 2;
    let outcome = core.deliver(Slot(0), |_| {
        room -= 1;
        room >= 0
    });
    assert_eq!(outcome, Delivered::Waiting);
    assert_eq!(core.deliver(Slot(0), |_| true), Delivered::All);
}

/// Goes on for a while in which nothing but `frozen` tasks stands still.
fn go_on(world: &mut World, frozen: &[u32], rounds: usize) {
    for _ in 0..rounds {
        world.now += Duration::from_millis(10);
        for (c, i) in world.instances() {
            let executes = !frozen.contains(&world.containers[c].tasks[i].0);
            for what in (0..7).filter(|&what| what != 1 || executes) {
                world.step(c, i, what);
            }
        }
    }
}

fn held(world: &World) -> Vec<u32> {
    let instances = world.containers.iter().flat_map(|c| c.tasks.iter().zip(&c.instances));
    let mut held: Vec<_> = instances.filter(|(_, i)| i.held_back).map(|(task, _)| task.0).collect();
    held.sort_unstable();
    held
}

/// Goes on until a spout is not held. With quotas of three blocks a task that keeps up is behind for moments.
fn await_release(world: &mut World, frozen: &[u32], spout: u32) {
    for _ in 0..600 {
        if !held(world).contains(&spout) {
            return;
        }
        go_on(world, frozen, 1);
    }
    panic!("spout {spout} is held for ever");
}

/// For so long nothing lets the spout go on.
fn stays_held(world: &mut World, frozen: &[u32], spout: u32) {
    for _ in 0..300 {
        go_on(world, frozen, 1);
        assert!(held(world).contains(&spout), "spout {spout} goes on");
    }
}

#[test]
fn a_slow_task_holds_the_spouts_above_it_and_no_others() {
    for places in [[1, 1, 1, 1, 1], [1, 2, 3, 1, 2]] {
        let mut world = two_branches(places);
        go_on(&mut world, &[2], 300);
        stays_held(&mut world, &[2], 1);
        await_release(&mut world, &[2], 4);
        await_release(&mut world, &[], 1);
        go_on(&mut world, &[5], 300);
        stays_held(&mut world, &[5], 4);
        await_release(&mut world, &[5], 1);
    }
}

#[test]
fn a_spout_is_held_for_either_of_two_slow_tasks() {
    let mut world = two_branches([1, 2, 3, 1, 2]);
    for frozen in [&[2, 3][..], &[3], &[2, 3], &[2]] {
        go_on(&mut world, frozen, 300);
        stays_held(&mut world, frozen, 1);
    }
    await_release(&mut world, &[], 1);
}

#[test]
fn a_stmgr_that_cannot_deliver_holds_and_a_new_link_tells_how_it_stands() {
    let mut world = two_branches([1, 2, 3, 3, 3]);
    world.unlink(0, 1);
    // Nothing gets to container 2.
    go_on(&mut world, &[], 300);
    stays_held(&mut world, &[], 1);
    world.link(0, 1);
    await_release(&mut world, &[], 1);
    // A peer that comes back learns who is held.
    go_on(&mut world, &[5], 300);
    stays_held(&mut world, &[5], 4);
    world.unlink(1, 2);
    let holders = |world: &World| world.containers[1].core.pressure.holders();
    assert!(!holders(&world).contains(&TaskId(5)));
    world.link(1, 2);
    go_on(&mut world, &[5], 10);
    assert!(holders(&world).contains(&TaskId(5)));
}

#[test]
fn a_spout_that_dies_while_held_is_held_again_and_let_go() {
    let mut world = two_branches([1, 2, 2, 1, 1]);
    go_on(&mut world, &[2], 300);
    world.kill(0, 0);
    go_on(&mut world, &[2], 10);
    world.start(0, 0);
    stays_held(&mut world, &[2], 1);
    await_release(&mut world, &[], 1);
    world.settle();
    world.check_settled();
}

fn random_watermarks(dice: &mut Dice, drop: bool) -> Watermarks {
    let high_bytes = 1 + dice.below(100 << 10) as u64;
    Watermarks { high_bytes, low_bytes: dice.below(high_bytes as usize) as u64, drop }
}

/// A random world with random slow tasks and watermarks.
fn slow_world(seed: u64, tracked: bool, drop: bool) -> World {
    let mut dice = Dice::new(seed ^ 0x5105);
    let mut world = random_world(seed, tracked).with_watermarks(random_watermarks(&mut dice, drop));
    let tasks: Vec<TaskId> = world.containers.iter().flat_map(|c| c.tasks.clone()).collect();
    world.slow = tasks.into_iter().filter(|_| dice.below(3) == 0).collect();
    world
}

/// How often each stmgr began to hold for each task.
fn starts(world: &World) -> BTreeMap<TaskId, u64> {
    let mut starts = BTreeMap::new();
    for report in world.containers.iter().flat_map(|c| c.core.pressures(world.now)) {
        *starts.entry(report.task).or_default() += report.starts;
    }
    starts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// BR-020.
    #[test]
    fn slow_tasks_and_tiny_pools_always_drain(seed: u64, tracked: bool, steps in 0usize..4000) {
        let mut world = slow_world(seed, tracked, false);
        start_all(&mut world);
        (0..steps).for_each(|_| world.random_step());
        world.settle();
        world.check_settled();
        world.check_complete();
        let seconds = world.now.as_secs();
        if world.containers.len() == 1 {
            for (task, starts) in starts(&world) {
                prop_assert!(starts <= seconds / 2 + 1, "{starts} starts for task {task} in {seconds} s");
            }
        }
    }

    /// BR-011.
    #[test]
    fn lost_statements_heal_within_two_seconds(seed: u64, steps in 0usize..2000) {
        let mut world = slow_world(seed, false, false);
        world.forgetful = true;
        start_all(&mut world);
        (0..steps).for_each(|_| world.random_step());
        world.forgetful = false;
        for _ in 0..40 {
            world.now += Duration::from_millis(50);
            // Statements only: nothing is executed or emitted that would change them.
            for (c, i) in world.instances() {
                (0..10).for_each(|_| { world.step(c, i, 5); });
            }
        }
        let holders: Vec<_> = world.containers.iter().map(|c| c.core.pressure.holders()).collect();
        for (c, container) in world.containers.iter().enumerate() {
            prop_assert_eq!(&holders[c], &holders[0], "container {}", c);
            for (i, instance) in container.instances.iter().enumerate() {
                prop_assert_eq!(instance.held_back, container.core.is_held(Slot(i as u32)));
            }
        }
        world.settle();
        world.check_settled();
    }

    #[test]
    fn where_too_much_is_dropped_nobody_is_held_and_all_is_counted(seed: u64, tracked: bool, steps in 0usize..4000) {
        let mut world = slow_world(seed, tracked, true);
        start_all(&mut world);
        for _ in 0..steps {
            world.random_step();
            prop_assert!(held(&world).is_empty());
        }
        world.settle();
        world.check_settled();
        let lost = dropped(&world, Cause::Backpressure) + dropped(&world, Cause::TaskEnded);
        prop_assert_eq!(world.sent_tuples, world.executed_tuples + lost);
    }
}
