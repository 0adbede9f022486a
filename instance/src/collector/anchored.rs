//! Emissions that are anchored: whose trees they join, and which anchor answers for them.
//!
//! A tuple that is anchored on several inputs joins the trees of all, each once. For each root its edges go to exactly one of
//! the anchors that have it: with two of them, each ack would xor the same edges in and cancel the other.

use super::{Anchor, EmitError, Emitter, InAll, Payload, Target};
use egret_dataplane::frame::Root;

/// Memory for the roots of an emission, kept from one to the next.
#[derive(Default)]
pub(super) struct Union {
    /// Each root with the anchor and the position there that answers for it: one that is still to be acked, if there is
    /// one, for its ack brings the edges along.
    found: Vec<(Root, bool, usize, usize)>,
    roots: Vec<Root>,
}

impl Union {
    fn collect(&mut self, anchors: &[&dyn Anchor]) {
        self.found.clear();
        for (a, anchor) in anchors.iter().enumerate() {
            let tie = anchor.tie();
            let roots = tie.all().enumerate();
            self.found.extend(roots.map(|(position, tied)| (tied.root, !tie.is_open(), a, position)));
        }
        self.found.sort_unstable();
        self.found.dedup_by_key(|(root, ..)| *root);
        self.roots.clear();
        self.roots.extend(self.found.iter().map(|(root, ..)| *root));
    }

    /// Emits as part of the trees of all anchors.
    #[inline(never)]
    pub(super) fn emit(
        &mut self,
        emitter: &mut Emitter,
        payload: &impl Payload,
        target: Target<'_>,
        anchors: &[&dyn Anchor],
    ) -> Result<(), EmitError> {
        self.collect(anchors);
        let edges = emitter.emit(payload, target, InAll(&self.roots))?;
        for &(.., anchor, position) in &self.found {
            emitter.grow(anchors[anchor].tie(), position, edges)?;
        }
        Ok(())
    }
}
