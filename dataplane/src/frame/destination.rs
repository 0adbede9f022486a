//! Who gets a block: one task, or every task of a broadcast.

use crate::ids::TaskId;

const BROADCAST: u32 = 1 << 31;

/// Where a block goes. As a number it is a task id, or a broadcast's number with the top bit set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Destination {
    /// One task.
    Task(TaskId),
    /// All tasks of the broadcast at this position of [`Topology::broadcasts`](crate::plan::Topology::broadcasts).
    Broadcast(u32),
}

impl Destination {
    /// The number that stands in descriptors and frames.
    #[inline]
    #[must_use]
    pub fn to_u32(self) -> u32 {
        match self {
            Self::Task(task) => task.0 & !BROADCAST,
            Self::Broadcast(index) => index | BROADCAST,
        }
    }

    /// Every number is a destination of some kind; whether it exists is for the plan to say.
    #[inline]
    #[must_use]
    pub fn from_u32(number: u32) -> Self {
        if number & BROADCAST == 0 {
            Self::Task(TaskId(number))
        } else {
            Self::Broadcast(number & !BROADCAST)
        }
    }
}
