//! Claims that do not hold: refused, and nothing changes.

use super::component;
use super::world::{SIZES, World};
use crate::frame::{Destination, Purpose};
use crate::ids::{BlockId, TaskId};
use crate::memory::{Descriptor, DescriptorKind};
use crate::stmgr::core::{Effect, Received};
use crate::stmgr::counters::Cause;
use crate::stmgr::fault::Fault;
use crate::stmgr::route::{Peer, Slot};

/// Tasks: spout `a` 1, bolt `b` 2 (reads `a`), bolt `c` 3 (reads `b` by broadcast) and 4; task 4 is in container 2.
fn world() -> World {
    world_of(false)
}

fn world_of(tracked: bool) -> World {
    let components =
        vec![component("a", 1, &[]), component("b", 1, &[("a", false)]), component("c", 2, &[("b", true)])];
    let mut world = World::new(components, &[1, 1, 1, 2], 5, 1, tracked);
    for (c, i) in world.instances() {
        world.start(c, i);
    }
    world.link(0, 1);
    world
}

fn refuses(world: &mut World, slot: u32, descriptor: Descriptor) -> Fault {
    let before = format!("{:?}", world.containers[0].core);
    let fault = world.containers[0].core.descriptor(Slot(slot), descriptor).unwrap_err();
    assert_eq!(format!("{:?}", world.containers[0].core), before, "{fault}: nothing changed");
    fault
}

fn data(block: u32, target: Destination, used: u32) -> Descriptor {
    let (kind, target) = (DescriptorKind::Data, target.to_u32());
    Descriptor { kind, block: BlockId(block), target, used, count: 1 }
}

#[test]
fn hostile_descriptors_are_refused_without_harm() {
    let mut world = world();
    let to_b = Destination::Task(TaskId(2));
    // Blocks 0..3 are the standard blocks of task 1, 3..6 those of task 2.
    for block in [3, 1_000_000, u32::MAX] {
        let fault = refuses(&mut world, 0, data(block, to_b, 100));
        assert_eq!(fault, Fault::NotHeld { block: BlockId(block) });
    }
    for used in [0, 63, SIZES.block_bytes[0] + 1, u32::MAX] {
        assert!(matches!(refuses(&mut world, 0, data(0, to_b, used)), Fault::BadLength { .. }));
    }
    for target in [0, 5, 0x7fff_ffff, 0x8000_0001, u32::MAX] {
        let fault = refuses(&mut world, 0, data(0, Destination::from_u32(target), 100));
        assert_eq!(fault, Fault::UnknownTarget { target });
    }
    for target in [Destination::Task(TaskId(1)), Destination::Task(TaskId(4)), Destination::Broadcast(0)] {
        let fault = refuses(&mut world, 0, data(0, target, 100));
        assert_eq!(fault, Fault::NotAReader { target: target.to_u32() });
    }
    let grant = Descriptor::of_block(DescriptorKind::Grant, BlockId(0));
    assert_eq!(refuses(&mut world, 0, grant), Fault::WrongKind);
    let done = Descriptor::of_block(DescriptorKind::Done, BlockId(0));
    assert_eq!(refuses(&mut world, 0, done), Fault::NotHeld { block: BlockId(0) });
}

#[test]
fn what_was_given_away_is_not_held_any_more() {
    let mut world = world();
    let core = &mut world.containers[0].core;
    let emission = data(0, Destination::Task(TaskId(2)), 100);
    core.descriptor(Slot(0), emission).unwrap();
    assert!(matches!(refuses(&mut world, 0, emission), Fault::NotHeld { .. }));
    // The reader may not say done before it has got the block, nor twice.
    let done = Descriptor::of_block(DescriptorKind::Done, BlockId(0));
    assert!(matches!(refuses(&mut world, 1, done), Fault::NotHeld { .. }));
    let _ = world.containers[0].core.deliver(Slot(1), |_| true);
    world.containers[0].core.descriptor(Slot(1), done).unwrap();
    assert!(matches!(refuses(&mut world, 1, done), Fault::NotHeld { .. }));
}

#[test]
fn nothing_comes_after_the_end() {
    let mut world = world();
    let core = &mut world.containers[0].core;
    core.descriptor(Slot(0), Descriptor::end(TaskId(1))).unwrap();
    let after = data(0, Destination::Task(TaskId(2)), 100);
    assert_eq!(refuses(&mut world, 0, after), Fault::AfterEnd { task: TaskId(1) });
    assert_eq!(refuses(&mut world, 0, Descriptor::end(TaskId(1))), Fault::AfterEnd { task: TaskId(1) });
}

