//! Whole stmgrs over both reactors: real sockets, rings and blocks, with instances and a tmaster played by the test.

mod acks;
mod backpressure;
mod harness;
mod hostile;
mod unread;

use super::core::tests::{component, topology};
use crate::frame::Destination;
use crate::ids::{Epoch, TaskId};
use crate::memory::DescriptorKind;
use crate::message::{Message, RunState};
use crate::plan::Topology;
use harness::{Cluster, Instance, wait_for};

const REACTORS: [&str; 2] = ["uring", "epoll"];

/// Spout `a` is task 1, bolt `b` task 2.
fn chain() -> Topology {
    topology(vec![component("a", 1, &[]), component("b", 1, &[("a", false)])])
}

/// Waits for the plan and the word to run.
fn await_running(instance: &mut Instance) {
    let running = Message::SetState(RunState::Running);
    instance.talk.expect("a plan", |m| matches!(m, Message::Plan(_)).then_some(()));
    instance.talk.expect("the start", |m| (*m == running).then_some(()));
}

#[test]
fn a_container_relays_blocks_in_place() {
    for reactor in REACTORS {
        let cluster = Cluster::start(chain(), &[1, 1], reactor);
        let mut a = Instance::register(&cluster, 1, 1, 1);
        let mut b = Instance::register(&cluster, 1, 2, 1);
        assert!(!a.accepted.ended && a.accepted.container.0 == 1);
        let mut talks = cluster.run_all();
        await_running(&mut a);
        await_running(&mut b);
        // More than the quota, so blocks must come back.
        for n in 0..1000u32 {
            let sent = a.emit(Destination::Task(TaskId(2)), &n.to_le_bytes());
            let got = b.next();
            assert_eq!(got.block, sent.block, "the very block that was written");
            assert_eq!(b.consume(got), (TaskId(1), n.to_le_bytes().to_vec()));
        }
        a.finish();
        let end = b.next();
        assert_eq!((end.kind, end.target), (DescriptorKind::End, 1));
        b.finish();
        // The counters come before the word that the task has ended.
        let heartbeat = talks[0].heartbeat(|h| h.tasks.iter().any(|t| t.task == TaskId(1) && t.sent == 1000));
        assert_eq!((heartbeat.copied_bytes, heartbeat.dropped), (0, vec![]));
        assert_eq!(heartbeat.processes.len(), 4);
        for task in [1, 2] {
            let ended = Message::TaskEnded(TaskId(task));
            talks[0].expect("the end", |m| (*m == ended).then_some(()));
        }
        cluster.stop(talks, vec![a, b]);
    }
}

#[test]
fn containers_relay_over_one_connection() {
    for reactor in REACTORS {
        let cluster = Cluster::start(chain(), &[1, 2], reactor);
        let mut a = Instance::register(&cluster, 1, 1, 1);
        let mut b = Instance::register(&cluster, 2, 2, 1);
        let mut talks = cluster.run_all();
        await_running(&mut a);
        let mut expected = Vec::new();
        // A slow reader first: credit runs out, and all of it arrives in order nevertheless.
        for n in 0..60u32 {
            expected.push(n.to_le_bytes().to_vec());
            a.emit(Destination::Task(TaskId(2)), &n.to_le_bytes());
        }
        for (n, len) in [(1u8, 1usize), (2, 64 << 10), (3, 1 << 20), (4, 4 << 20)] {
            let tuple = vec![n; len];
            a.emit(Destination::Task(TaskId(2)), &tuple);
            expected.push(tuple);
        }
        for tuple in expected {
            let got = b.next();
            assert!(b.consume(got) == (TaskId(1), tuple), "byte by byte, in order");
        }
        wait_for("all blocks of a", || {
            a.poll();
            (a.free.len() == 64 + 8 + 2).then_some(())
        });
        a.finish();
        assert_eq!((b.next().kind, b.end.consumer.has_some()), (DescriptorKind::End, false));
        b.finish();
        talks[1].heartbeat(|h| h.copied_bytes > 5 << 20);
        cluster.stop(talks, vec![a, b]);
    }
}

