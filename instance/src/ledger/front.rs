//! What the emission of a root touches of its ledger, most times: three words, and no borrow.
//!
//! The ledger grants a range of ids. Whoever emits takes them one after the other, as long as the copies of each tuple have
//! the same edges as those of the one before; the ledger takes them over into its pages when it needs to.

use std::cell::Cell;

/// Where the roots of a [`Ledger`](super::Ledger) are emitted: what it has granted, and those that it has not taken over yet.
#[derive(Debug, Default)]
pub struct Front {
    next: Cell<u64>,
    /// The first id that is not granted.
    end: Cell<u64>,
    /// The xor of the edges of the latest roots, which are alike; 0 when there are none.
    edges: Cell<u64>,
    /// Whether a tree has ended and is not handed out.
    has_ended: Cell<bool>,
}

impl Front {
    /// The id of the root that is emitted next; `None` when the ledger must be asked.
    #[inline(always)]
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        (!self.is_used_up()).then_some(self.next.get())
    }

    /// Whether the ledger must be asked before the next root is emitted.
    #[inline(always)]
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        self.next >= self.end
    }

    /// Whether the ledger has a tree to hand out.
    #[inline(always)]
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.has_ended.get()
    }

    /// The root with the [next id](Self::next) is emitted, and this is the xor of the edges of its copies. `false` when the
    /// ledger must be told instead.
    #[inline(always)]
    #[must_use]
    pub fn open(&self, edges: u64) -> bool {
        let is_alike = edges == self.edges.get() && edges != 0;
        if is_alike {
            self.next.set(self.next.get() + 1);
        }
        is_alike
    }

    /// The id of the next root, granted or not.
    #[inline]
    pub(super) fn first_free(&self) -> u64 {
        self.next.get()
    }

    /// The xor of the edges of the latest roots.
    #[inline]
    pub(super) fn edges(&self) -> u64 {
        self.edges.get()
    }

    /// See [`has_ended`](Self::has_ended).
    #[inline]
    pub(super) fn set_ended(&self, has_ended: bool) {
        self.has_ended.set(has_ended);
    }

    /// Grants so many roots.
    pub(super) fn grant(&self, roots: u64) {
        self.end.set(self.next.get() + roots);
    }

    /// The next root is emitted by other ways, and those that follow with these edges are alike.
    pub(super) fn step(&self, edges: u64) {
        self.next.set(self.next.get() + 1);
        self.end.set(self.end.get().max(self.next.get()));
        self.edges.set(edges);
    }
}