#[test]
fn a_process_may_say_once_what_the_plan_said_before() {
    let mut world = world();
    let core = &mut world.containers[0].core;
    core.end_task(Slot(0));
    core.descriptor(Slot(0), Descriptor::end(TaskId(1))).unwrap();
    assert_eq!(refuses(&mut world, 0, Descriptor::end(TaskId(1))), Fault::AfterEnd { task: TaskId(1) });
}

/// BR-041.
#[test]
fn frames_of_a_peer_are_claims_too() {
    let mut world = world();
    // Container 2 receives the broadcast of `b`, nothing else.
    let core = &mut world.containers[1].core;
    let (peer, broadcast) = (Peer(0), Destination::Broadcast(0));
    let before = format!("{core:?}");
    for target in [Destination::Task(TaskId(3)), Destination::Task(TaskId(99)), Destination::Broadcast(1)] {
        assert!(matches!(
            core.begin_batch(peer, target, Purpose::Data, 100),
            Err(Fault::UnknownTarget { .. })
        ));
    }
    assert!(matches!(core.begin_batch(peer, broadcast, Purpose::Data, 2 << 20), Err(Fault::NoCredit { .. })));
    assert!(matches!(core.credit(peer, broadcast, 0, 1), Err(Fault::UnknownTarget { .. })));
    assert!(core.end_from_peer(peer, TaskId(4), TaskId(1)).is_err(), "a is not upstream of c");
    assert!(core.end_from_peer(peer, TaskId(4), TaskId(4)).is_err(), "task 4 is not at the peer");
    assert!(core.end_from_peer(peer, TaskId(3), TaskId(2)).is_err(), "task 3 is not here");
    assert_eq!(format!("{core:?}"), before);
    let other = &mut world.containers[0].core;
    for (class, blocks) in [(0, 3), (0, u32::MAX), (3, 1), (99, 0)] {
        assert!(matches!(other.credit(peer, broadcast, class, blocks), Err(Fault::TooMuchCredit { .. })));
    }
}

#[test]
fn a_peer_without_credit_is_refused() {
    let mut world = world();
    let core = &mut world.containers[1].core;
    let broadcast = Destination::Broadcast(0);
    let received = Received { source: TaskId(2), target: broadcast, used: 100, count: 1 };
    for _ in 0..SIZES.window[0] {
        core.begin_batch(Peer(0), broadcast, Purpose::Data, 100).unwrap();
        assert!(core.batch(Peer(0), Some(received), 1));
    }
    assert!(matches!(core.begin_batch(Peer(0), broadcast, Purpose::Data, 100), Err(Fault::NoCredit { .. })));
}

#[test]
fn nonsense_in_a_received_batch_is_dropped_and_its_block_credited_again() {
    let mut world = world();
    let core = &mut world.containers[1].core;
    let broadcast = Destination::Broadcast(0);
    let wrong_source = Received { source: TaskId(1), target: broadcast, used: 100, count: 7 };
    let wrong_target =
        Received { source: TaskId(2), target: Destination::Task(TaskId(4)), used: 100, count: 7 };
    let mut effects = Vec::new();
    for received in [None, Some(wrong_source), Some(wrong_target)] {
        core.begin_batch(Peer(0), broadcast, Purpose::Data, 100).unwrap();
        assert!(!core.batch(Peer(0), received, 7));
        core.take_effects(&mut effects);
        let credit = Effect::SendCredit { peer: Peer(0), target: broadcast, class: 0, blocks: 1 };
        assert_eq!(effects, [credit]);
    }
    assert_eq!(core.counters.dropped(Cause::Malformed), 21);
}

fn acks(block: u32, target: u32, used: u32) -> Descriptor {
    Descriptor { kind: DescriptorKind::Ack, ..data(block, Destination::from_u32(target), used) }
}

