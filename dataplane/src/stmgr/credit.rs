//! Flow control between stmgrs, so that what one sends always finds a block at the other.
//!
//! The receiver keeps a *window* of blocks per peer, destination and class, and grants them as *credit*. The sender
//! keeps a *queue* per peer and destination: blocks leave it in order, each against one credit of the class that its
//! length needs; ends of streams stand in the same queue and cost nothing. What is consumed at the receiver becomes
//! credit again, returned in batches. On a new link both forget: the sender has none, the receiver states anew what
//! is free. The sum always holds:
//!
//! ```text
//! window = credit at the sender + on the wire + being consumed + owed
//! ```

use super::route::Pair;
use crate::frame::Purpose;
use crate::ids::{BlockId, TaskId};
use crate::memory::CLASSES;
use std::collections::VecDeque;

/// Something that waits to go to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// A block with `used` bytes, which needs a credit of `class`.
    Block { block: BlockId, used: u32, class: u8, purpose: Purpose },
    /// All data of this local task that went into this queue stands before.
    End(TaskId),
}

/// The sender's side.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) pair: Pair,
    waiting: VecDeque<Waiting>,
    credit: [u32; CLASSES],
}

impl Queue {
    pub(super) fn new(pair: Pair) -> Self {
        Self { pair, waiting: VecDeque::new(), credit: [0; CLASSES] }
    }

    pub(super) fn push(&mut self, waiting: Waiting) {
        self.waiting.push_back(waiting);
    }

    /// The next thing that may go now.
    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let next = *self.waiting.front()?;
        if let Waiting::Block { class, .. } = next {
            let credit = &mut self.credit[usize::from(class)];
            *credit = credit.checked_sub(1)?;
        }
        self.waiting.pop_front()
    }

    /// Takes out all that waits for a spout: blocks, as no stream ends at one.
    pub(super) fn drain_blocks(&mut self) -> Vec<BlockId> {
        let block = |waiting| match waiting {
            Waiting::Block { block, .. } => Some(block),
            Waiting::End(_) => None,
        };
        std::mem::take(&mut self.waiting).into_iter().filter_map(block).collect()
    }

    /// Adds credit; `false` when it is more than the window.
    pub(super) fn add_credit(&mut self, class: usize, blocks: u32, window: &[u32; CLASSES]) -> bool {
        let sum = self.credit[class].checked_add(blocks).filter(|&sum| sum <= window[class]);
        self.credit[class] = sum.unwrap_or(self.credit[class]);
        sum.is_some()
    }

    pub(super) fn forget_credit(&mut self) {
        self.credit = [0; CLASSES];
    }

    /// Whether something may be sent.
    pub(super) fn has_credit(&self) -> bool {
        self.credit.iter().any(|&blocks| blocks > 0)
    }

    /// All that waits, in order.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.iter()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// The receiver's side.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) pair: Pair,
    /// The block used last is on top: its memory is the warmest.
    free: [Vec<BlockId>; CLASSES],
    owed: [u32; CLASSES],
    /// Credit goes back once this much is owed: a quarter of the window, so that the sender never runs dry for want
    /// of a message, and messages are few.
    batch: [u32; CLASSES],
}

impl Window {
    pub(super) fn new(pair: Pair, size: &[u32; CLASSES]) -> Self {
        let free = size.map(|blocks| Vec::with_capacity(blocks as usize));
        Self { pair, free, owed: [0; CLASSES], batch: size.map(|blocks| (blocks / 4).max(1)) }
    }

    /// Puts in a block that it has from the start.
    pub(super) fn stock(&mut self, class: usize, block: BlockId) {
        self.free[class].push(block);
    }

    /// Takes a block to receive into; `None` when the sender had no credit.
    pub(super) fn take(&mut self, class: usize) -> Option<BlockId> {
        // What is owed is free but not the sender's to use yet.
        if self.free[class].len() <= self.owed[class] as usize {
            return None;
        }
        self.free[class].pop()
    }

    /// A block is back; returns credit to state now, if it is enough.
    pub(super) fn put(&mut self, class: usize, block: BlockId) -> Option<u32> {
        self.free[class].push(block);
        self.owed[class] += 1;
        (self.owed[class] >= self.batch[class]).then(|| std::mem::take(&mut self.owed[class]))
    }

    /// What is free, all of it, to be stated on a new link.
    pub(super) fn restate(&mut self) -> [u32; CLASSES] {
        self.owed = [0; CLASSES];
        std::array::from_fn(|class| self.free[class].len() as u32)
    }

    /// Blocks in it that nobody receives into or consumes.
    pub(super) fn free_count(&self) -> u32 {
        self.free.iter().map(|f| f.len() as u32).sum()
    }
}
