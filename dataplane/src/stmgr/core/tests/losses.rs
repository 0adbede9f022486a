//! Tuples that nobody can name any more: which spouts fail all that is in flight.

use super::component;
use super::world::World;
use crate::ids::TaskId;
use crate::memory::DescriptorKind;
use crate::stmgr::core::{Core, Delivered, Effect};
use crate::stmgr::fault::Fault;
use crate::stmgr::route::{Peer, Slot};

const A: TaskId = TaskId(1);
const B: TaskId = TaskId(2);
const D: TaskId = TaskId(4);
const E_THERE: TaskId = TaskId(6);

/// In container 1 `b`; in 2 `c` and a task of `e`; in 3 the spouts `a` and `d`, and a task of `e`. They are wired
/// `a` → `b` → `c` and `d` → `e`.
fn world() -> World {
    let components = vec![
        component("a", 1, &[]),
        component("b", 1, &[("a", false)]),
        component("c", 1, &[("b", false)]),
        component("d", 1, &[]),
        component("e", 2, &[("d", false)]),
    ];
    let mut world = World::new(components, &[3, 1, 2, 3, 2, 3], 0, 1, true);
    for (c, i) in world.instances() {
        world.start(c, i);
    }
    (0..3).for_each(|a| (0..a).for_each(|b| world.link(a, b)));
    world
}

/// Whom a core tells, and about which of its spouts.
fn told(core: &mut Core) -> Vec<(Peer, Vec<TaskId>)> {
    let mut effects = Vec::new();
    core.take_effects(&mut effects);
    let peers = effects.iter().filter_map(|effect| match effect {
        Effect::TellFailAll(peer) => Some(*peer),
        _ => None,
    });
    peers.map(|peer| (peer, core.take_untold(peer))).collect()
}

/// How often the instance of a slot gets the word to fail all.
fn words(core: &mut Core, slot: u32) -> usize {
    let mut words = 0;
    let delivered = core.deliver(Slot(slot), |descriptor| {
        words += usize::from(descriptor.kind == DescriptorKind::FailAll);
        true
    });
    assert_eq!(delivered, Delivered::All);
    words
}

#[test]
fn of_a_broken_link_the_spouts_elsewhere_hear_whose_trees_were_sent_over_it() {
    let mut world = world();
    let core = &mut world.containers[0].core;
    core.peer_down(Peer(0));
    assert_eq!(told(core), [(Peer(1), vec![A])], "not `d`, of which nothing passes here");
    let core = &mut world.containers[1].core;
    core.peer_down(Peer(0));
    assert_eq!(told(core), [], "nothing goes from container 2 to 1");
    let core = &mut world.containers[2].core;
    core.peer_down(Peer(1));
    assert_eq!(told(core), [], "its own spouts are told by their rings");
    assert_eq!([0, 1].map(|slot| words(core, slot)), [1, 1]);
}

#[test]
fn a_peer_that_is_not_linked_hears_it_once_it_is() {
    let mut world = world();
    let core = &mut world.containers[0].core;
    core.peer_down(Peer(1));
    core.peer_down(Peer(0));
    assert_eq!(told(core), []);
    core.peer_up(Peer(0));
    assert_eq!(told(core), [], "the other one");
    core.peer_down(Peer(0));
    core.peer_up(Peer(1));
    assert_eq!(told(core), [(Peer(1), vec![A])]);
    core.peer_up(Peer(1));
    assert_eq!(told(core), [], "once");
}

#[test]
fn what_dies_with_a_bolt_unnamed_fails_with_the_trees_above_it_and_no_others() {
    let mut world = world();
    let core = &mut world.containers[0].core;
    core.detach(Slot(0), 0, false);
    assert_eq!(told(core), [], "it had nothing in hand");
    core.attach(Slot(0));
    core.detach(Slot(0), 0, true);
    assert_eq!(told(core), [(Peer(1), vec![A])]);
    let core = &mut world.containers[1].core;
    core.detach(Slot(1), 0, true);
    assert_eq!(told(core), [(Peer(1), vec![D])], "`e`");
    let core = &mut world.containers[2].core;
    core.detach(Slot(2), 0, true);
    assert_eq!(told(core), [], "`e` beside its spout");
    assert_eq!([0, 1].map(|slot| words(core, slot)), [0, 1]);
}

#[test]
fn a_peer_names_spouts_of_this_container_or_is_refused() {
    let mut world = world();
    let core = &mut world.containers[2].core;
    for (spouts, fault) in [
        ([A, TaskId(99)], Fault::UnknownTarget { target: 99 }),
        ([A, B], Fault::UnknownTarget { target: B.0 }),
        ([A, E_THERE], Fault::NoSuchTrees { target: E_THERE.0 }),
    ] {
        assert_eq!(core.fail_all_from_peer(&spouts), Err(fault));
        assert_eq!(words(core, 0), 0);
    }
    core.fail_all_from_peer(&[A, A]).unwrap();
    core.fail_all_from_peer(&[A]).unwrap();
    assert_eq!([0, 1].map(|slot| words(core, slot)), [1, 0], "one word for all that waits");
    core.fail_all_from_peer(&[]).unwrap();
}
