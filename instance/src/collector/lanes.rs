//! The open block of each destination.

use super::ack_lanes::AckLanes;
use super::kept::Kept;
use super::{EmitError, Rooted};
use crate::tuple::Record;
use egret_dataplane::frame::{
    AckKind, BLOCK_OVERHEAD, BatchBuilder, BatchHeader, Destination, FRESH, NoRoom, ROOT_BYTES, Root,
};
use egret_dataplane::ids::{StreamIndex, TaskId};
use egret_dataplane::memory::{Descriptor, OwnedBlock};
use std::ops::Range;

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

    /// Waits until a tree of the spout's [ledger](crate::ledger) has ended. The emitter has pushed all its open blocks
    /// before.
    ///
    /// # Errors
    /// [`EmitError::Stopped`] when the instance is ending, or where nothing would ever come.
    fn wait_for_closed(&mut self) -> Result<(), EmitError> {
        Err(EmitError::Stopped)
    }

    /// Whether this task has emitted more than it may by now.
    fn is_ahead(&self) -> bool {
        false
    }

    /// Waits until it may emit again. The emitter has pushed all its open blocks before.
    ///
    /// # Errors
    /// [`EmitError::Stopped`] when the instance is ending.
    fn wait_for_rate(&mut self) -> Result<(), EmitError> {
        Ok(())
    }

    /// Sends a block on its way.
    fn push(&mut self, block: OwnedBlock, descriptor: Descriptor);
}

/// All destinations of an emitter, each with the batch that is being filled for it.
pub(super) struct Lanes {
    source: TaskId,
    lanes: Vec<Lane>,
    outlet: Box<dyn Outlet>,
    open: usize,
    acks: AckLanes,
    kept: Kept,
    /// Makes the edge bases of batches; `None` where nothing is tracked.
    bases: Option<EdgeBases>,
}

struct Lane {
    target: Destination,
    stream: StreamIndex,
    /// The tasks that get a copy.
    tasks: Range<u32>,
    batch: Option<BatchBuilder>,
    /// The xor of the edges of a fresh tuple in it.
    fresh: u64,
}

/// What lanes need to track trees.
pub(super) struct Tracking {
    pub(super) last_task: u32,
    pub(super) seed: u64,
}

impl Lanes {
    pub(super) fn new(source: TaskId, outlet: Box<dyn Outlet>, tracking: Option<Tracking>) -> Self {
        let last_task = tracking.as_ref().map_or(0, |t| t.last_task);
        let bases = tracking.map(|t| EdgeBases(t.seed ^ u64::from(source.0)));
        let (acks, kept) = (AckLanes::new(source, last_task), Kept::default());
        Self { source, lanes: Vec::new(), outlet, open: 0, acks, kept, bases }
    }

    /// How many destinations there are: the number of the next one.
    pub(super) fn count(&self) -> usize {
        self.lanes.len()
    }

    /// Adds a destination, which is these tasks.
    pub(super) fn add(&mut self, target: Destination, stream: StreamIndex, tasks: Range<u32>) {
        self.lanes.push(Lane { target, stream, tasks, batch: None, fresh: 0 });
    }

    /// Whether tuples may have roots.
    #[inline]
    pub(super) fn is_tracking(&self) -> bool {
        self.bases.is_some()
    }

    /// Writes a tuple, whose archive takes so many bytes, into the open block of a destination, or into a new one, and says
    /// the xor of the edges of its copies; 0 when it has no roots.
    #[inline(always)]
    pub(super) fn append(
        &mut self,
        lane: usize,
        record: &impl Record,
        bytes: usize,
        rooted: impl Rooted,
    ) -> Result<u64, EmitError> {
        let to = &mut self.lanes[lane];
        if let Some(batch) = &mut to.batch
            && let Ok(place) = append(batch, record, bytes, rooted)
        {
            return Ok(if is_rooted(rooted) { to.edges(place) } else { 0 });
        }
        self.append_to_new(lane, record, bytes, rooted)
    }

    #[cold]
    #[inline(never)]
    fn append_to_new(
        &mut self,
        lane: usize,
        record: &impl Record,
        bytes: usize,
        rooted: impl Rooted,
    ) -> Result<u64, EmitError> {
        rooted.before_waiting();
        self.flush_lane(lane);
        if self.outlet.is_ahead() {
            self.flush();
            self.outlet.wait_for_rate()?;
        }
        let overhead = BLOCK_OVERHEAD + rooted.roots().len().max(1) * ROOT_BYTES;
        let block = self.take_block(bytes + overhead)?;
        let limit = block.bytes().len().saturating_sub(overhead);
        let edge_base = self.bases.as_mut().map_or(0, EdgeBases::next);
        let to = &mut self.lanes[lane];
        let header = BatchHeader { source: self.source, target: to.target, stream: to.stream, edge_base };
        to.open(BatchBuilder::new(block, header));
        self.open += 1;
        // The lane has the block, whatever happens: a record may panic, and a block that is too small would break the
        // outlet's promise.
        let appended = to.batch.as_mut().map(|batch| append(batch, record, bytes, rooted));
        let Some(Ok(place)) = appended else { return Err(EmitError::TooLarge { bytes, limit }) };
        Ok(if is_rooted(rooted) { to.edges(place) } else { 0 })
    }

