//! The process in the middle: it passes descriptors on and touches no block.

use super::{Idle, Row};
use anyhow::{Context, Result};
use egret_dataplane::memory::{Channel, ChannelEnd, Descriptor, DescriptorKind, Waker};

struct End {
    ring: ChannelEnd,
    waker: Waker,
}

impl End {
    fn new(channel: &Channel) -> Self {
        Self { ring: channel.stmgr_end(), waker: channel.instance_waker() }
    }

    fn push(&mut self, descriptor: Descriptor) -> Result<()> {
        self.ring.producer.push(descriptor)?;
        self.waker.wake();
        Ok(())
    }
}

pub(super) fn run(row: &Row, channels: &[Channel]) -> Result<()> {
    let (bell, ends) = channels.split_last().context("no channels")?;
    let mut ends: Vec<End> = ends.iter().map(End::new).collect();
    let sleep = Idle { parker: bell.instance_parker(), spin_turns: row.spin_turns };
    // By block: readers that have not given it back, and the reader whose ack block it is.
    let mut readers: Vec<u32> = Vec::new();
    let mut owners: Vec<usize> = Vec::new();
    loop {
        let mut worked = false;
        for from in 0..ends.len() {
            while let Some(descriptor) = ends[from].ring.consumer.pop() {
                worked = true;
                let block = descriptor.block.0 as usize;
                if readers.len() <= block {
                    readers.resize(block + 1, 0);
                    owners.resize(block + 1, 0);
                }
                let grant = Descriptor::of_block(DescriptorKind::Grant, descriptor.block);
                match descriptor.kind {
                    DescriptorKind::Data => {
                        readers[block] = row.readers;
                        ends[1..].iter_mut().try_for_each(|end| end.push(descriptor))?;
                    }
                    DescriptorKind::Done if from == 0 => ends[owners[block]].push(grant)?,
                    DescriptorKind::Done => {
                        readers[block] -= 1;
                        if readers[block] == 0 {
                            ends[0].push(grant)?;
                        }
                    }
                    DescriptorKind::Ack => {
                        owners[block] = from;
                        ends[0].push(descriptor)?;
                    }
                    _ => return ends[1..].iter_mut().try_for_each(|end| end.push(descriptor)),
                }
            }
        }
        if !worked {
            sleep.until(|| ends.iter().any(|end| end.ring.consumer.has_some()));
        }
    }
}
