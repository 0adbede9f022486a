//! What the emission of a root touches of its ledger, most times: a few words, and no borrow.
//!
//! The ledger grants a range of ids, of one page. Whoever emits takes them one after the other and leaves the edges of each
//! here; the ledger takes them over into its page when it needs to. Nothing here depends on whether the edges are those of the
//! tuple before: where tuples go to several tasks in turn, no processor could guess it.

use egret_dataplane::frame::{PAGE, bits};
use std::array;
use std::cell::Cell;

/// Where the roots of a [`Ledger`](super::Ledger) are emitted: what it has granted, and those that it has not taken over yet.
#[derive(Debug)]
pub struct Front {
    next: Cell<u64>,
    /// The first id that is not granted.
    end: Cell<u64>,
    /// The xor of the edges of each of the latest roots, by its place in its page.
    edges: [Cell<u64>; PAGE as usize],
    /// Whether a tree has ended and is not handed out.
    has_ended: Cell<bool>,
}

impl Default for Front {
    fn default() -> Self {
        Self {
            next: Cell::default(),
            end: Cell::default(),
            edges: array::from_fn(|_| Cell::default()),
            has_ended: Cell::default(),
        }
    }
}

/// With so many kinds of edges among the latest roots it is no use to look for more that are alike.
const KINDS: usize = 4;

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

    /// The root with this id, which was the [next](Self::next), is emitted, and this is the xor of the edges of its copies.
    /// `false` when the ledger must be told instead: of one without edges, and of one that it knows already.
    #[inline(always)]
    #[must_use]
    pub fn open(&self, id: u64, edges: u64) -> bool {
        let is_next = !self.has_passed(id) && edges != 0;
        if is_next {
            self.put(edges);
        }
        is_next
    }

    /// Whether the ledger knows of this root, or it was opened here.
    #[inline(always)]
    #[must_use]
    pub fn has_passed(&self, id: u64) -> bool {
        id != self.next.get()
    }

    #[inline(always)]
    fn put(&self, edges: u64) {
        let next = self.next.get();
        self.edges[(next % PAGE) as usize].set(edges);
        self.next.set(next + 1);
    }

    /// The id of the next root, granted or not.
    #[inline]
    pub(super) fn first_free(&self) -> u64 {
        self.next.get()
    }

    /// Calls `visit` with the latest roots, of which there is one at least, and which have these places in their page: those
    /// together that have the same edges, and with them these.
    #[inline]
    pub(super) fn visit(&self, latest: u64, mut visit: impl FnMut(u64, u64)) {
        let places = latest.trailing_zeros() as usize..(u64::BITS - latest.leading_zeros()) as usize;
        let edges = self.edges.get(places).unwrap_or_default();
        if let [first, others @ ..] = edges {
            let first = first.get();
            if others.iter().fold(0, |unlike, edges| unlike | (edges.get() ^ first)) == 0 {
                visit(latest, first);
            } else {
                visit_kinds(edges, latest, &mut visit);
            }
        }
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

    /// The next root is emitted by other ways.
    pub(super) fn step(&self, edges: u64) {
        self.put(edges);
        self.end.set(self.end.get().max(self.next.get()));
    }
}

/// Visits roots with these edges, of which the first has the first place of `latest`.
#[inline(never)]
fn visit_kinds(edges: &[Cell<u64>], latest: u64, visit: &mut dyn FnMut(u64, u64)) {
    let begin = latest.trailing_zeros();
    let mut left = latest >> begin;
    for _ in 0..KINDS {
        let Some(kind) = edges.get(left.trailing_zeros() as usize) else { return };
        let is_alike = |edges: &Cell<u64>| u64::from(edges == kind);
        // The last one first: it ends at the highest place.
        let alike = left & edges.iter().rev().fold(0, |alike, edges| alike << 1 | is_alike(edges));
        visit(alike << begin, kind.get());
        left &= !alike;
    }
    for place in bits(left) {
        visit(1 << (begin as usize + place), edges[place].get());
    }
}
