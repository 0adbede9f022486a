//! What a spout is told of at once.

use crate::ledger::Ended;
use crate::numbered::{Numbered, NumberedPage};

/// Tuples that are processed, with all that came of them: their ids, in the order in which that was so. An id that is taken
/// counts as acked.
pub struct Acked<'c, Id> {
    ended: &'c mut Ended,
    ids: PageIds<'c, Id>,
    number: Option<fn(u64) -> Id>,
    counted: &'c mut u64,
}

/// The ids of the roots of one page.
enum PageIds<'c, Id> {
    /// None is kept.
    Unused,
    InRing(NumberedPage<'c, Id>),
    Elsewhere(&'c mut Numbered<Id>),
}

impl<'c, Id> Acked<'c, Id> {
    pub(super) fn new(ended: &'c mut Ended, ids: &'c mut Ids<Id>, counted: &'c mut u64) -> Self {
        let number = ids.number;
        let ids = if ids.kept.has_page(ended.first) {
            ids.kept.page(ended.first).map_or(PageIds::Unused, PageIds::InRing)
        } else if ids.kept.is_unused() {
            PageIds::Unused
        } else {
            PageIds::Elsewhere(&mut ids.kept)
        };
        Self { ended, ids, number, counted }
    }

    /// The ids that are left, where all are [numbers](super::SpoutEmission::numbered): the first of 64, and a mask of them.
    #[inline]
    pub(crate) fn numbers(&mut self) -> Option<(u64, u64)> {
        let is_some = self.number.is_some() && matches!(self.ids, PageIds::Unused) && self.ended.mask != 0;
        is_some.then(|| {
            *self.counted += u64::from(self.ended.mask.count_ones());
            (self.ended.first, std::mem::take(&mut self.ended.mask))
        })
    }
}

impl<Id> Iterator for Acked<'_, Id> {
    type Item = Id;

    #[inline]
    fn next(&mut self) -> Option<Id> {
        loop {
            let root = self.ended.pop()?;
            let kept = match &mut self.ids {
                PageIds::InRing(page) => page.remove(root),
                PageIds::Elsewhere(kept) => kept.remove(root),
                PageIds::Unused => None,
            };
            if let Some(id) = kept.or_else(|| self.number.map(|number| number(root))) {
                *self.counted += 1;
                return Some(id);
            }
        }
    }
}

/// The ids of the trees in flight.
pub(super) struct Ids<Id> {
    /// By the number of their root.
    kept: Numbered<Id>,
    /// How the number of a root becomes an id, where none is kept.
    number: Option<fn(u64) -> Id>,
}

impl<Id> Ids<Id> {
    /// For so many trees.
    pub(super) fn new(most: usize) -> Self {
        Self { kept: Numbered::new(most), number: None }
    }

    /// Keeps one.
    #[inline(always)]
    pub(super) fn put(&mut self, root: u64, id: Id) {
        self.kept.put(root, id);
    }

    /// From now on the number of a root is its id, unless one is kept.
    #[inline(always)]
    pub(super) fn are_numbers(&mut self)
    where
        Id: From<u64>,
    {
        self.number = Some(Id::from);
    }

    /// Takes the next root out, and its id. A root without an id is left out: there is nobody to tell.
    #[inline]
    pub(super) fn next_of(&mut self, ended: &mut Ended) -> Option<Id> {
        loop {
            let root = ended.pop()?;
            let kept = if self.kept.is_unused() { None } else { self.kept.remove(root) };
            let id = kept.or_else(|| self.number.map(|number| number(root)));
            if id.is_some() {
                return id;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Outcome;
    use egret_dataplane::frame::PAGE;

    fn all(ids: &mut Ids<u64>) -> (Option<(u64, u64)>, Vec<u64>, u64) {
        let (mut ended, mut counted) = (Ended { first: 64, mask: 0b1011, outcome: Outcome::Acked }, 0);
        let mut acked = Acked::new(&mut ended, ids, &mut counted);
        let numbers = acked.numbers();
        let others = acked.collect();
        (numbers, others, counted)
    }

    #[test]
    fn numbers_come_at_once_unless_a_spout_has_given_ids_as_well() {
        let mut ids = Ids::new(4);
        assert_eq!(all(&mut ids), (None, vec![], 0), "there is nobody to tell");
        ids.are_numbers();
        assert_eq!(all(&mut ids), (Some((64, 0b1011)), vec![], 3));
        ids.put(65, 7);
        assert_eq!(all(&mut ids), (None, vec![64, 7, 67], 3));
    }

    #[test]
    fn ids_come_back_that_are_too_old_for_their_ring() {
        let mut ids = Ids::new(4);
        (1..10).for_each(|page| ids.put(page * PAGE + 1, page));
        assert!(!ids.kept.has_page(PAGE) && ids.kept.has_page(9 * PAGE));
        assert_eq!(all(&mut ids), (None, vec![1], 1));
        ids.are_numbers();
        assert_eq!(all(&mut ids), (None, vec![64, 65, 67], 3));
    }
}
