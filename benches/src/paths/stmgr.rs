//! What a stmgr does for each batch.

use super::Work;
use super::rig::{Blocks, Rig, SINK, SOURCE};
use anyhow::{Result, bail, ensure};
use egret::Next;
use egret::topology::Runner;
use egret_dataplane::frame::{BatchReader, Destination, Purpose};
use egret_dataplane::ids::{BlockId, ContainerId};
use egret_dataplane::memory::{Descriptor, DescriptorKind, OwnedBlock, Pool};
use egret_dataplane::net::link::{FrameHeader, FrameKind, FrameLimits, FrameSink};
use egret_dataplane::net::session::Session;
use egret_dataplane::stmgr::core::{Core, Delivered, Received};
use egret_dataplane::stmgr::route::{Peer, Slot};
use egret_dataplane::stmgr::sizes::MIN_BATCH_BYTES;
use egret_dataplane::stmgr::watermarks::Watermarks;
use std::sync::Arc;

/// Bytes that one receive brings at most.
const PIECE: usize = 64 << 10;

/// A full block of tuples as the spout writes it.
fn batch(rig: &Rig, pool: &Arc<Pool>) -> Result<Vec<u8>> {
    let blocks = Blocks::new(pool, 0..2);
    let Runner::Spout(mut source) = rig.runner(SOURCE, &blocks, None)? else { bail!("task 1 is a spout") };
    let context = egret::Context::new(Arc::new(rig.plan.topology.clone()), SOURCE, Default::default());
    let Some(context) = context else { bail!("no task 1") };
    source.open(&context).map_err(|error| anyhow::anyhow!("{error}"))?;
    let next = source.next_tuples(1000).map_err(|error| anyhow::anyhow!("{error}"))?;
    ensure!(next == Next::Emitted, "the spout says {next:?}");
    let Some((block, descriptor)) = blocks.take() else { bail!("no block was pushed") };
    Ok(block.bytes()[..descriptor.used as usize].to_vec())
}

/// A core, and what it last gave its two instances.
struct Container {
    core: Core,
    granted: Vec<BlockId>,
    delivered: Vec<Descriptor>,
}

impl Container {
    fn new(rig: &Rig, container: u32) -> Result<Self> {
        let watermarks = Watermarks::of(&rig.plan.topology.config);
        let core = Core::new(rig.routes(container)?, rig.sizes, watermarks);
        Ok(Self { core, granted: Vec::with_capacity(256), delivered: Vec::with_capacity(256) })
    }

    fn deliver(&mut self) -> Result<()> {
        while let Some(slot) = self.core.next_ready() {
            let (granted, delivered) = (&mut self.granted, &mut self.delivered);
            let outcome = self.core.deliver(slot, |descriptor| {
                match descriptor.kind {
                    DescriptorKind::Grant => granted.push(descriptor.block),
                    _ => delivered.push(descriptor),
                }
                true
            });
            ensure!(outcome == Delivered::All, "not all was delivered: {outcome:?}");
        }
        Ok(())
    }

    /// The bolt of `slot` has executed all that it got.
    fn consume(&mut self, slot: Slot) -> Result<()> {
        while let Some(descriptor) = self.delivered.pop() {
            self.core.descriptor(slot, Descriptor::of_block(DescriptorKind::Done, descriptor.block))?;
        }
        self.deliver()
    }
}

pub(super) fn relay() -> Result<Work> {
    let rig = Rig::new(1, "ATMOST_ONCE")?;
    let mut container = Container::new(&rig, 1)?;
    let (source, sink) = (Slot(0), Slot(1));
    container.core.attach(source);
    container.core.attach(sink);
    container.deliver()?;
    let target = Destination::Task(SINK).to_u32();
    Ok(Box::new(move |batches| {
        for _ in 0..batches {
            let Some(block) = container.granted.pop() else { bail!("no block was granted") };
            let (used, count) = (Pool::STANDARD_BYTES as u32, 500);
            let data = Descriptor { kind: DescriptorKind::Data, block, target, used, count };
            container.core.descriptor(source, data)?;
            container.deliver()?;
            ensure!(container.delivered.len() == 1, "{} blocks came", container.delivered.len());
            container.consume(sink)?;
        }
        Ok(())
    }))
}

/// What a stmgr does with the frames of a peer.
struct Sink<'a> {
    core: &'a mut Core,
    pool: &'a Arc<Pool>,
}

impl FrameSink for Sink<'_> {
    type Block = OwnedBlock;
    type Error = anyhow::Error;

    fn begin_batch(&mut self, header: &FrameHeader) -> Result<OwnedBlock> {
        let target = Destination::from_u32(header.target);
        let block = self.core.begin_batch(Peer(0), target, Purpose::Data, header.len)?;
        self.pool.claim(block).ok_or_else(|| anyhow::anyhow!("block {block} is in use"))
    }

    fn batch(&mut self, header: &FrameHeader, block: OwnedBlock) -> Result<()> {
        let reader = BatchReader::new(&block.bytes()[..header.len as usize])?;
        reader.validate()?;
        let (head, count) = (reader.header(), reader.count());
        let received = Received { source: head.source, target: head.target, used: header.len, count };
        drop(block);
        ensure!(self.core.batch(Peer(0), Some(received), count), "the batch was dropped");
        Ok(())
    }

    fn control(&mut self, _: &[u8]) -> Result<()> {
        bail!("only batches come")
    }

    fn end(&mut self, _: &FrameHeader) -> Result<()> {
        bail!("only batches come")
    }

    fn credit(&mut self, _: &FrameHeader) -> Result<()> {
        bail!("only batches come")
    }
}

pub(super) fn receive() -> Result<Work> {
    let rig = Rig::new(2, "ATMOST_ONCE")?;
    // The spout's container is 1, the bolt's 2.
    ensure!(rig.plan.packing.container_of(SINK) == Some(ContainerId(2)), "the bolt is in container 2");
    let body = batch(&rig, &rig.pool(&rig.routes(1)?)?)?;
    let pool = rig.pool(&rig.routes(2)?)?;
    let mut container = Container::new(&rig, 2)?;
    container.core.attach(Slot(0));
    container.core.peer_up(Peer(0));
    let target = Destination::Task(SINK).to_u32();
    let header = FrameHeader { len: body.len() as u32, kind: FrameKind::Batch, flags: 0, target, aux: 0 };
    let frame = [&header.encode()[..], &body].concat();
    let mut session = Session::trusted(FrameLimits::batches(MIN_BATCH_BYTES, Pool::STANDARD_BYTES as u32));
    let mut effects = Vec::new();
    Ok(Box::new(move |batches| {
        for _ in 0..batches {
            for piece in frame.chunks(PIECE) {
                let mut sink = Sink { core: &mut container.core, pool: &pool };
                session.on_bytes(piece, |_| {}, &mut sink).map_err(|error| anyhow::anyhow!("{error}"))?;
            }
            container.deliver()?;
            ensure!(container.delivered.len() == 1, "{} blocks came", container.delivered.len());
            container.consume(Slot(0))?;
            // Credit for the peer.
            container.core.take_effects(&mut effects);
        }
        Ok(())
    }))
}
