//! Ring, parker and the hand-over of blocks under every interleaving that loom finds.
//!
//! The files of `memory` are compiled here once more, with loom's atomics, a [`map`] that holds them, and a futex made of
//! loom's lock. Loom bounds what it explores by the number of preemptions; every test says how far it goes.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]
// loom runs its threads in one.
#![allow(clippy::arc_with_non_send_sync)]

mod handover;
mod host;
mod memory;
mod model;
mod parker;
mod ring;

// As the compiled files name it.
use egret_dataplane::ids;
use memory::descriptor::{Descriptor, DescriptorKind};
use memory::map::Mapping;
use memory::ring::{Consumer, LINE, Producer, RingLayout};
use std::sync::Arc;

/// Explores what `test` can do with at most so many preemptions of a thread.
fn explore(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(test);
}

/// A ring of two slots: full, empty and wrapped after three descriptors.
fn small_ring() -> (Producer, Consumer) {
    ring(2)
}

fn ring(capacity: usize) -> (Producer, Consumer) {
    let map = Arc::new(Mapping::model(2 * LINE + capacity * 16));
    let layout = RingLayout { cursors: 0, slots: 2 * LINE, capacity };
    (Producer::new(map.clone(), layout), Consumer::new(map, layout))
}

fn block(n: u32) -> Descriptor {
    Descriptor { kind: DescriptorKind::Data, block: ids::BlockId(n), target: n, used: n, count: n }
}
