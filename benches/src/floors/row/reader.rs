//! A process that reads.

use super::{ACK_HEADER, BLOCK_HEADER, Row, Side, TUPLE_HEADER, edge};
use crate::clock::now_ns;
use crate::floors::xor_of;
use crate::latency::Recorder;
use anyhow::{Result, bail};
use egret_dataplane::ids::BlockId;
use egret_dataplane::memory::{Descriptor, DescriptorKind, OwnedBlock};

struct Reader<'a> {
    row: &'a Row,
    side: Side,
    /// There are as many of them as blocks of data.
    ack_blocks: Vec<OwnedBlock>,
    recorder: Option<Recorder>,
    read: u64,
}

pub(super) fn run(row: &Row, index: u32, side: Side) -> Result<()> {
    let own = if row.tracked { row.ack_blocks(&side.pool, index) } else { 0..0 };
    let ack_blocks = own.map(|id| side.claim(BlockId(id))).collect::<Result<Vec<_>>>()?;
    let recorder = row.latencies.as_ref().map(|_| Recorder::new());
    Reader { row, side, ack_blocks, recorder, read: 0 }.run()
}

impl Reader<'_> {
    fn run(mut self) -> Result<()> {
        loop {
            let descriptor = self.side.next();
            match descriptor.kind {
                DescriptorKind::Data => self.read(&descriptor)?,
                DescriptorKind::Grant => self.ack_blocks.push(self.side.claim(descriptor.block)?),
                _ => break,
            }
        }
        std::hint::black_box(self.read);
        match (&self.row.latencies, &self.recorder) {
            (Some(path), Some(recorder)) => Ok(recorder.write(path)?),
            _ => Ok(()),
        }
    }

    fn read(&mut self, descriptor: &Descriptor) -> Result<()> {
        let block = self.side.claim(descriptor.block)?;
        let bytes = &block.bytes()[..descriptor.used as usize];
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        let (root, base) = (word(0), word(8));
        let mut tuples = bytes[BLOCK_HEADER..].chunks_exact(self.row.step());
        match &mut self.recorder {
            None => self.read ^= tuples.fold(0, |all, tuple| all ^ xor_of(&tuple[8..])),
            Some(recorder) => tuples.try_for_each(|tuple| -> Result<()> {
                let sent = tuple[8..TUPLE_HEADER].try_into()?;
                recorder.record(u64::from_le_bytes(sent), now_ns());
                Ok(())
            })?,
        }
        if self.row.tracked {
            self.ack(root, base, descriptor.count)?;
        }
        self.side.push(DescriptorKind::Done, block, 0, 0)
    }

    /// Writes the edges of a block's tuples into a block of acks, which has room for those of the smallest tuples.
    fn ack(&mut self, root: u64, base: u64, count: u32) -> Result<()> {
        let mut block = self.free_ack_block()?;
        let used = ACK_HEADER + 8 * count as usize;
        let (first, edges) = block.bytes_mut()[..used].split_at_mut(ACK_HEADER);
        first.copy_from_slice(&root.to_le_bytes());
        for (index, ack) in (0..).zip(edges.as_chunks_mut::<8>().0) {
            *ack = edge(base, index).to_le_bytes();
        }
        self.side.push(DescriptorKind::Ack, block, used, count)
    }

    fn free_ack_block(&mut self) -> Result<OwnedBlock> {
        loop {
            if let Some(block) = self.ack_blocks.pop() {
                return Ok(block);
            }
            let descriptor = self.side.next();
            match descriptor.kind {
                DescriptorKind::Grant => self.ack_blocks.push(self.side.claim(descriptor.block)?),
                _ => bail!("more data came than there is room for acks"),
            }
        }
    }
}
