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
use std::fmt;

/// Bytes of a root in a tuple.
pub const ROOT_BYTES: usize = 16;

/// A tuple of a spout whose tree is tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Root {
    /// Whose it is.
    pub owner: Owner,
    /// Which of its tuples; the spout alone knows more.
    pub id: u64,
}

/// Whose a root is: a spout's task, and the process of it that emitted the root. Nothing that is meant for a dead process
/// touches its successor. One word, since that is how it is compared and copied for each tuple: what is put together in the
/// store buffer cannot be read back as a whole before it has left that.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(u64);

impl Owner {
    const NONE: Self = Self(0);

    /// This process of a spout's task.
    #[inline]
    #[must_use]
    pub const fn new(spout: TaskId, incarnation: Incarnation) -> Self {
        Self(spout.0 as u64 | (incarnation.0 as u64) << 32)
    }

    /// The spout's task.
    #[inline]
    #[must_use]
    pub const fn spout(self) -> TaskId {
        TaskId(self.0 as u32)
    }

    /// Its process.
    #[inline]
    #[must_use]
    pub const fn incarnation(self) -> Incarnation {
        Incarnation((self.0 >> 32) as u32)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}, process {}", self.spout(), self.incarnation())
    }
}

impl Root {
    /// Of no task: what stands for the root of a block whose tuples are not named by one, and the like.
    pub const NONE: Self = Self { owner: Owner::NONE, id: 0 };

    #[inline]
    pub(super) fn to_bytes(self) -> [u8; ROOT_BYTES] {
        (u128::from(self.owner.0) | u128::from(self.id) << 64).to_le_bytes()
    }

    #[inline]
    fn from_bytes(bytes: [u8; ROOT_BYTES]) -> Self {
        let all = u128::from_le_bytes(bytes);
        Self { owner: Owner(all as u64), id: (all >> 64) as u64 }
    }
}

/// How a tuple's header says which roots it has: how many of them follow it, or, with the top bit set, how far the id of
/// its only one is from that of the block's root, in two's complement. Spout and incarnation are the same then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RootMark(pub(super) u32);

const NEAR: u32 = 1 << 31;

impl RootMark {
    /// The mark of the root of an id this far away, if that can be said in 31 bits.
    #[inline(always)]
    pub(super) fn near(distance: u64) -> Option<Self> {
        let fits = distance.wrapping_add(1 << 30) < 1 << 31;
        fits.then_some(Self(distance as u32 | NEAR))
    }

    /// Whether it says how many roots follow, and some do.
    #[inline]
    pub(super) fn is_count(self) -> bool {
        self.0.cast_signed() > 0
    }

    /// How far the id is away from the block's.
    #[inline]
    pub(super) fn distance(self) -> Option<u64> {
        let distance = (self.0 << 1).cast_signed() >> 1;
        (self.0 & NEAR != 0).then_some(i64::from(distance).cast_unsigned())
    }
}

/// The roots of a tuple.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Roots<'a> {
    /// It belongs to no tree.
    #[default]
    None,
    /// To one, which is named with the block's.
    One(Root),
    /// To those named here.
    Listed(&'a [[u8; ROOT_BYTES]]),
}

impl<'a> Roots<'a> {
    #[inline]
    pub(super) fn listed(bytes: &'a [u8]) -> Self {
        Self::Listed(bytes.as_chunks().0)
    }

    /// How many they are.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::One(_) => 1,
            Self::Listed(bytes) => bytes.len(),
        }
    }

    /// Whether the tuple belongs to no tree.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The root at a position.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Root> {
        match self {
            Self::One(root) if index == 0 => Some(*root),
            Self::Listed(bytes) => bytes.get(index).map(|&bytes| Root::from_bytes(bytes)),
            Self::One(_) | Self::None => None,
        }
    }

    /// One after the other.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Root> + Clone + use<'a> {
        let roots = *self;
        (0..roots.len()).filter_map(move |index| roots.get(index))
    }
}

/// What stands in place of a tuple's position in its edge when no tuple before it in the block has the same root: when its
/// only root is named by the block's and its id is above all that were named so before. Such tuples belong to as many
/// trees as there are of them, so they need no edges of their own, and what is done to all of them can be told at once.
pub const FRESH: u32 = u32::MAX;

/// The edge of one copy of a tuple: of the tuple at `place` in a block with edge base `base`, for the task that gets it; the
/// place is its position there, or [`FRESH`]. Those of one tree, within a block as between blocks, meet as seldom as
/// random numbers do.
#[inline]
#[must_use]
pub fn edge(base: u64, place: u32, task: TaskId) -> u64 {
    let place = (u64::from(place) << 32 | u64::from(task.0)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    // One multiplication to 128 bits, its halves folded (as in wyhash by Wang Yi). The base is in both factors: were one
    // of them the same for all blocks, edges at the same places of two blocks would differ in much the same way, and
    // could cancel out in one tree.
    let product = u128::from(base ^ place) * u128::from(base.rotate_left(32) | 1);
    product as u64 ^ (product >> 64) as u64
}

/// Tells which tuples of a block are [fresh](FRESH), to its writer and to its reader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Freshness(i64);

impl Freshness {
    pub(super) const NEW: Self = Self(i64::MIN);

    /// Whether no tuple was placed yet.
    pub(super) fn is_new(self) -> bool {
        self.0 == i64::MIN
    }

    /// The place of the next tuple, whose only root is this far from the block's, at this position.
    #[inline(always)]
    pub(super) fn place(&mut self, distance: u64, index: u32) -> u32 {
        let distance = distance.cast_signed();
        if distance > self.0 {
            self.0 = distance;
            FRESH
        } else {
            index
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_lies_as_drawn() {
        let root = Root { owner: Owner::new(TaskId(1), Incarnation(2)), id: 0x0403 };
        let bytes = root.to_bytes();
        assert_eq!(bytes, [1, 0, 0, 0, 2, 0, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0]);
        for roots in [Roots::listed(&bytes), Roots::One(root)] {
            assert_eq!((roots.len(), roots.get(0), roots.get(1)), (1, Some(root), None));
            assert_eq!(roots.iter().collect::<Vec<_>>(), [root]);
        }
    }

    #[test]
    fn a_distance_is_marked_when_it_fits() {
        for distance in [0, 1, -1, 77, (1 << 30) - 1, -(1 << 30)] {
            let mark = RootMark::near(i64::cast_unsigned(distance)).unwrap();
            assert_eq!(mark.distance(), Some(distance.cast_unsigned()));
        }
        for distance in [1 << 30, -(1 << 30) - 1, i64::MAX, i64::MIN] {
            assert_eq!(RootMark::near(distance.cast_unsigned()), None);
        }
        assert_eq!(RootMark(7).distance(), None);
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
