//! What goes to spouts: acks and fails of bolts, and what is lost of their trees.
//!
//! Nothing of it is read here, only passed on. What is for a spout without a process is void, and dropped: its trees
//! went with the process that had emitted them.
//!
//! Tuples are lost where their block is dropped: with the instance that held it, or because its reader has ended. Such
//! a block goes to every spout that may have roots in it, by the ways of acks, before it goes home.
//!
//! Other tuples nobody can name any more: what was on a link that broke, in the pool of a stmgr that died, or in the
//! hands of a bolt that died, beyond the blocks that it was handed. The spouts whose trees they may belong to *fail all*
//! that is in flight. Those here get a word through their ring; those of a peer are told over its link, or the next one.
//! Of a link that breaks both ends tell whose trees may have been in what they had sent. An end that died does not, but
//! then every container has lost a link, and its spouts with bolts there fail all by themselves.
//!
//! While a link is gone, what is for spouts at its other end is void, too: they fail what they have in flight. If it
//! waited for the next link, it would take all blocks of bolts here that other spouts' tuples go through as well.

use super::{Core, Effect, Flight};
use crate::frame::{Destination, Purpose};
use crate::ids::{BlockId, ComponentIndex, TaskId};
use crate::memory::{Descriptor, DescriptorKind, Pool};
use crate::stmgr::fault::Fault;
use crate::stmgr::route::{Pair, Peer, Place, QueueIndex, Routes, Slot, Way};
use crate::stmgr::watermarks::Place as Waits;
use std::collections::BTreeSet;

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

    /// The link to `peer` has broken, with what was on it.
    pub(super) fn lose_link(&mut self, peer: Peer) {
        let components: BTreeSet<_> =
            (0..self.locals.len() as u32).map(|s| self.routes.component(Slot(s))).collect();
        let bolts = components.into_iter().filter(|&component| !self.routes.is_spout(component));
        let has_readers = |from: &ComponentIndex| {
            self.routes
                .all_tasks()
                .any(|(_, to)| to.peer == Some(peer) && self.routes.reads(*from, to.component))
        };
        let emitters: Vec<_> = bolts.filter(has_readers).collect();
        self.fail_all(|routes, task, spout| match spout.peer {
            None => routes.window(peer, Destination::Task(task)).is_some(),
            Some(at) => at != peer && emitters.iter().any(|&from| routes.trees.have(from, spout.component)),
        });
    }

    /// A bolt that ran `component` has died with tuples that nobody can name.
    pub(super) fn lose_unnamed(&mut self, component: ComponentIndex) {
        self.fail_all(|routes, _, spout| routes.trees.have(component, spout.component));
    }

    /// Has every spout fail all in flight whose trees are tracked and that `is_concerned`.
    fn fail_all(&mut self, is_concerned: impl Fn(&Routes, TaskId, Way) -> bool) {
        let routes = &self.routes;
        let spouts = routes.all_tasks().filter(|(_, way)| routes.trees.grow_from(way.component));
        let concerned: Vec<_> = spouts.filter(|&(task, way)| is_concerned(routes, task, way)).collect();
        for (task, way) in concerned {
            match way.peer {
                None => self.fail_all_of(task),
                Some(peer) => self.tell_fail_all(peer, task),
            }
        }
    }

    /// A local spout is to fail all in flight.
    fn fail_all_of(&mut self, spout: TaskId) {
        let Some(slot) = self.routes.slot(spout) else { return };
        let local = &mut self.locals[slot.at()];
        if local.attached && !self.ends.has_ended(slot) && !local.fails_all {
            local.fails_all = true;
            local.pending.push_back(Descriptor::fail_all());
            self.mark_ready(slot);
        }
    }

    fn tell_fail_all(&mut self, peer: Peer, spout: TaskId) {
        let state = &mut self.peers[peer.at()];
        if state.untold.is_empty() && state.linked {
            self.effects.push(Effect::TellFailAll(peer));
        }
        state.untold.insert(spout);
    }

    /// What [`Effect::TellFailAll`] tells: the spouts of `peer` that are to fail all in flight. Empty when it was told.
    pub fn take_untold(&mut self, peer: Peer) -> Vec<TaskId> {
        std::mem::take(&mut self.peers[peer.at()].untold).into_iter().collect()
    }

    /// A peer tells that these spouts here are to fail all in flight.
    ///
    /// # Errors
    /// A [`Fault`] when one of them is no spout here whose trees are tracked; nothing has changed then.
    pub fn fail_all_from_peer(&mut self, spouts: &[TaskId]) -> Result<(), Fault> {
        for &TaskId(target) in spouts {
            self.routes.slot(TaskId(target)).ok_or(Fault::UnknownTarget { target })?;
            if !self.routes.is_for_acks(Destination::Task(TaskId(target))) {
                return Err(Fault::NoSuchTrees { target });
            }
        }
        spouts.iter().for_each(|&spout| self.fail_all_of(spout));
        Ok(())
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

    /// Nothing of what waits for the spouts of `peer` matters any more.
    pub(super) fn void_queued(&mut self, peer: Peer) {
        for queue in (0..self.queues.len() as u32).map(QueueIndex) {
            let pair = self.queues[queue.at()].pair;
            if pair.peer == peer && self.routes.is_for_acks(pair.destination) {
                for block in self.queues[queue.at()].drain_blocks() {
                    self.gauges.remove(Waits::Queue(queue), self.blocks.class(block));
                    self.void_for_peer(queue, block);
                }
            }
        }
    }

    /// A delivery to a spout is over that its stmgr cannot be told of: the spout is to fail all in flight.
    pub(super) fn void_for_peer(&mut self, queue: QueueIndex, block: BlockId) {
        let Pair { peer, destination } = self.queues[queue.at()].pair;
        if let Destination::Task(spout) = destination {
            self.tell_fail_all(peer, spout);
        }
        self.void(block);
    }

    /// A delivery to a spout is over that nobody is there to take note of.
    pub(super) fn void(&mut self, block: BlockId) {
        self.counters.void_acks += 1;
        self.let_go(block);
    }
}
