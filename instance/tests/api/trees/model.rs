//! What tuple trees are, told plainly: which copies of which tuples are open, for each root.

use std::collections::BTreeMap;

/// The roots of a tuple, each with whether its tree surely knows of the tuple: it may not, where the tuple was anchored on
/// an input that had been acked already.
pub(crate) type Roots = BTreeMap<u64, bool>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Acked,
    Failed,
}

#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// Copies neither acked nor failed that the tree surely knows of.
    pub(crate) open: i64,
    /// The others.
    pub(crate) open_late: i64,
    /// A copy that the tree surely knew of has failed.
    pub(crate) failed: bool,
    /// Another has: the tree may have noticed.
    pub(crate) failed_late: bool,
    pub(crate) told: Option<Told>,
}

#[derive(Default)]
pub(crate) struct Model {
    /// By tuple number.
    pub(crate) tuples: Vec<Roots>,
    pub(crate) trees: BTreeMap<u64, Tree>,
    /// Trees may time out now.
    pub(crate) late: bool,
    state: u64,
}

impl Model {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed, ..Self::default() }
    }

    /// A random number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.state >> 33) as usize) % n
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// The number of the next tuple.
    pub(crate) fn next_tuple(&self) -> u64 {
        self.tuples.len() as u64
    }

    /// The union of the roots of these tuples, each with whether it is still to be acked.
    pub(crate) fn union(&self, anchors: &[(u64, bool)]) -> Roots {
        let mut roots = Roots::new();
        for &(tuple, open) in anchors {
            for (&root, &sure) in &self.tuples[tuple as usize] {
                *roots.entry(root).or_default() |= sure && open;
            }
        }
        roots
    }

    /// A tuple was emitted, in so many copies.
    pub(crate) fn emitted(&mut self, roots: Roots, copies: u64) {
        for (root, &sure) in &roots {
            let tree = self.trees.entry(*root).or_default();
            *(if sure { &mut tree.open } else { &mut tree.open_late }) += copies as i64;
        }
        self.tuples.push(roots);
    }

    pub(crate) fn acked(&mut self, tuple: u64) {
        for (root, &sure) in &self.tuples[tuple as usize] {
            let tree = self.trees.get_mut(root).unwrap();
            *(if sure { &mut tree.open } else { &mut tree.open_late }) -= 1;
        }
    }

    pub(crate) fn failed(&mut self, tuple: u64) {
        for (root, &sure) in &self.tuples[tuple as usize] {
            let tree = self.trees.get_mut(root).unwrap();
            *(if sure { &mut tree.failed } else { &mut tree.failed_late }) = true;
        }
    }

    /// The spout was told.
    pub(crate) fn told(&mut self, root: u64, told: Told) {
        let late = self.late;
        let tree = self.trees.get_mut(&root).expect("the spout had noted the id");
        assert_eq!(tree.told, None, "{root} is told twice: {tree:?}");
        tree.told = Some(told);
        match told {
            Told::Acked => {
                assert!(tree.open == 0 && !tree.failed, "{root} was acked before its last edge: {tree:?}");
            }
            Told::Failed => assert!(tree.failed || tree.failed_late || late, "{root} did not fail: {tree:?}"),
        }
    }

    /// Everything that was said has arrived: what is complete or has failed must have been told.
    pub(crate) fn check_settled(&self) {
        for (root, tree) in &self.trees {
            let over = tree.failed || (tree.open == 0 && tree.open_late == 0 && !tree.failed_late);
            assert!(tree.told.is_some() || !over, "{root} is left undone: {tree:?}");
        }
    }
}
