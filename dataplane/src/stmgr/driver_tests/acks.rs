//! Acks and losses on their way to a spout.

use super::harness::{Cluster, Instance};
use super::hostile::{FakePeer, batch_of_task_1};
use super::{REACTORS, await_running, chain, component, topology, wait_for};
use crate::frame::{AckBuilder, AckHeader, AckKind, AckRecord, Destination, Owner, Purpose, Root};
use crate::ids::{BlockId, Incarnation, TaskId};
use crate::memory::{DescriptorKind, Pool, PoolConfig};
use crate::message::{Latency, Message};
use crate::plan::{Topology, config};
use std::sync::Arc;

const SPOUT: TaskId = TaskId(1);
const BOLT: TaskId = TaskId(2);
const RECORDS: [AckRecord; 2] =
    [AckRecord { first: 0, mask: 2, xor: 2 }, AckRecord { first: 64, mask: 8, xor: 4 }];

fn tracked_chain() -> Topology {
    let mut topology = chain();
    topology.config.set(config::RELIABILITY_MODE, "ATLEAST_ONCE").unwrap();
    topology
}

fn root(id: u64) -> Root {
    Root { owner: Owner::new(SPOUT, Incarnation(1)), id }
}

#[test]
fn acks_and_losses_find_their_spout() {
    for (places, reactor) in [[1, 1], [1, 2]].into_iter().zip(REACTORS) {
        let cluster = Cluster::start(tracked_chain(), &places, reactor);
        let mut a = Instance::register(&cluster, places[0], 1, 1);
        let mut b = Instance::register(&cluster, places[1], 2, 1);
        let mut talks = cluster.run_all();
        await_running(&mut a);
        let to_b = Destination::Task(BOLT);
        // More than any window and quota, so blocks of acks must come home.
        for n in 0..200 {
            a.emit_rooted(to_b, &[root(n)], b"x");
            let got = b.next();
            b.consume(got);
            b.ack(SPOUT, &RECORDS);
            let got = a.next();
            let (header, records) = a.take_acks(got);
            assert_eq!((header.source, header.owner.spout(), header.kind), (BOLT, SPOUT, AckKind::Ack));
            assert_eq!(records, RECORDS);
        }
        // Two blocks, one of each small and large, are lost with the bolt that holds them.
        a.emit_rooted(to_b, &[root(1000)], b"x");
        a.emit_rooted(to_b, &[root(1001), root(1002)], &vec![7; 1 << 20]);
        b.next();
        b.next();
        drop(b);
        let mut lost = Vec::new();
        for _ in 0..2 {
            let got = a.next();
            lost.extend(a.take_lost(got).iter().map(|root| root.id));
        }
        lost.sort_unstable();
        assert_eq!(lost, [1000, 1001, 1002]);
        talks.last_mut().unwrap().heartbeat(|h| h.dropped == [("instance_died".to_owned(), 2)]);
        cluster.stop(talks, vec![a]);
    }
}

#[test]
fn spouts_at_both_ends_of_a_broken_link_fail_all() {
    let cluster = Cluster::start(tracked_chain(), &[1, 2], "epoll");
    let mut a = Instance::register(&cluster, 1, 1, 1);
    let b = Instance::register(&cluster, 2, 2, 1);
    let talks = cluster.run_all();
    await_running(&mut a);
    // Someone who takes over for container 1 ends the true link.
    let _peer = FakePeer::link(&cluster.address_of(1), &cluster.secret, 7);
    assert_eq!(a.next().kind, DescriptorKind::FailAll);
    cluster.stop(talks, vec![a, b]);
}

/// `a` → `b` → `c` over the link that breaks, with the spout elsewhere; `d` → `e` is nowhere near it.
#[test]
fn spouts_elsewhere_fail_all_when_a_link_breaks_that_their_tuples_go_over() {
    for reactor in REACTORS {
        let mut topology = topology(vec![
            component("a", 1, &[]),
            component("b", 1, &[("a", false)]),
            component("c", 1, &[("b", false)]),
            component("d", 1, &[]),
            component("e", 1, &[("d", false)]),
        ]);
        topology.config.set(config::RELIABILITY_MODE, "ATLEAST_ONCE").unwrap();
        let places = [3, 1, 2, 3, 2];
        let cluster = Cluster::start(topology, &places, reactor);
        let tasks = places.iter().zip(1..);
        let mut all: Vec<_> = tasks.map(|(&c, task)| Instance::register(&cluster, c, task, 1)).collect();
        let talks = cluster.run_all();
        all.iter_mut().for_each(await_running);
        // Someone who takes over for container 1 ends the true link between 1 and 2.
        let _peer = FakePeer::link(&cluster.address_of(1), &cluster.secret, 7);
        assert_eq!(all[0].next().kind, DescriptorKind::FailAll);
        all[4].ack(TaskId(4), &RECORDS);
        let got = all[3].next();
        assert_eq!(all[3].take_acks(got).1, RECORDS, "and no word before");
        cluster.stop(talks, all);
    }
}

