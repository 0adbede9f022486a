//! The process that writes.

use super::{ACK_HEADER, BLOCK_HEADER, MAX_PENDING, PING_NS, Row, Side, TUPLE_HEADER, edge};
use crate::clock::now_ns;
use anyhow::{Result, ensure};
use egret_dataplane::host;
use egret_dataplane::ids::BlockId;
use egret_dataplane::memory::{Descriptor, DescriptorKind, OwnedBlock};
use std::time::Duration;

struct Emitter<'a> {
    row: &'a Row,
    side: Side,
    payload: Vec<u8>,
    free: Vec<OwnedBlock>,
    blocks: usize,
    sent: u64,
    acked: u64,
    /// The xor of each tuple in flight, at its number modulo the ledger's length. Those of one block stand side by side.
    ledger: Vec<u64>,
}

pub(super) fn run(row: &Row, side: Side) -> Result<()> {
    let class = side.pool.blocks(row.class());
    let own = if row.tracked {
        class.start..side.pool.blocks(row.class()).end.min(class.start + 64)
    } else {
        class
    };
    let free = own.map(|id| side.claim(BlockId(id))).collect::<Result<Vec<_>>>()?;
    let ledger = if row.tracked { vec![0; MAX_PENDING as usize] } else { Vec::new() };
    let payload = (0..row.tuple_bytes.saturating_sub(8)).map(|i| i as u8).collect();
    let blocks = free.len();
    Emitter { row, side, payload, free, blocks, sent: 0, acked: 0, ledger }.run()
}

impl Emitter<'_> {
    fn run(mut self) -> Result<()> {
        host::set_timer_slack(Duration::from_nanos(1));
        while self.sent < self.row.tuples {
            while let Some(descriptor) = self.side.end.consumer.pop() {
                self.take(descriptor)?;
            }
            let room = if self.row.tracked { self.room() } else { u64::MAX };
            match self.free.pop() {
                Some(block) if room > 0 => self.fill(block, room)?,
                block => {
                    self.free.extend(block);
                    let descriptor = self.side.next();
                    self.take(descriptor)?;
                }
            }
        }
        while self.free.len() < self.blocks || (self.row.tracked && self.acked < self.sent) {
            let descriptor = self.side.next();
            self.take(descriptor)?;
        }
        ensure!(self.ledger.iter().all(|&xor| xor == 0), "a tree is not complete");
        self.side.end.producer.push(Descriptor::end(egret_dataplane::ids::TaskId(1)))?;
        self.side.relay.wake();
        Ok(())
    }

    /// Entries of the ledger that are free and stand side by side.
    fn room(&self) -> u64 {
        (self.acked + MAX_PENDING - self.sent).min(MAX_PENDING - self.sent % MAX_PENDING)
    }

    fn fill(&mut self, mut block: OwnedBlock, room: u64) -> Result<()> {
        let step = self.row.step();
        let first = self.sent;
        let base = first.wrapping_mul(0xBF58_476D_1CE4_E5B9) | 1;
        let one_at_a_time = self.row.latencies.is_some();
        let most = if one_at_a_time { 1 } else { room.min(self.row.tuples - self.sent) };
        let due = now_ns() + PING_NS;
        if one_at_a_time {
            self.side.sleep.until_due(due);
        }
        let bytes = block.bytes_mut();
        bytes[..8].copy_from_slice(&first.to_le_bytes());
        bytes[8..BLOCK_HEADER].copy_from_slice(&base.to_le_bytes());
        let mut count = 0;
        for tuple in bytes[BLOCK_HEADER..].chunks_exact_mut(step).take(most as usize) {
            let n = if one_at_a_time { due } else { first + count };
            tuple[..8].copy_from_slice(&(self.payload.len() as u64).to_le_bytes());
            tuple[8..TUPLE_HEADER].copy_from_slice(&n.to_le_bytes());
            tuple[TUPLE_HEADER..TUPLE_HEADER + self.payload.len()].copy_from_slice(&self.payload);
            count += 1;
        }
        if self.row.tracked {
            let place = (first % MAX_PENDING) as usize;
            let entries = &mut self.ledger[place..place + count as usize];
            (0..).zip(entries).for_each(|(index, entry)| *entry = edge(base, index));
        }
        self.sent += count;
        self.side.push(DescriptorKind::Data, block, BLOCK_HEADER + count as usize * step, count as u32)
    }

    fn take(&mut self, descriptor: Descriptor) -> Result<()> {
        let block = self.side.claim(descriptor.block)?;
        if descriptor.kind == DescriptorKind::Grant {
            self.free.push(block);
            return Ok(());
        }
        let (first, edges) = block.bytes()[..descriptor.used as usize].split_at(ACK_HEADER);
        let place = (u64::from_le_bytes(first.try_into()?) % MAX_PENDING) as usize;
        let edges = edges.as_chunks::<8>().0;
        let mut acked = 0;
        for (entry, edge) in self.ledger[place..place + edges.len()].iter_mut().zip(edges) {
            *entry ^= u64::from_le_bytes(*edge);
            acked += u64::from(*entry == 0);
        }
        self.acked += acked;
        self.side.push(DescriptorKind::Done, block, 0, 0)
    }
}
