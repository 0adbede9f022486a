//! What a spout is told of at once.

use crate::ledger::Ended;
use crate::numbered::Numbered;

/// Tuples that are processed, with all that came of them: their ids, in the order in which that was so.
pub struct Acked<'c, Id> {
    pub(super) ended: &'c mut Ended,
    pub(super) ids: &'c mut Ids<Id>,
    pub(super) counted: &'c mut u64,
}

impl<Id> Acked<'_, Id> {
    /// The ids that are left, where they are [numbers](super::SpoutEmission::numbered): the first of 64, and a mask of them.
    #[inline]
    pub(crate) fn numbers(&mut self) -> Option<(u64, u64)> {
        let is_some = self.ids.number.is_some() && self.ended.mask != 0;
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
        let id = self.ids.next_of(self.ended)?;
        *self.counted += 1;
        Some(id)
    }
}

/// The ids of the trees in flight.
pub(super) struct Ids<Id> {
    /// By the number of their root.
    kept: Numbered<Id>,
    /// How the number of a root becomes an id, where it is one and none is kept.
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

    /// From now on the number of a root is its id.
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
            let id = match self.number {
                Some(number) => Some(number(root)),
                None => self.kept.remove(root),
            };
            if id.is_some() {
                return id;
            }
        }
    }
}