#[test]
fn acks_of_an_instance_are_claims_too() {
    // Without trees there is nothing to ack.
    assert_eq!(refuses(&mut world(), 1, acks(3, 1, 80)), Fault::NoSuchTrees { target: 1 });
    let mut world = world_of(true);
    // Blocks 3..6 are the standard blocks of task 2. With acks, the windows follow those of the tasks.
    assert_eq!(refuses(&mut world, 0, acks(0, 1, 80)), Fault::WrongKind, "of a spout");
    for target in [2, 3, 4] {
        assert_eq!(refuses(&mut world, 1, acks(3, target, 80)), Fault::NoSuchTrees { target }, "to a bolt");
    }
    for target in [0, 5, 0x8000_0000, u32::MAX] {
        assert_eq!(refuses(&mut world, 1, acks(3, target, 80)), Fault::UnknownTarget { target });
    }
    assert_eq!(refuses(&mut world, 1, acks(0, 1, 80)), Fault::NotHeld { block: BlockId(0) });
    for used in [0, 63, SIZES.block_bytes[0] + 1, u32::MAX] {
        assert!(matches!(refuses(&mut world, 1, acks(3, 1, used)), Fault::BadLength { .. }));
    }
    // A larger block, too, may hold no more acks than a standard one.
    let blocks = &world.containers[0].core.blocks;
    let medium = *blocks.own(Slot(1)).iter().find(|&&block| blocks.class(block) == 1).unwrap();
    let too_much = acks(medium.0, 1, SIZES.block_bytes[0] + 1);
    assert!(matches!(refuses(&mut world, 1, too_much), Fault::BadLength { .. }));
    for kind in [DescriptorKind::Lost, DescriptorKind::FailAll] {
        let said = Descriptor { kind, ..acks(3, 1, 80) };
        assert_eq!(refuses(&mut world, 1, said), Fault::WrongKind);
    }
    let core = &mut world.containers[0].core;
    core.descriptor(Slot(1), acks(3, 1, 80)).unwrap();
    assert_eq!(refuses(&mut world, 1, acks(3, 1, 80)), Fault::NotHeld { block: BlockId(3) });
    let core = &mut world.containers[0].core;
    core.descriptor(Slot(1), Descriptor::end(TaskId(2))).unwrap();
    assert_eq!(refuses(&mut world, 1, acks(4, 1, 80)), Fault::AfterEnd { task: TaskId(2) });
}

#[test]
fn a_spout_without_a_process_gets_nothing_later() {
    let mut world = world_of(true);
    let core = &mut world.containers[0].core;
    core.descriptor(Slot(1), acks(3, 1, 80)).unwrap();
    core.descriptor(Slot(1), acks(4, 1, 80)).unwrap();
    let mut taken = 0;
    let _ = core.deliver(Slot(0), |descriptor| {
        taken += u32::from(descriptor.kind == DescriptorKind::Ack);
        taken < 2
    });
    core.peer_down(Peer(0));
    // One in its hands, one on its way, one that comes too late, and the word to fail all.
    core.detach(Slot(0), 0, false);
    core.descriptor(Slot(1), acks(5, 1, 80)).unwrap();
    assert_eq!(core.counters.void_acks, 3);
    assert_eq!(core.blocks.away(), 0);
    core.attach(Slot(0));
    let _ = core.deliver(Slot(0), |descriptor| {
        assert_eq!(descriptor.kind, DescriptorKind::Grant);
        true
    });
}

#[test]
fn blocks_for_spouts_that_do_not_fit_are_dropped_and_credited_again() {
    let mut world = world_of(true);
    let core = &mut world.containers[0].core;
    let (peer, spout) = (Peer(0), Destination::Task(TaskId(1)));
    assert_eq!(core.begin_batch(peer, spout, Purpose::Data, 100), Err(Fault::WrongKind));
    let too_long = core.begin_batch(peer, spout, Purpose::Ack, SIZES.block_bytes[0] + 1);
    assert!(matches!(too_long, Err(Fault::NoCredit { .. })));
    let received = |source, target| Received { source: TaskId(source), target, used: 100, count: 7 };
    // Task 4 alone is at the peer. What is lost may have been written by anyone below the spout, for anyone.
    let bolt = Destination::Task(TaskId(4));
    let wrong = [
        (Purpose::Ack, None),
        (Purpose::Ack, Some(received(1, spout))),
        (Purpose::Ack, Some(received(2, spout))),
        (Purpose::Ack, Some(received(4, bolt))),
        (Purpose::Lost, None),
        (Purpose::Lost, Some(received(9, bolt))),
    ];
    let mut effects = Vec::new();
    for (purpose, received) in wrong {
        core.begin_batch(peer, spout, purpose, 100).unwrap();
        assert!(!core.batch(peer, received, 7), "{purpose:?} {received:?}");
        core.take_effects(&mut effects);
        assert_eq!(effects, [Effect::SendCredit { peer, target: spout, class: 0, blocks: 1 }]);
    }
    assert_eq!(core.counters.dropped(Cause::MalformedAcks), 42);
    assert_eq!(core.counters.dropped(Cause::Malformed), 0);
    for (purpose, received) in [(Purpose::Ack, received(4, spout)), (Purpose::Lost, received(2, bolt))] {
        core.begin_batch(peer, spout, purpose, 100).unwrap();
        assert!(core.batch(peer, Some(received), 7));
    }
    let other = &mut world.containers[1].core;
    let broadcast = Destination::Broadcast(0);
    assert_eq!(other.begin_batch(peer, broadcast, Purpose::Ack, 100), Err(Fault::WrongKind));
    for (class, blocks) in [(0, 3), (1, 2)] {
        assert!(matches!(other.credit(peer, spout, class, blocks), Err(Fault::TooMuchCredit { .. })));
    }
}
