//! The open block of each destination.

use super::EmitError;
use crate::tuple::Record;
use egret_dataplane::frame::{BLOCK_OVERHEAD, BatchBuilder, BatchHeader};
use egret_dataplane::memory::{Descriptor, OwnedBlock};

/// Where an emitter gets its blocks and leaves them.
pub trait Outlet {
    /// A free block of at least so many bytes, or `None` when all of the task's blocks are under way.
    ///
    /// # Errors
    /// [`EmitError::Stopped`] when the instance is ending.
    fn take_block(&mut self, min_bytes: usize) -> Result<Option<OwnedBlock>, EmitError>;

    /// As [`Outlet::take_block`], but waits until a block comes home. The emitter has pushed all its open blocks
    /// before: otherwise it could wait for what it holds itself.
    ///
    /// # Errors
    /// [`EmitError::Stopped`] when the instance is ending.
    fn wait_for_block(&mut self, min_bytes: usize) -> Result<OwnedBlock, EmitError>;

    /// Sends a block on its way.
    fn push(&mut self, block: OwnedBlock, descriptor: Descriptor);
}

/// All destinations of an emitter, each with the batch that is being filled for it.
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    outlet: Box<dyn Outlet>,
    open: usize,
}

struct Lane {
    header: BatchHeader,
    batch: Option<BatchBuilder>,
}

impl Lanes {
    pub(super) fn new(outlet: Box<dyn Outlet>) -> Self {
        Self { lanes: Vec::new(), outlet, open: 0 }
    }

    /// Adds a destination and says its number.
    pub(super) fn add(&mut self, header: BatchHeader) -> usize {
        self.lanes.push(Lane { header, batch: None });
        self.lanes.len() - 1
    }

    /// Writes a tuple into the open block of a destination, or into a new one.
    #[inline]
    pub(super) fn append(&mut self, lane: usize, record: &impl Record) -> Result<(), EmitError> {
        if let Some(batch) = &mut self.lanes[lane].batch
            && batch.append(&[], |space| record.write(space)).is_ok()
        {
            return Ok(());
        }
        self.append_to_new(lane, record)
    }

    #[cold]
    #[inline(never)]
    fn append_to_new(&mut self, lane: usize, record: &impl Record) -> Result<(), EmitError> {
        self.flush_lane(lane);
        let bytes = record.encoded_len();
        let block = self.take_block(bytes + BLOCK_OVERHEAD)?;
        let limit = block.bytes().len().saturating_sub(BLOCK_OVERHEAD);
        let mut batch = BatchBuilder::new(block, self.lanes[lane].header);
        let appended = batch.append(&[], |space| record.write(space));
        // A block that is too small would break the outlet's promise; it stays open all the same, not to be lost.
        self.lanes[lane].batch = Some(batch);
        self.open += 1;
        appended.map_err(|_| EmitError::TooLarge { bytes, limit })
    }

    fn take_block(&mut self, min_bytes: usize) -> Result<OwnedBlock, EmitError> {
        if let Some(block) = self.outlet.take_block(min_bytes)? {
            return Ok(block);
        }
        self.flush();
        self.outlet.wait_for_block(min_bytes)
    }

    /// Pushes every open block.
    pub(super) fn flush(&mut self) {
        if self.open > 0 {
            (0..self.lanes.len()).for_each(|lane| self.flush_lane(lane));
        }
    }

    fn flush_lane(&mut self, lane: usize) {
        if let Some(batch) = self.lanes[lane].batch.take() {
            let (block, descriptor) = batch.finish();
            self.open -= 1;
            self.outlet.push(block, descriptor);
        }
    }

    /// Drops every open block.
    pub(super) fn discard(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.batch = None);
        self.open = 0;
    }

    /// How many blocks are open.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    pub(super) fn outlet(&mut self) -> &mut dyn Outlet {
        self.outlet.as_mut()
    }
}
