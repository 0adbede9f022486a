//! 64 roots that were emitted one after the other.
//!
//! Roots whose tuples lie in the same blocks, and are treated alike, have the same value at all times. They are kept
//! together: a *group* is the mask of them and the value that each has, so that what happens to all costs as much as what
//! happens to one. A root that goes its own way leaves its group, and stands *alone* when there is no other for it.

use egret_dataplane::frame::{PAGE, bits};
use egret_dataplane::mutants::{self, Mutant};

/// The stamp of a root that is being emitted.
pub(super) const UNSTAMPED: u64 = u64::MAX;

/// What is known of a root, or of each root of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tree {
    /// The xor of its edges.
    pub(super) value: u64,
    /// The beginning of the turn that emitted it, or the end if that was long; [`UNSTAMPED`] while it is being emitted.
    pub(super) stamp_us: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Group {
    mask: u64,
    tree: Tree,
}

/// A block emits and acks into two groups when it begins within a page, and a turn that ends there makes it three.
const GROUPS: usize = 4;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Page {
    /// The id of its first root, a multiple of [`PAGE`].
    first: u64,
    /// The roots in flight.
    open: u64,
    groups: [Group; GROUPS],
    /// Those of `open` that are in no group.
    alone: u64,
    /// Their trees; empty until there is one.
    trees: Vec<Tree>,
}

/// Roots of a page whose trees are complete, and the stamp of those.
pub(super) type Complete = (u64, u64);

impl Page {
    /// Gives it to other roots. Says which are still in flight.
    pub(super) fn turn_to(&mut self, first: u64) -> Vec<(u64, Tree)> {
        let mut left = Vec::new();
        if self.open != 0 {
            for index in bits(self.open) {
                left.extend(self.tree(1 << index).map(|tree| (self.first + index as u64, tree)));
            }
            self.remove(u64::MAX);
        }
        self.first = first;
        left
    }

    #[inline]
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// The roots in flight.
    #[inline]
    pub(super) fn open(&self) -> u64 {
        self.open
    }

    /// These roots are in flight now, each with a tree like this.
    pub(super) fn add(&mut self, roots: u64, tree: Tree) {
        self.open |= roots;
        self.put(roots, tree);
    }

    /// Puts roots that are in flight and in no group into one, or leaves them alone.
    fn put(&mut self, roots: u64, tree: Tree) {
        let is_alike = |group: &&mut Group| group.tree == tree && group.mask != 0;
        if let Some(alike) = self.groups.iter_mut().find(is_alike) {
            alike.mask |= roots;
        } else if let Some(empty) = self.groups.iter_mut().find(|group| group.mask == 0) {
            *empty = Group { mask: roots, tree };
        } else {
            self.alone |= roots;
            self.trees.resize(PAGE as usize, Tree::default());
            bits(roots).for_each(|index| self.trees[index] = tree);
        }
    }

    /// Xors into the trees of these roots; those that are not in flight are left out. Takes out those that are complete.
    #[inline]
    pub(super) fn ack(&mut self, roots: u64, xor: u64, complete: &mut Vec<Complete>) {
        let mut left = roots & self.open;
        for index in 0..GROUPS {
            let group = &mut self.groups[index];
            let hit = group.mask & left;
            if hit == 0 {
                continue;
            }
            left &= !hit;
            let tree = Tree { value: group.tree.value ^ xor, ..group.tree };
            if is_complete(tree) {
                group.mask &= !hit;
                self.open &= !hit;
                complete.push((hit, tree.stamp_us));
            } else if hit == group.mask {
                group.tree = tree;
            } else {
                group.mask &= !hit;
                self.put(hit, tree);
            }
        }
        if left != 0 {
            self.ack_alone(left, xor, complete);
        }
    }

    #[inline(never)]
    fn ack_alone(&mut self, roots: u64, xor: u64, complete: &mut Vec<Complete>) {
        for index in bits(roots) {
            let tree = &mut self.trees[index];
            tree.value ^= xor;
            if is_complete(*tree) {
                self.alone &= !(1 << index);
                self.open &= !(1 << index);
                complete.push((1 << index, tree.stamp_us));
            }
        }
    }

    /// Takes out those of these roots that are in flight, and says which.
    pub(super) fn remove(&mut self, roots: u64) -> u64 {
        let removed = roots & self.open;
        self.open &= !roots;
        self.alone &= !roots;
        self.groups.iter_mut().for_each(|group| group.mask &= !roots);
        removed
    }

    /// Takes out those whose tree `is` so, and says which.
    pub(super) fn remove_if(&mut self, mut is: impl FnMut(Tree) -> bool) -> u64 {
        let found = self.trees().filter(|(_, tree)| is(*tree)).fold(0, |found, (roots, _)| found | roots);
        self.remove(found)
    }

    /// Roots with the tree of each, those of a group together.
    pub(super) fn trees(&self) -> impl Iterator<Item = (u64, Tree)> {
        let grouped = self.groups.iter().map(|group| (group.mask, group.tree));
        let alone = bits(self.alone).map(|index| (1 << index, self.trees[index]));
        grouped.chain(alone).filter(|(roots, _)| *roots != 0)
    }

    /// Changes stamps.
    pub(super) fn restamp(&mut self, from_us: u64, to_us: u64) {
        let trees = self.groups.iter_mut().map(|group| &mut group.tree).chain(&mut self.trees);
        trees.filter(|tree| tree.stamp_us == from_us).for_each(|tree| tree.stamp_us = to_us);
    }

    /// A root that was being emitted has this stamp.
    pub(super) fn stamp(&mut self, id: u64, stamp_us: u64) {
        let root = 1 << (id % PAGE);
        if let Some(tree) = self.tree(root) {
            self.remove(root);
            self.open |= root;
            self.put(root, Tree { stamp_us, ..tree });
        }
    }

    fn tree(&self, root: u64) -> Option<Tree> {
        self.trees().find(|(roots, _)| roots & root != 0).map(|(_, tree)| tree)
    }
}

#[inline(always)]
fn is_complete(tree: Tree) -> bool {
    tree.value == 0 || mutants::is(Mutant::LedgerEarly)
}