#[test]
fn a_broadcast_crosses_each_link_once_and_reaches_every_task() {
    for reactor in REACTORS {
        let all = topology(vec![component("a", 1, &[]), component("b", 4, &[("a", true)])]);
        let cluster = Cluster::start(all, &[1, 1, 2, 2, 2], reactor);
        let mut a = Instance::register(&cluster, 1, 1, 1);
        let mut readers: Vec<_> =
            [(1, 2), (2, 3), (2, 4), (2, 5)].map(|(c, task)| Instance::register(&cluster, c, task, 1)).into();
        let mut talks = cluster.run_all();
        await_running(&mut a);
        let tuple = vec![7; 1000];
        // More than quota and window together, so that all references must have been given up each time.
        for _ in 0..200 {
            let sent = a.emit(Destination::Broadcast(0), &tuple);
            for (i, reader) in readers.iter_mut().enumerate() {
                let got = reader.next();
                assert!(i > 0 || got.block == sent.block);
                assert_eq!(reader.consume(got), (TaskId(1), tuple.clone()));
            }
        }
        a.finish();
        for reader in &mut readers {
            assert_eq!(reader.next().kind, DescriptorKind::End);
        }
        let copied = 200 * (64 + 8 + 1000);
        talks[1].heartbeat(|h| h.copied_bytes == copied);
        readers.push(a);
        cluster.stop(talks, readers);
    }
}

#[test]
fn a_successor_gets_what_waits_and_what_was_held_is_counted() {
    for reactor in REACTORS {
        let cluster = Cluster::start(chain(), &[1, 1], reactor);
        let mut a = Instance::register(&cluster, 1, 1, 1);
        let mut b = Instance::register(&cluster, 1, 2, 1);
        let mut talks = cluster.run_all();
        await_running(&mut a);
        for n in 0..5u32 {
            a.emit(Destination::Task(TaskId(2)), &n.to_le_bytes());
        }
        let first = b.next();
        b.consume(first);
        wait_for("the rest to be delivered", || {
            (b.poll().is_some_and(|d| {
                b.consume(d);
                b.counters.executed == 3
            }))
            .then_some(())
        });
        drop(b);
        let heartbeat = talks[0].heartbeat(|h| !h.dropped.is_empty());
        assert_eq!(heartbeat.dropped, [("instance_died".to_owned(), 2)]);
        a.emit(Destination::Task(TaskId(2)), b"later");
        a.finish();
        let mut b = Instance::register(&cluster, 1, 2, 2);
        await_running(&mut b);
        let got = b.next();
        assert_eq!(b.consume(got), (TaskId(1), b"later".to_vec()));
        assert_eq!(b.next().kind, DescriptorKind::End);
        // One that comes after the task has ended is told so.
        b.finish();
        talks[0].expect("the end", |m| (*m == Message::TaskEnded(TaskId(2))).then_some(()));
        drop(b);
        let again = wait_for("a place for it", || Some(Instance::register(&cluster, 1, 2, 3)));
        assert!(again.accepted.ended);
        cluster.stop(talks, vec![a, again]);
    }
}

#[test]
fn the_newer_process_of_a_task_wins() {
    let cluster = Cluster::start(chain(), &[1, 1], "epoll");
    let mut old = Instance::register(&cluster, 1, 1, 1);
    let new = Instance::register(&cluster, 1, 1, 2);
    old.talk.expect_close();
    let b = Instance::register(&cluster, 1, 2, 1);
    let talks = cluster.run_all();
    cluster.stop(talks, vec![new, b]);
}

#[test]
fn a_lost_tmaster_stops_nothing_and_is_found_again() {
    for reactor in REACTORS {
        let mut cluster = Cluster::start(chain(), &[1, 2], reactor);
        let mut a = Instance::register(&cluster, 1, 1, 1);
        let mut b = Instance::register(&cluster, 2, 2, 1);
        let talks = cluster.run_all();
        await_running(&mut a);
        cluster.move_tmaster();
        drop(talks);
        a.emit(Destination::Task(TaskId(2)), b"without");
        let got = b.next();
        assert_eq!(b.consume(got).1, b"without");
        a.finish();
        assert_eq!(b.next().kind, DescriptorKind::End);
        let mut talks = vec![cluster.accept(), cluster.accept()];
        talks.sort_by_key(|(_, register)| register.container);
        assert!(talks.iter().all(|(_, register)| register.epoch == Epoch(1)));
        // Its end is told anew, whenever it came.
        assert!(talks[0].1.ended == [TaskId(1)], "{:?}", talks[0].1.ended);
        cluster.stop(talks.into_iter().map(|(talk, _)| talk).collect(), vec![a, b]);
    }
}
