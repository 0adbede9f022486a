//! What goes to spouts: acks and fails of bolts, and what is lost of their trees.
//!
//! Nothing of it is read here, only passed on. What is for a spout without a process is void, and dropped: its trees
//! went with the process that had emitted them.
//!
//! Tuples are lost where their block is dropped: with the instance that held it, or because its reader has ended. Such
//! a block goes to every spout that may have roots in it, by the ways of acks, before it goes home. Where nobody has
//! the block any more, because it was on a link that broke or in the pool of a stmgr that died, the spouts at this end
//! which have trees at the other fail all that is in flight.

use super::{Core, Flight};
use crate::frame::{Destination, Purpose};
use crate::ids::{BlockId, TaskId};
use crate::memory::{Descriptor, DescriptorKind, Pool};
use crate::stmgr::fault::Fault;
use crate::stmgr::route::{Peer, Place, Slot};

impl Core {
    /// The instance of `slot` has a block of acks or fails for a spout.
    pub(super) fn ack(&mut self, slot: Slot, descriptor: Descriptor) -> Result<(), Fault> {
        let Descriptor { block, used, count, target, .. } = descriptor;
        let source = self.routes.component(slot);
        if self.routes.trees.grow_from(source) {
            return Err(Fault::WrongKind);
        }
        self.check_written(slot, &descriptor, Pool::STANDARD_BYTES as u32)?;
        let way = self.routes.way(TaskId(target)).ok_or(Fault::UnknownTarget { target })?;
        if !self.routes.trees.ack_to(source, way.component) {
            return Err(Fault::NoSuchTrees { target });
        }
        self.blocks.fly(block, Flight { source, used, count }, 1);
        self.send_to_spout(way.place, block, Purpose::Ack);
        Ok(())
    }

    /// One delivery of a block of tuples is over, and they have not been executed.
    pub(super) fn lose(&mut self, block: BlockId) {
        let source = self.blocks.flight(block).source;
        let trees = &self.routes.trees;
        let spouts = self.routes.all_tasks().filter(|(_, way)| trees.have(source, way.component));
        let places: Vec<Place> = spouts.map(|(_, way)| way.place).collect();
        // All of a broadcast's readers may lose it, but its spouts need to hear of it once.
        if !places.is_empty() && self.blocks.lose(block) {
            for place in places {
                self.blocks.refer(block);
                self.send_to_spout(place, block, Purpose::Lost);
            }
        }
        self.let_go(block);
    }

    /// The link to `peer` has broken.
    pub(super) fn fail_all(&mut self, peer: Peer) {
        for index in 0..self.routes.tasks.len() {
            let (slot, task) = (Slot(index as u32), Destination::Task(self.routes.tasks[index]));
            let window = self.routes.window(peer, task);
            if window.is_none() || !self.routes.is_for_acks(task) {
                continue;
            }
            let local = &mut self.locals[slot.at()];
            if local.attached && !self.ends.has_ended(slot) && !local.fails_all {
                local.fails_all = true;
                local.pending.push_back(Descriptor::fail_all());
            }
            self.mark_ready(slot);
        }
    }

    fn send_to_spout(&mut self, place: Place, block: BlockId, purpose: Purpose) {
        match place {
            Place::Local(to) => self.deliver_to_spout(to, block, purpose),
            Place::Remote(queue) => self.enqueue(queue, block, purpose),
            // Whoever has or loses tuples of a spout's trees is below it, and so has a way to it.
            Place::Unreached => self.let_go(block),
        }
    }

    /// A block for a local spout.
    pub(super) fn deliver_to_spout(&mut self, to: Slot, block: BlockId, purpose: Purpose) {
        if !self.locals[to.at()].attached || self.ends.has_ended(to) {
            self.void(block);
            return;
        }
        self.wait_for_instance(to, block, purpose);
    }

    /// Nothing of what waits for the spout of `slot` matters any more.
    pub(super) fn void_pending(&mut self, slot: Slot) {
        let local = &mut self.locals[slot.at()];
        local.fails_all = false;
        for descriptor in std::mem::take(&mut local.pending) {
            if descriptor.kind != DescriptorKind::FailAll {
                self.leave_instance(slot, descriptor.block);
                self.void(descriptor.block);
            }
        }
    }

    /// A delivery to a spout is over that nobody is there to take note of.
    pub(super) fn void(&mut self, block: BlockId) {
        self.counters.void_acks += 1;
        self.let_go(block);
    }
}
