//! The trees that have ended and of which the spout has not been told, in the order in which they ended; those that ended
//! at once in the order of their emission.

use super::table::Outcome;
use egret_dataplane::frame::{PAGE, bits};
use std::collections::VecDeque;

/// Trees of one page that have ended alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The first root of the page.
    pub first: u64,
    /// Which of its roots.
    pub mask: u64,
    /// How.
    pub outcome: Outcome,
}

impl Ended {
    /// No tree.
    pub(crate) const NONE: Self = Self { first: 0, mask: 0, outcome: Outcome::Acked };

    /// Takes out the root that was emitted first.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u64> {
        let mask = self.mask;
        (mask != 0).then(|| {
            self.mask &= mask - 1;
            self.first + u64::from(mask.trailing_zeros())
        })
    }

    /// The roots.
    pub fn ids(self) -> impl Iterator<Item = u64> {
        bits(self.mask).map(move |bit| self.first + bit as u64)
    }

    /// Whether all of these roots are told after those that are here.
    fn is_before(self, mask: u64) -> bool {
        self.mask < mask & mask.wrapping_neg()
    }
}

/// See the [module](self).
#[derive(Default)]
pub(super) struct EndedTrees {
    queue: VecDeque<Ended>,
    len: u32,
}

impl EndedTrees {
    /// How many trees there are.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// The trees of these roots of the page that begins at `first` have ended.
    #[inline]
    pub(super) fn push(&mut self, first: u64, mask: u64, outcome: Outcome) {
        self.len += mask.count_ones();
        match self.queue.back_mut() {
            Some(last) if last.first == first && last.outcome == outcome && last.is_before(mask) => {
                last.mask |= mask;
            }
            _ => self.queue.push_back(Ended { first, mask, outcome }),
        }
    }

    /// Takes out the trees that ended first.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Ended> {
        let ended = self.queue.pop_front()?;
        self.len -= ended.mask.count_ones();
        Some(ended)
    }

    /// Takes out the tree of this root; whether there was one.
    #[cold]
    pub(super) fn take(&mut self, id: u64) -> bool {
        let (first, bit) = (id & !(PAGE - 1), 1 << (id % PAGE));
        match self.queue.iter_mut().find(|ended| ended.first == first && ended.mask & bit != 0) {
            Some(ended) => ended.mask &= !bit,
            None => return false,
        }
        self.len -= 1;
        self.queue.retain(|ended| ended.mask != 0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(ended: &mut EndedTrees) -> Vec<(u64, Outcome)> {
        let ended = std::iter::from_fn(|| ended.pop());
        ended.flat_map(|ended| ended.ids().map(move |id| (id, ended.outcome))).collect()
    }

    #[test]
    fn they_are_told_in_the_order_in_which_they_ended() {
        let mut ended = EndedTrees::default();
        ended.push(64, 0b110, Outcome::Acked);
        ended.push(64, 0b001, Outcome::Acked);
        ended.push(64, 0b1000, Outcome::Failed);
        ended.push(0, 1 << 63, Outcome::Acked);
        ended.push(64, 0b10000, Outcome::Acked);
        assert_eq!(ended.len(), 6);
        let (acked, failed) = (Outcome::Acked, Outcome::Failed);
        let expected = [(65, acked), (66, acked), (64, acked), (67, failed), (63, acked), (68, acked)];
        assert_eq!(all(&mut ended), expected);
        assert_eq!((ended.len(), ended.pop().is_none()), (0, true));
    }

    #[test]
    fn one_can_be_taken_out() {
        let mut ended = EndedTrees::default();
        ended.push(64, 0b11, Outcome::Failed);
        ended.push(128, 0b1, Outcome::Failed);
        assert!(!ended.take(66));
        assert!(ended.take(64));
        assert!(ended.take(65));
        assert!(!ended.take(65));
        assert_eq!(all(&mut ended), [(128, Outcome::Failed)]);
    }
}
