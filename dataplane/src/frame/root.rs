//! Roots and edges: to which trees a tuple belongs, and by which number each of its copies is known there.
//!
//! A *root* is a tuple that a spout emitted with a message id. Every tuple that descends from it carries it, and every
//! copy that a task gets is an *edge* of its tree: a number that the emitter xors into the tree when it emits, and the
//! receiver when it acks (the acker of Storm). The edge stands nowhere: both ends derive it from the block.
//!
//! ```text
//!  0       4             8        16
//!  | spout | incarnation | id     |
//!  |  u32  |     u32     |  u64   |
//! ```

use crate::ids::{Incarnation, TaskId};

/// Bytes of a root in a tuple.
pub const ROOT_BYTES: usize = 16;

/// A tuple of a spout whose tree is tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Root {
    /// The spout's task.
    pub spout: TaskId,
    /// The process that emitted it: nothing that is meant for a dead one touches its successor.
    pub incarnation: Incarnation,
    /// Which of its tuples; the spout alone knows more.
    pub id: u64,
}

impl Root {
    #[inline]
    pub(super) fn to_bytes(self) -> [u8; ROOT_BYTES] {
        let owner = u64::from(self.spout.0) | u64::from(self.incarnation.0) << 32;
        (u128::from(owner) | u128::from(self.id) << 64).to_le_bytes()
    }

    #[inline]
    fn from_bytes(bytes: [u8; ROOT_BYTES]) -> Self {
        let all = u128::from_le_bytes(bytes);
        Self {
            spout: TaskId(all as u32),
            incarnation: Incarnation((all >> 32) as u32),
            id: (all >> 64) as u64,
        }
    }
}

/// The roots of a tuple, where they lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roots<'a> {
    bytes: &'a [[u8; ROOT_BYTES]],
}

impl<'a> Roots<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes: bytes.as_chunks().0 }
    }

    /// How many they are.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the tuple belongs to no tree.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The root at a position.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Root> {
        self.bytes.get(index).map(|&bytes| Root::from_bytes(bytes))
    }

    /// One after the other.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Root> + Clone + use<'a> {
        self.bytes.iter().map(|&bytes| Root::from_bytes(bytes))
    }
}

/// The edge of one copy of a tuple: of the tuple at `index` in a block with edge base `base`, for the task that gets
/// it. Within a block as between blocks, two of them meet as seldom as random numbers do.
#[inline]
#[must_use]
pub fn edge(base: u64, index: u32, task: TaskId) -> u64 {
    let place = (u64::from(index) << 32 | u64::from(task.0)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    // One multiplication to 128 bits, its halves folded (as in wyhash by Wang Yi). The base is in both factors: were one
    // of them the same for all blocks, edges at the same places of two blocks would differ in much the same way, and
    // could cancel out in one tree.
    let product = u128::from(base ^ place) * u128::from(base.rotate_left(32) | 1);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_lies_as_drawn() {
        let root = Root { spout: TaskId(1), incarnation: Incarnation(2), id: 0x0403 };
        let bytes = root.to_bytes();
        assert_eq!(bytes, [1, 0, 0, 0, 2, 0, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0]);
        let roots = Roots::new(&bytes);
        assert_eq!((roots.len(), roots.get(0), roots.get(1)), (1, Some(root), None));
        assert_eq!(roots.iter().collect::<Vec<_>>(), [root]);
    }

    #[test]
    fn edges_of_a_block_differ() {
        let mut all: Vec<_> =
            (0..1000).flat_map(|index| (1..20).map(move |task| edge(7, index, TaskId(task)))).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 1000 * 19);
        // Both ends derive it, maybe in different versions of the program: the numbers are part of the format.
        assert_eq!(edge(0, 0, TaskId(0)), 0);
        assert_ne!(edge(1, 0, TaskId(1)), edge(2, 0, TaskId(1)));
    }
}
