//! A process that reads.

use super::{BLOCK_HEADER, Row, Side, TUPLE_HEADER, edge};
use crate::clock::now_ns;
use crate::floors::xor_of;
use crate::latency::Recorder;
use anyhow::{Context, Result, bail};
use egret_dataplane::ids::BlockId;
use egret_dataplane::memory::{Descriptor, DescriptorKind, OwnedBlock, Pool};

struct Reader<'a> {
    row: &'a Row,
    side: Side,
    ack_blocks: Vec<OwnedBlock>,
    /// The open block of acks, and how much of it is written.
    acks: Option<(OwnedBlock, usize)>,
    recorder: Option<Recorder>,
    read: u64,
}

pub(super) fn run(row: &Row, index: u32, side: Side) -> Result<()> {
    let own = if row.tracked { row.ack_blocks(&side.pool, index) } else { 0..0 };
    let ack_blocks = own.map(|id| side.claim(BlockId(id))).collect::<Result<Vec<_>>>()?;
    let recorder = row.latencies.as_ref().map(|_| Recorder::new());
    Reader { row, side, ack_blocks, acks: None, recorder, read: 0 }.run()
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
        let step = self.row.step();
        for (index, tuple) in (0..).zip(bytes[BLOCK_HEADER..].chunks_exact(step)) {
            match &mut self.recorder {
                None => self.read ^= xor_of(&tuple[8..]),
                Some(recorder) => {
                    let sent = tuple[8..TUPLE_HEADER].try_into()?;
                    recorder.record(u64::from_le_bytes(sent), now_ns());
                }
            }
            if self.row.tracked {
                self.ack(root + index, edge(base, index))?;
            }
        }
        self.flush()?;
        self.side.push(DescriptorKind::Done, block, 0, 0)
    }

    #[inline]
    fn ack(&mut self, root: u64, edge: u64) -> Result<()> {
        if self.acks.as_ref().is_none_or(|(_, used)| used + 16 > Pool::STANDARD_BYTES) {
            self.flush()?;
            self.acks = Some((self.free_ack_block()?, 0));
        }
        let (block, used) = self.acks.as_mut().context("just opened")?;
        let record = &mut block.bytes_mut()[*used..*used + 16];
        record[..8].copy_from_slice(&root.to_le_bytes());
        record[8..].copy_from_slice(&edge.to_le_bytes());
        *used += 16;
        Ok(())
    }

    /// There are as many of them as data blocks, and a block of acks has room for those of a block of data.
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

    fn flush(&mut self) -> Result<()> {
        match self.acks.take() {
            Some((block, used)) => self.side.push(DescriptorKind::Ack, block, used, (used / 16) as u32),
            None => Ok(()),
        }
    }
}
