//! The parker: no wake-up is lost. A lost one is a deadlock, which loom reports.

use crate::memory::park::{Parker, Sleep, Waker};
use crate::{Mapping, block, explore, small_ring};
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use std::sync::Arc;

fn parker() -> (Parker, Waker) {
    let map = Arc::new(Mapping::model(8));
    (Parker::new(map.clone(), 0), Waker::futex(map, 0))
}

#[test]
fn no_wake_up_is_lost() {
    explore(4, || {
        let (parker, waker) = parker();
        let work = loom::sync::Arc::new(AtomicBool::new(false));
        let producer = thread::spawn({
            let work = work.clone();
            move || {
                work.store(true, Ordering::Relaxed);
                waker.wake();
            }
        });
        while !work.load(Ordering::Relaxed) {
            parker.park(Sleep::Light, || work.load(Ordering::Relaxed), None);
        }
        producer.join().unwrap();
    });
}

#[test]
fn whoever_sleeps_for_a_ring_gets_all_of_it() {
    explore(3, || {
        let (parker, waker) = parker();
        let (mut producer, mut consumer) = small_ring();
        let sender = thread::spawn(move || {
            for n in 1..=2 {
                producer.push(block(n)).unwrap();
                waker.wake();
            }
        });
        for n in 1..=2 {
            let descriptor = loop {
                match consumer.pop() {
                    Some(descriptor) => break descriptor,
                    None => parker.park(Sleep::Light, || consumer.has_some(), None),
                }
            };
            assert_eq!(descriptor, block(n));
        }
        sender.join().unwrap();
    });
}

#[test]
fn what_cannot_wait_is_not_lost_behind_what_can() {
    explore(3, || {
        let (parker, waker) = parker();
        let (mut producer, mut consumer) = small_ring();
        let sender = thread::spawn(move || {
            producer.push(block(1)).unwrap();
            waker.nudge();
            producer.push(block(2)).unwrap();
            waker.wake();
        });
        let mut next = |sleep| loop {
            match consumer.pop() {
                Some(descriptor) => break descriptor,
                None => parker.park(sleep, || consumer.has_some(), None),
            }
        };
        // The one that sleeps deep gets both when the second is sent; then the one that sleeps lightly waits for nothing.
        assert_eq!(next(Sleep::Deep), block(1));
        assert_eq!(next(Sleep::Light), block(2));
        sender.join().unwrap();
    });
}

#[test]
fn a_light_sleep_ends_with_whatever_comes() {
    explore(4, || {
        let (parker, waker) = parker();
        let (mut producer, mut consumer) = small_ring();
        let sender = thread::spawn(move || {
            producer.push(block(1)).unwrap();
            waker.nudge();
        });
        while consumer.pop().is_none() {
            parker.park(Sleep::Light, || consumer.has_some(), None);
        }
        sender.join().unwrap();
    });
}
