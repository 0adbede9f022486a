//! The ring: nothing lost, doubled, torn or out of order, whoever dies when.

use crate::memory::atomics::live_for;
use crate::{Consumer, Producer, block, explore, small_ring};
use loom::thread;

/// More than the operations of anything here.
const STEPS: u32 = 24;

fn push(producer: &mut Producer, n: u32) {
    while producer.push(block(n)).is_err() {
        thread::yield_now();
    }
}

fn pop(consumer: &mut Consumer) -> u32 {
    loop {
        if let Some(descriptor) = consumer.pop() {
            assert_eq!(descriptor, block(descriptor.target), "torn");
            return descriptor.target;
        }
        thread::yield_now();
    }
}

#[test]
fn what_goes_in_comes_out_in_order_also_when_it_is_full_empty_and_wraps() {
    explore(3, || {
        let (mut producer, mut consumer) = small_ring();
        let sender = thread::spawn(move || (1..=4).for_each(|n| push(&mut producer, n)));
        for n in 1..=4 {
            assert_eq!(pop(&mut consumer), n);
        }
        sender.join().unwrap();
        assert_eq!(consumer.pop(), None);
        assert!(!consumer.is_corrupt());
    });
}

#[test]
fn a_producer_that_dies_leaves_whole_descriptors_only() {
    for steps in 0..STEPS {
        explore(2, move || {
            let (mut producer, mut consumer) = small_ring();
            let sender = thread::spawn(move || {
                let mut told = 0;
                live_for(steps, || {
                    for n in (1..=3).take_while(|n| producer.push(block(*n)).is_ok()) {
                        told = n;
                    }
                });
                told
            });
            // Both while it lives and after.
            let mut got = 0;
            let mut take = |consumer: &mut Consumer| {
                while let Some(descriptor) = consumer.pop() {
                    got += 1;
                    assert_eq!(descriptor, block(got));
                }
            };
            take(&mut consumer);
            let told = sender.join().unwrap();
            take(&mut consumer);
            assert!(!consumer.is_corrupt());
            assert!(got == told || got == told + 1, "{got} came of {told} that it had pushed");
        });
    }
}

#[test]
fn nothing_that_a_dead_consumer_has_not_taken_is_overwritten() {
    for steps in 0..STEPS {
        explore(2, move || {
            let (mut producer, mut consumer) = small_ring();
            let receiver = thread::spawn(move || {
                let mut taken = 0;
                live_for(steps, || {
                    for descriptor in (0..4).filter_map(|_| consumer.pop()) {
                        taken += 1;
                        assert_eq!(descriptor, block(taken));
                    }
                });
                taken
            });
            let mut sent = 0;
            for n in (1..=3).take_while(|n| producer.push(block(*n)).is_ok()) {
                sent = n;
            }
            let taken = receiver.join().unwrap();
            assert!(sent <= taken + 2, "{sent} went into a ring of 2 of which {taken} were taken");
            assert!(!producer.is_corrupt());
        });
    }
}
