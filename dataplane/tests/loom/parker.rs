//! The parker: no wake-up is lost. A lost one is a deadlock, which loom reports.

use crate::memory::park::{Parker, Waker};
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
            parker.park(|| work.load(Ordering::Relaxed), None);
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
                    None => parker.park(|| consumer.has_some(), None),
                }
            };
            assert_eq!(descriptor, block(n));
        }
        sender.join().unwrap();
    });
}
