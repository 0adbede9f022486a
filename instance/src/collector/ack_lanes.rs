//! The open block of acks, and the one of fails, for each spout task that a bolt has tuples of.

use egret_dataplane::frame::{AckBuilder, AckHeader, AckKind, Root};
use egret_dataplane::ids::TaskId;
use egret_dataplane::memory::{Descriptor, OwnedBlock};

/// All of them. They take no block on their own: whoever has an outlet gives it.
pub(super) struct AckLanes {
    source: TaskId,
    /// By the spout's task: its acks, then its fails. Empty where nothing is tracked.
    lanes: Vec<Option<AckBuilder>>,
    /// The open ones.
    open: Vec<usize>,
}

/// Where a record belongs.
#[derive(Clone, Copy)]
pub(super) struct AckLane(usize);

impl AckLanes {
    /// For tuples of tasks up to this one.
    pub(super) fn new(source: TaskId, last_task: u32) -> Self {
        let lanes = 2 * (last_task as usize + 1);
        Self { source, lanes: std::iter::repeat_with(|| None).take(lanes).collect(), open: Vec::new() }
    }

    #[inline]
    pub(super) fn lane(kind: AckKind, root: Root) -> AckLane {
        AckLane(2 * root.owner.spout().0 as usize + usize::from(kind == AckKind::Fail))
    }

    /// Writes what became of a tuple of this root; `false` when the lane has no open block about this process of the spout,
    /// or no room in it.
    #[inline(always)]
    pub(super) fn push(&mut self, lane: AckLane, root: Root, xor: u64) -> bool {
        match self.lanes.get_mut(lane.0) {
            Some(Some(open)) if open.header().owner == root.owner => open.push(root.id, xor).is_ok(),
            _ => false,
        }
    }

    /// Whether the plan has a task for the lane. A root of any other is a damaged one.
    pub(super) fn knows(&self, lane: AckLane) -> bool {
        lane.0 < self.lanes.len()
    }

    /// Gives a lane that was closed a block for records of this kind, about roots of this one's process.
    pub(super) fn open(&mut self, lane: AckLane, block: OwnedBlock, kind: AckKind, root: Root) {
        let header = AckHeader { source: self.source, owner: root.owner, kind };
        if let Some(place) = self.lanes.get_mut(lane.0) {
            *place = Some(AckBuilder::new(block, header));
            self.open.push(lane.0);
        }
    }

    /// Takes the open block of a lane, ready to go.
    pub(super) fn close(&mut self, lane: AckLane) -> Option<(OwnedBlock, Descriptor)> {
        let builder = self.lanes.get_mut(lane.0)?.take()?;
        self.open.retain(|&open| open != lane.0);
        Some(builder.finish())
    }

    /// Takes some open block, ready to go.
    #[inline]
    pub(super) fn close_any(&mut self) -> Option<(OwnedBlock, Descriptor)> {
        let lane = self.open.pop()?;
        self.lanes.get_mut(lane)?.take().map(AckBuilder::finish)
    }

    /// How many blocks are open.
    #[inline]
    pub(super) fn open_count(&self) -> usize {
        self.open.len()
    }

    /// Drops every open block.
    pub(super) fn discard(&mut self) {
        self.open.clear();
        self.lanes.iter_mut().for_each(|lane| *lane = None);
    }
}
