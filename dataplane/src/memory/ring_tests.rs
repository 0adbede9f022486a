//! The ring in one process; `tests/loom` has it under every interleaving.

use super::map::Mapping;
use super::ring::{Consumer, Full, LINE, Producer, RingLayout};
use super::{Descriptor, DescriptorKind};
use crate::ids::BlockId;
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn ring(capacity: usize) -> (Arc<Mapping>, Producer, Consumer) {
    let map = Arc::new(Mapping::create("ring-test", 4096).unwrap());
    let layout = RingLayout { cursors: 0, slots: 2 * LINE, capacity };
    let (producer, consumer) = (Producer::new(map.clone(), layout), Consumer::new(map.clone(), layout));
    (map, producer, consumer)
}

fn block(n: u32) -> Descriptor {
    Descriptor::of_block(DescriptorKind::Done, BlockId(n))
}

#[test]
fn full_empty_and_wrap() {
    let (_map, mut producer, mut consumer) = ring(4);
    let mut next = 0;
    for round in 0..10 {
        for i in 0..4 {
            producer.push(block(round * 4 + i)).unwrap();
        }
        assert_eq!(producer.push(block(0)), Err(Full));
        while let Some(d) = consumer.pop() {
            assert_eq!(d, block(next));
            next += 1;
        }
    }
    assert_eq!(next, 40);
    assert!(!consumer.has_some());
}

#[test]
fn order_holds_between_threads() {
    let (_map, mut producer, mut consumer) = ring(8);
    let sender = std::thread::spawn(move || {
        for n in 0..100_000 {
            while producer.push(block(n)).is_err() {
                std::thread::yield_now();
            }
        }
    });
    for n in 0..100_000 {
        let got = loop {
            match consumer.pop() {
                Some(d) => break d,
                None => std::thread::yield_now(),
            }
        };
        assert_eq!(got, block(n));
    }
    sender.join().unwrap();
}

#[test]
fn an_impossible_cursor_is_corrupt_and_harmless() {
    let (map, mut producer, mut consumer) = ring(4);
    map.words64(0, 1)[0].store(1 << 40, Ordering::Relaxed);
    assert_eq!(consumer.pop(), None);
    assert!(consumer.is_corrupt());
    map.words64(LINE, 1)[0].store(99, Ordering::Relaxed);
    for n in 0..4 {
        producer.push(block(n)).unwrap();
    }
    assert_eq!(producer.push(block(4)), Err(Full));
    assert!(producer.is_corrupt());
}

#[test]
fn an_unknown_kind_is_corrupt() {
    let (map, mut producer, mut consumer) = ring(4);
    producer.push(block(1)).unwrap();
    map.words64(2 * LINE, 2)[1].store(0xff << 56, Ordering::Relaxed);
    assert_eq!(consumer.pop(), None);
    assert!(consumer.is_corrupt());
}