    fn take_block(&mut self, min_bytes: usize) -> Result<OwnedBlock, EmitError> {
        if let Some(block) = self.outlet.take_block(min_bytes)? {
            return Ok(block);
        }
        self.flush();
        self.outlet.wait_for_block(min_bytes)
    }

    /// As [`tell`](Self::tell), if there is an open block for it; says whether there is.
    #[inline(always)]
    pub(super) fn tell_in_open(&mut self, kind: AckKind, root: Root, xor: u64) -> bool {
        self.acks.push(AckLanes::lane(kind, root), root, xor)
    }

    /// Tells the spout of a root that it was acked or failed. A root of no task is a damaged one and left out.
    #[inline]
    pub(super) fn tell(&mut self, kind: AckKind, root: Root, xor: u64) -> Result<(), EmitError> {
        if self.tell_in_open(kind, root, xor) { Ok(()) } else { self.tell_in_new(kind, root, xor) }
    }

    #[cold]
    #[inline(never)]
    fn tell_in_new(&mut self, kind: AckKind, root: Root, xor: u64) -> Result<(), EmitError> {
        let lane = AckLanes::lane(kind, root);
        if !self.acks.knows(lane) {
            return Ok(());
        }
        if let Some((block, descriptor)) = self.acks.close(lane) {
            self.outlet.push(block, descriptor);
        }
        let block = self.take_block(BLOCK_OVERHEAD)?;
        self.acks.open(lane, block, kind, root);
        self.acks.push(lane, root, xor);
        Ok(())
    }

    /// Pushes every open block, acks last: an ack that comes before what was emitted with it only keeps its tree open.
    pub(super) fn flush(&mut self) {
        if self.open > 0 {
            (0..self.lanes.len()).for_each(|lane| self.flush_lane(lane));
        }
        self.flush_acks();
    }

    fn flush_lane(&mut self, lane: usize) {
        if let Some(batch) = self.lanes[lane].batch.take() {
            let (block, descriptor) = batch.finish();
            self.open -= 1;
            self.outlet.push(block, descriptor);
        }
    }

    /// Pushes every open block of acks and fails.
    pub(super) fn flush_acks(&mut self) {
        while let Some((block, descriptor)) = self.acks.close_any() {
            self.outlet.push(block, descriptor);
        }
        self.kept.all_told();
    }

    /// The inputs that are kept.
    #[inline]
    pub(super) fn kept(&mut self) -> &mut Kept {
        &mut self.kept
    }

    /// Whether tuples of trees may be in hand that no block of another task holds: those that are kept, and those in open
    /// blocks.
    #[inline]
    pub(super) fn has_unnamed(&self) -> bool {
        self.is_tracking() && (self.open > 0 || self.kept.is_some())
    }

    /// How many blocks of acks and fails are open.
    #[inline]
    pub(super) fn open_acks(&self) -> usize {
        self.acks.open_count()
    }

    /// Drops every open block.
    pub(super) fn discard(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.batch = None);
        self.open = 0;
        self.acks.discard();
        self.kept.all_told();
    }

    /// How many blocks are open.
    pub(super) fn open(&self) -> usize {
        self.open + self.acks.open_count()
    }

    pub(super) fn outlet(&mut self) -> &mut dyn Outlet {
        self.outlet.as_mut()
    }
}

/// Appends a tuple of these trees, and says the place of its edges.
#[inline(always)]
fn append(
    batch: &mut BatchBuilder,
    record: &impl Record,
    bytes: usize,
    rooted: impl Rooted,
) -> Result<u32, NoRoom> {
    match rooted.only() {
        Some(root) => match batch.near(root) {
            Some(near) => batch.append_near(near, bytes, |space| record.write(space)),
            None => append_far(batch, record, bytes, root),
        },
        None => batch.append(rooted.roots(), bytes, |space| record.write(space)),
    }
}

#[cold]
#[inline(never)]
fn append_far(
    batch: &mut BatchBuilder,
    record: &impl Record,
    bytes: usize,
    root: Root,
) -> Result<u32, NoRoom> {
    batch.append(&[root], bytes, |space| record.write(space))
}

#[inline(always)]
fn is_rooted(rooted: impl Rooted) -> bool {
    rooted.only().is_some() || !rooted.roots().is_empty()
}

impl Lane {
    fn open(&mut self, batch: BatchBuilder) {
        self.fresh = self.tasks.clone().fold(0, |edges, task| edges ^ batch.edge(FRESH, TaskId(task)));
        self.batch = Some(batch);
    }

    /// The xor of the edges of the tuple with its edges at this place.
    #[inline(always)]
    fn edges(&self, place: u32) -> u64 {
        if place == FRESH { self.fresh } else { self.edges_of_its_own(place) }
    }

    #[inline(never)]
    fn edges_of_its_own(&self, place: u32) -> u64 {
        let Some(batch) = &self.batch else { return 0 };
        self.tasks.clone().fold(0, |edges, task| edges ^ batch.edge(place, TaskId(task)))
    }
}

/// Random numbers, none of them 0: SplitMix64 (Steele, Lea, Flood 2014).
struct EdgeBases(u64);

impl EdgeBases {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31).max(1)
    }
}
