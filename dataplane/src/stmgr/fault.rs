//! What an instance or a peer may not do. Each ends the connection of whoever did it, and harms nobody else.

use crate::ids::{BlockId, TaskId};

/// A claim that does not hold.
#[derive(thiserror::Error, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A block that the sender does not hold.
    #[error("block {block} is not held by the sender")]
    NotHeld {
        /// The block.
        block: BlockId,
    },
    /// More bytes than the block has, or fewer than a header.
    #[error("{used} bytes in use in a block of {size}")]
    BadLength {
        /// What it says.
        used: u32,
        /// What there is.
        size: u32,
    },
    /// No such task or broadcast.
    #[error("destination {target:#x} does not exist")]
    UnknownTarget {
        /// The destination's number.
        target: u32,
    },
    /// The destination reads nothing that the sender emits.
    #[error("destination {target:#x} does not read the sender")]
    NotAReader {
        /// The destination's number.
        target: u32,
    },
    /// The destination of acks is no spout above the sender, or trees are not tracked at all.
    #[error("destination {target:#x} has no trees with tuples of the sender")]
    NoSuchTrees {
        /// The destination's number.
        target: u32,
    },
    /// The task has said before that it emitted its last tuple.
    #[error("task {task} has ended already")]
    AfterEnd {
        /// The task.
        task: TaskId,
    },
    /// Only a stmgr says this, or only an instance.
    #[error("a descriptor of a kind that the sender has no right to")]
    WrongKind,
    /// A block for which there is no credit.
    #[error("a batch of {bytes} bytes to destination {target:#x} without credit")]
    NoCredit {
        /// The destination's number.
        target: u32,
        /// How long it is.
        bytes: u32,
    },
    /// More credit than the window is large.
    #[error("credit beyond the window of destination {target:#x}")]
    TooMuchCredit {
        /// The destination's number.
        target: u32,
    },
}
