//! The 16 bytes that name a block in a ring.
//!
//! ```text
//!  0       4        8      12        15     16
//!  | block | target | used | count   | kind |
//!  |  u32  |  u32   | u32  |  u24    |  u8  |
//! ```
//!
//! Everything a stmgr needs to pass a block on stands here, so that it never touches the block's memory.

use crate::ids::BlockId;

/// The most tuples that a descriptor can count, and so the most that a batch holds.
pub const MAX_COUNT: u32 = (1 << 24) - 1;

/// Names a block, or says something that needs none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// What is said of the block.
    pub kind: DescriptorKind,
    /// The block; 0 where the kind has none.
    pub block: BlockId,
    /// Depends on the kind: see there.
    pub target: u32,
    /// Bytes of the block that are in use, its header included.
    pub used: u32,
    /// Tuples in it, at most [`MAX_COUNT`].
    pub count: u32,
}

/// What a descriptor says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DescriptorKind {
    /// To the stmgr: deliver this block to `target`, a [`Destination`](crate::frame::Destination).
    /// To an instance: execute it.
    Data = 1,
    /// To the stmgr: this block is consumed.
    Done = 2,
    /// To the stmgr: this task has emitted its last tuple. To an instance: task `target` has, and all of it came
    /// before this.
    End = 3,
    /// To an instance: this block of its quota is free.
    Grant = 4,
    /// To the stmgr: deliver this block of acks or fails to the spout task `target`. To a spout: apply it, then say
    /// done.
    Ack = 5,
    /// To a spout: nobody will execute this block of tuples; fail the roots in it that are its own, then say done.
    Lost = 6,
    /// To a spout, without a block: tuples are lost that nobody can name; fail every root in flight.
    FailAll = 7,
}

impl Descriptor {
    /// A descriptor that is only about `block`.
    #[must_use]
    pub fn of_block(kind: DescriptorKind, block: BlockId) -> Self {
        Self { kind, block, target: 0, used: 0, count: 0 }
    }

    /// To a spout: everything in flight is to fail.
    #[must_use]
    pub fn fail_all() -> Self {
        Self::of_block(DescriptorKind::FailAll, BlockId(0))
    }

    /// The end of `task`'s stream.
    #[must_use]
    pub fn end(task: crate::ids::TaskId) -> Self {
        Self { kind: DescriptorKind::End, block: BlockId(0), target: task.0, used: 0, count: 0 }
    }

    pub(crate) fn to_words(self) -> [u64; 2] {
        debug_assert!(self.count <= MAX_COUNT);
        let low = u64::from(self.block.0) | u64::from(self.target) << 32;
        let high = u64::from(self.used) | u64::from(self.count & MAX_COUNT) << 32 | (self.kind as u64) << 56;
        [low, high]
    }

    /// `None` when the kind is unknown: the other side is of another version or corrupt.
    pub(crate) fn from_words([low, high]: [u64; 2]) -> Option<Self> {
        let kind = match high >> 56 {
            1 => DescriptorKind::Data,
            2 => DescriptorKind::Done,
            3 => DescriptorKind::End,
            4 => DescriptorKind::Grant,
            5 => DescriptorKind::Ack,
            6 => DescriptorKind::Lost,
            7 => DescriptorKind::FailAll,
            _ => return None,
        };
        Some(Self {
            kind,
            block: BlockId(low as u32),
            target: (low >> 32) as u32,
            used: high as u32,
            count: (high >> 32) as u32 & MAX_COUNT,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_every_field() {
        use DescriptorKind::{Ack, Data, Done, End, FailAll, Grant, Lost};
        for kind in [Data, Done, End, Grant, Ack, Lost, FailAll] {
            let d = Descriptor { kind, block: BlockId(7), target: u32::MAX, used: 16_384, count: MAX_COUNT };
            assert_eq!(Descriptor::from_words(d.to_words()), Some(d));
        }
        assert_eq!(Descriptor::from_words([0, 0]), None);
        assert_eq!(Descriptor::from_words([0, 8 << 56]), None);
    }
}
