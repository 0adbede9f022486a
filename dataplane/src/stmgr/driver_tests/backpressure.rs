//! Spouts that are held through real stmgrs, and what must not wait meanwhile.

use super::harness::{Cluster, Instance, wait_for};
use super::hostile::FakePeer;
use super::{REACTORS, await_running, chain};
use crate::frame::Destination;
use crate::ids::{Epoch, TaskId};
use crate::message::{Backpressure, Holder, Message, RunState};
use crate::plan::config;
use crate::stmgr::core::tests::{component, topology};

const READER: Destination = Destination::Task(TaskId(2));

/// Emits blocks to task 2 until the spout is held; how many.
fn emit_until_held(spout: &mut Instance) -> usize {
    let mut emitted = 0;
    wait_for("the spout to be held", || {
        if spout.take_block(0).is_some_and(|block| {
            spout.free.push(block.id());
            true
        }) && !spout.end.hold.is_set()
        {
            spout.emit(READER, &[7; 15_000]);
            emitted += 1;
        }
        spout.end.hold.is_set().then_some(())
    });
    emitted
}

#[test]
fn a_spout_is_held_while_a_reader_is_behind_and_let_go_at_once() {
    for (reactor, places) in REACTORS.into_iter().flat_map(|r| [(r, [1, 1]), (r, [1, 2])]) {
        let cluster = Cluster::start(chain(), &places, reactor);
        let mut a = Instance::register(&cluster, 1, 1, 1);
        let mut b = Instance::register(&cluster, places[1], 2, 1);
        let mut talks = cluster.run_all();
        await_running(&mut a);
        let emitted = emit_until_held(&mut a);
        let own = talks[0].heartbeat(|h| !h.held.is_empty());
        assert_eq!(own.held, [TaskId(1)]);
        let slow = talks.last_mut().unwrap().heartbeat(|h| !h.pressure.is_empty());
        let [slow] = slow.pressure[..] else { panic!("{slow:?}") };
        assert_eq!((slow.task, slow.holds), (TaskId(2), true));
        for n in 0..emitted {
            // The last few are less than the low watermark, so it goes on before they are executed.
            if n == emitted - 2 {
                wait_for("the spout to go on", || (!a.end.hold.is_set()).then_some(()));
            }
            let got = b.next();
            assert_eq!(b.consume(got).1, [7; 15_000]);
        }
        let after = talks[0].heartbeat(|h| h.held.is_empty());
        assert!(after.pressure.iter().all(|p| !p.holds && p.behind_for_ms.is_none() && p.behind_us > 0));
        cluster.stop(talks, vec![a, b]);
    }
}

/// BR-016.
#[test]
fn plans_and_states_do_not_wait_behind_data() {
    for reactor in REACTORS {
        let mut chain = chain();
        chain.config.set(config::TASK_BLOCKS, "2048").unwrap();
        chain.config.set(config::HIGH_WATERMARK_MB, "100").unwrap();
        let cluster = Cluster::start(chain, &[1, 2], reactor);
        let mut a = Instance::register(&cluster, 1, 1, 1);
        let mut b = Instance::register(&cluster, 2, 2, 1);
        let mut talks = cluster.run_all();
        await_running(&mut a);
        await_running(&mut b);
        // More than the reader's ring and its window hold; it executes nothing.
        let emitted = 2000;
        for _ in 0..emitted {
            a.emit(READER, b"x");
        }
        let addresses = [0, 1].map(|position| cluster.address_of(position));
        let plan = Message::Plan(Box::new(cluster.plan(2, addresses.into_iter())));
        for talk in &mut talks {
            talk.send(&plan);
            talk.expect("the mesh", |m| (*m == Message::MeshWhole(Epoch(2))).then_some(()));
            talk.send(&Message::SetState(RunState::Draining));
        }
        for instance in [&mut a, &mut b] {
            instance.talk.expect("the plan", |m| (*m == plan).then_some(()));
            let draining = Message::SetState(RunState::Draining);
            instance.talk.expect("the state", |m| (*m == draining).then_some(()));
        }
        assert_eq!(b.counters.executed, 0);
        for _ in 0..emitted {
            let got = b.next();
            b.consume(got);
        }
        cluster.stop(talks, vec![a, b]);
    }
}

/// BR-011, and `reconnect_under_backpressure`: what a peer states last is what counts, as long as it is there.
#[test]
fn what_a_peer_states_counts_as_long_as_its_link_stands() {
    let readers = vec![
        component("x", 1, &[]),
        component("a", 1, &[]),
        component("b", 2, &[("x", false), ("a", false)]),
        component("other", 1, &[]),
    ];
    for reactor in REACTORS {
        let cluster = Cluster::start(topology(readers.clone()), &[1, 2, 1, 2, 2], reactor);
        let places = [(1, 1), (2, 2), (1, 3), (2, 4), (2, 5)];
        let mut all: Vec<_> = places.map(|(c, task)| Instance::register(&cluster, c, task, 1)).into();
        let talks = cluster.run_all();
        await_running(&mut all[1]);
        let mut peer = FakePeer::link(&cluster.address_of(1), &cluster.secret, 7);
        let holders = |version, tasks: &[u32]| {
            let holders = tasks.iter().map(|&task| Holder { task: TaskId(task), for_ms: 0 }).collect();
            Message::Backpressure(Backpressure { version, holders })
        };
        let (spout, other) = (&all[1], &all[4]);
        let wait_until = |held: bool| {
            wait_for("the spout to hear of it", || (spout.end.hold.is_set() == held).then_some(()));
            assert!(!other.end.hold.is_set(), "it is above nothing");
        };
        peer.tell(&holders(1, &[3]));
        wait_until(true);
        // The statement that it is over got lost; the next one tells the same.
        peer.tell(&holders(3, &[]));
        wait_until(false);
        peer.tell(&holders(2, &[3]));
        peer.tell(&holders(4, &[3, 4]));
        wait_until(true);
        drop(peer);
        wait_until(false);
        // A task that does not exist is a fault.
        let mut liar = FakePeer::link(&cluster.address_of(1), &cluster.secret, 8);
        liar.tell(&holders(1, &[3]));
        wait_until(true);
        liar.tell(&holders(2, &[99]));
        while liar.read() {}
        wait_until(false);
        cluster.stop(talks, all);
    }
}
