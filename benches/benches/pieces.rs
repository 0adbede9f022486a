//! Criterion benches of the pieces that a tuple passes: `cargo bench -p egret-benches`.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use egret::collector::{Emitter, SpoutCollector};
use egret::components::{NullSink, Number, Sequence};
use egret::ledger::{Ledger, Limits};
use egret::{TaskId, TopologyBuilder};
use egret_benches::paths::rig::{Blocks, Rig, SOURCE};
use egret_benches::paths::{PATHS, work};
use egret_dataplane::frame::{BatchBuilder, BatchHeader, BatchReader, Destination};
use egret_dataplane::ids::{BlockId, StreamIndex};
use egret_dataplane::memory::{Channel, Class, Descriptor, DescriptorKind, OwnedBlock, Pool, PoolConfig};
use std::hint::black_box;
use std::sync::Arc;

fn ring(c: &mut Criterion) {
    let channel = Channel::create().unwrap();
    let (mut near, mut far) = (channel.stmgr_end(), channel.instance_end());
    let descriptor = Descriptor::of_block(DescriptorKind::Done, BlockId(7));
    let mut group = c.benchmark_group("ring");
    group.throughput(Throughput::Elements(64));
    group.bench_function("push and pop 64 descriptors", |b| {
        b.iter(|| {
            (0..64).for_each(|_| near.producer.push(descriptor).unwrap());
            (0..64).for_each(|_| assert!(black_box(far.consumer.pop()).is_some()));
        });
    });
    group.finish();
}

fn block() -> OwnedBlock {
    let pool = Pool::create(&PoolConfig { counts: [1, 0, 0], max_tuple_bytes: 1 << 20 }).unwrap();
    let pool = Arc::new(pool);
    pool.claim(BlockId(pool.blocks(Class::Standard).start)).unwrap()
}

const HEADER: BatchHeader = BatchHeader {
    source: TaskId(1),
    target: Destination::Task(TaskId(2)),
    stream: StreamIndex(0),
    edge_base: 0,
};

/// Appends archives of 16 bytes until the block is full.
fn fill(block: OwnedBlock) -> (OwnedBlock, u32) {
    let mut batch = BatchBuilder::new(block, HEADER);
    let archive = [7_u8; 16];
    while batch.append(&[], archive.len(), |space| space.copy_from_slice(&archive)).is_ok() {}
    let (block, descriptor) = batch.finish();
    (block, descriptor.count)
}

fn frame(c: &mut Criterion) {
    let mut group = c.benchmark_group("frame");
    let (full, count) = fill(block());
    group.throughput(Throughput::Elements(count.into()));
    let mut spare = Some(block());
    group.bench_function("write a batch of 16 B tuples", |b| {
        b.iter(|| spare = Some(fill(spare.take().unwrap()).0));
    });
    group.bench_function("read it", |b| {
        b.iter(|| {
            let batch = BatchReader::new(full.bytes()).unwrap();
            batch.tuples().map(|tuple| u64::from(tuple.unwrap().archive[0])).sum::<u64>()
        });
    });
    group.bench_function("validate it", |b| {
        b.iter(|| BatchReader::new(black_box(full.bytes())).unwrap().validate().unwrap());
    });
    group.finish();
}

/// Chooses a task out of eight, and writes the tuple into its batch.
fn grouping(c: &mut Criterion) {
    let mut group = c.benchmark_group("grouping");
    group.throughput(Throughput::Elements(1));
    for name in ["shuffle", "fields", "partial key", "all", "global"] {
        let mut topology = TopologyBuilder::new("groupings");
        topology.spout("source", 1, Sequence::new).emits::<Number>();
        let sink = topology.bolt("sink", 8, || NullSink);
        match name {
            "shuffle" => sink.shuffle("source"),
            "fields" => sink.fields("source", ["n"]),
            "partial key" => sink.partial_key("source", ["n"]),
            "all" => sink.all("source"),
            _ => sink.global("source"),
        };
        let rig = Rig::of(topology).unwrap();
        let blocks = Blocks::new(&rig.pool(&rig.routes(1).unwrap()).unwrap(), 0..64);
        let emitter = Emitter::new(&rig.plan, SOURCE, &[], 7, Box::new(blocks)).unwrap();
        let mut collector = SpoutCollector::<()>::new(emitter);
        let mut n = 0;
        group.bench_function(name, |b| {
            b.iter(|| {
                n += 1;
                collector.emit(&Number { n }).untracked().unwrap();
            });
        });
    }
    group.finish();
}

/// A tree begins, has one edge, and ends, with 65,536 in flight.
fn ledger(c: &mut Criterion) {
    const PENDING: u64 = 1 << 16;
    let mut ledger = Ledger::new(Limits { max_pending: PENDING as u32, timeout_us: 30_000_000 });
    let mut ids = std::collections::VecDeque::new();
    c.bench_function("ledger/a tree among 65,536", |b| {
        b.iter(|| {
            while let Some(id) = ledger.next_id() {
                ledger.open(id, id | 1);
                ids.push_back(id);
            }
            let id = ids.pop_front().unwrap();
            ledger.ack(id, id | 1);
            ledger.next_ended()
        });
    });
}

/// Where a task is, in the largest plan that is measured.
fn router(c: &mut Criterion) {
    let mut topology = TopologyBuilder::new("router");
    topology.config("topology.containers", 100);
    topology.spout("source", 500, Sequence::new).emits::<Number>();
    topology.bolt("sink", 500, || NullSink).shuffle("source");
    let routes = Rig::of(topology).unwrap().routes(1).unwrap();
    let mut task = 0;
    c.bench_function("router/one of 1,000 tasks", |b| {
        b.iter(|| {
            task = task % 1000 + 1;
            routes.way(black_box(TaskId(task)))
        });
    });
}

/// The paths whose instructions are counted.
fn paths(c: &mut Criterion) {
    let mut group = c.benchmark_group("paths");
    for path in PATHS {
        let units = if path.unit == "batch" { 10 } else { 1000 };
        let mut work = work(path.name).unwrap();
        group.throughput(Throughput::Elements(units));
        group.bench_function(path.name, |b| b.iter(|| work(units).unwrap()));
    }
    group.finish();
}

criterion_group!(pieces, ring, frame, grouping, ledger, router, paths);
criterion_main!(pieces);