/// A bolt dies that keeps inputs of blocks which it has given back.
#[test]
fn spouts_fail_all_when_a_bolt_dies_with_more_than_its_blocks() {
    for (places, reactor) in [[1, 1], [1, 2]].into_iter().zip(REACTORS) {
        let cluster = Cluster::start(tracked_chain(), &places, reactor);
        let mut a = Instance::register(&cluster, places[0], 1, 1);
        let mut b = Instance::register(&cluster, places[1], 2, 1);
        let talks = cluster.run_all();
        await_running(&mut a);
        a.emit_rooted(Destination::Task(BOLT), &[root(1)], b"x");
        let got = b.next();
        b.end.counters.store_unnamed(true);
        b.consume(got);
        drop(b);
        assert_eq!(a.next().kind, DescriptorKind::FailAll);
        // The next one has nothing in hand.
        let mut b = wait_for("a place for it", || Some(Instance::register(&cluster, places[1], 2, 2)));
        await_running(&mut b);
        a.emit_rooted(Destination::Task(BOLT), &[root(2)], b"x");
        b.next();
        drop(b);
        let got = a.next();
        assert_eq!(a.take_lost(got), [root(2)]);
        cluster.stop(talks, vec![a]);
    }
}

#[test]
fn a_spouts_latency_goes_to_the_tmaster_and_to_its_successor() {
    let mut cluster = Cluster::start(tracked_chain(), &[1, 1], "epoll");
    let mut a = Instance::register(&cluster, 1, 1, 1);
    let mut b = Instance::register(&cluster, 1, 2, 1);
    let mut talks = cluster.run_all();
    let latency =
        |task, len| Message::Latency(Latency { task, incarnation: Incarnation(1), histogram: vec![5; len] });
    a.talk.send(&latency(SPOUT, 100));
    a.talk.send(&latency(SPOUT, 200));
    talks[0].expect("the second", |m| (*m == latency(SPOUT, 200)).then_some(()));
    cluster.move_tmaster();
    drop(talks);
    let (mut talk, _) = cluster.accept();
    talk.expect("the second again", |m| (*m == latency(SPOUT, 200)).then_some(()));
    // Nobody speaks for another, or without end.
    a.talk.send(&latency(SPOUT, 65 << 10));
    a.talk.expect_close();
    b.talk.send(&latency(SPOUT, 1));
    b.talk.expect_close();
    cluster.stop(vec![talk], vec![]);
}

fn acks(source: TaskId, spout: TaskId) -> Vec<u8> {
    let pool = Arc::new(Pool::create(&PoolConfig { counts: [1, 0, 0], max_tuple_bytes: 1 << 20 }).unwrap());
    let header = AckHeader { source, owner: Owner::new(spout, Incarnation(1)), kind: AckKind::Ack };
    let mut acks = AckBuilder::new(pool.claim(BlockId(0)).unwrap(), header);
    RECORDS.iter().for_each(|record| record.ids().for_each(|id| acks.push(id, record.xor).unwrap()));
    let (block, descriptor) = acks.finish();
    block.bytes()[..descriptor.used as usize].to_vec()
}

#[test]
fn acks_of_a_peer_are_claims_too() {
    for reactor in REACTORS {
        // The spout is at the higher container, which takes connections.
        let cluster = Cluster::start(tracked_chain(), &[2, 1], reactor);
        let mut a = Instance::register(&cluster, 2, 1, 1);
        let b = Instance::register(&cluster, 1, 2, 1);
        let mut talks = cluster.run_all();
        await_running(&mut a);
        let (ack, lost) = (Purpose::Ack as u32, Purpose::Lost as u32);
        let mut peer = FakePeer::link(&cluster.address_of(1), &cluster.secret, 7);
        let right = acks(BOLT, SPOUT);
        let longer = [&right[..], &[0; 16]].concat();
        let mut more = right.clone();
        more[16] = 3;
        // Not of this length, not this many, not of this kind, of a spout, for a bolt, no lost tuples.
        for nonsense in [longer, more, batch_of_task_1(b"x"), acks(SPOUT, SPOUT), acks(BOLT, BOLT)] {
            peer.send_block(SPOUT.0, ack, nonsense);
        }
        peer.send_block(SPOUT.0, lost, right.clone());
        peer.send_block(SPOUT.0, ack, right.clone());
        peer.send_block(SPOUT.0, lost, batch_of_task_1(b"x"));
        assert_eq!(a.next().kind, DescriptorKind::FailAll, "the true link has ended");
        let got = a.next();
        assert_eq!(a.take_acks(got).1, RECORDS);
        let got = a.next();
        assert_eq!(a.take_lost(got), []);
        talks[1].heartbeat(|h| h.dropped.iter().any(|(cause, _)| cause == "malformed_acks"));
        // What only a faulty stmgr sends ends the link.
        for (purpose, body) in [(3, right.clone()), (0, batch_of_task_1(b"x")), (ack, vec![0; 17 << 14])] {
            let mut peer = FakePeer::link(&cluster.address_of(1), &cluster.secret, 8 + purpose);
            peer.send_block(SPOUT.0, purpose, body);
            while peer.read() {}
            assert_eq!(a.next().kind, DescriptorKind::FailAll);
        }
        cluster.stop(talks, vec![a, b]);
    }
}
