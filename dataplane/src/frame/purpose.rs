//! Why a block goes to its destination.

use crate::memory::DescriptorKind;

/// What the receiver of a block is to do with it. The number stands in the frames between stmgrs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Purpose {
    /// Execute its tuples.
    Data = 0,
    /// Apply its acks or fails; the destination is a spout.
    Ack = 1,
    /// Fail the roots of its tuples, which nobody will execute; the destination is a spout.
    Lost = 2,
}

impl Purpose {
    /// `None` for a number that says nothing.
    #[must_use]
    pub fn from_u32(number: u32) -> Option<Self> {
        [Self::Data, Self::Ack, Self::Lost].into_iter().find(|&purpose| purpose as u32 == number)
    }

    /// The kind of the descriptor by which an instance gets the block.
    #[inline]
    #[must_use]
    pub fn descriptor_kind(self) -> DescriptorKind {
        match self {
            Self::Data => DescriptorKind::Data,
            Self::Ack => DescriptorKind::Ack,
            Self::Lost => DescriptorKind::Lost,
        }
    }
}
