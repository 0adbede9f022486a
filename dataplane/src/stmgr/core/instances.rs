//! Instances: what they say through their rings, how they come and go.

use super::{Cause, Core, Effect, Flight};
use crate::frame::{Destination, Purpose};
use crate::ids::{BlockId, TaskId};
use crate::memory::{Descriptor, DescriptorKind, OUT_SLOTS, UNPUBLISHED_MAX};
use crate::stmgr::credit::Waiting;
use crate::stmgr::fault::Fault;
use crate::stmgr::route::{Place, QueueIndex, Slot};
use crate::stmgr::sizes::MIN_BATCH_BYTES;

/// How a delivery into an instance's ring went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Delivered {
    /// Nothing waits any more.
    All,
    /// The rest waits until the instance has said something, which it will.
    Waiting,
    /// The rest waits, and the instance may make room without saying anything: try again soon.
    TryAgain,
}

impl Core {
    /// The instance of `slot` has registered: it is granted its blocks, and gets what waits for it.
    ///
    /// # Panics
    /// When it is attached already.
    pub fn attach(&mut self, slot: Slot) {
        let ended = self.ends.has_ended(slot);
        let local = &mut self.locals[slot.at()];
        assert!(!local.attached, "the former instance of {slot:?} is detached first");
        (local.attached, local.consumed, local.said_end) = (true, 0, false);
        for i in 0..self.blocks.own(slot).len() {
            let block = self.blocks.own(slot)[i];
            if !ended && self.blocks.grant(block) {
                local.grants.push(block);
            }
        }
        self.mark_ready(slot);
    }

    /// The instance of `slot` is gone, and its out ring has been emptied. `executed` is its own last count of
    /// executed tuples: what it held and had not executed is lost and counted; its blocks come home; what was never
    /// handed to it waits for its successor, except for a spout, whose trees are no more. `has_unnamed`: it may have had
    /// tuples that these blocks do not tell of.
    pub fn detach(&mut self, slot: Slot, executed: u64, has_unnamed: bool) {
        let local = &mut self.locals[slot.at()];
        if !std::mem::take(&mut local.attached) {
            return;
        }
        local.grants.clear();
        let consumed = local.consumed;
        self.blocks.ungrant_all(slot);
        let component = self.routes.component(slot);
        let is_spout = self.routes.trees.grow_from(component);
        let mut held = 0;
        while let Some(block) = self.blocks.any_held(slot) {
            self.blocks.unhold(slot, block).unwrap_or_else(|_| unreachable!("it was found held"));
            self.leave_instance(slot, block);
            if is_spout {
                self.void(block);
            } else {
                held += u64::from(self.blocks.flight(block).count);
                self.lose(block);
            }
        }
        if is_spout {
            self.void_pending(slot);
        } else if has_unnamed {
            self.lose_unnamed(component);
        }
        let half_done = executed.saturating_sub(consumed).min(held);
        self.counters.drop_tuples(Cause::InstanceDied, held - half_done);
        for ended in self.ends.forget_delivered(slot) {
            if !self.ends.has_ended(slot) {
                self.locals[slot.at()].pending.push_back(Descriptor::end(ended));
            }
        }
    }

    /// An instance put this into its ring.
    ///
    /// # Errors
    /// A [`Fault`] when it has no right to; nothing has changed then, and the instance is to be cut off.
    #[inline]
    pub fn descriptor(&mut self, slot: Slot, descriptor: Descriptor) -> Result<(), Fault> {
        match descriptor.kind {
            DescriptorKind::Data => self.emit(slot, descriptor)?,
            DescriptorKind::Done => self.consumed(slot, descriptor.block)?,
            DescriptorKind::End => self.end_from_instance(slot)?,
            DescriptorKind::Ack => self.ack(slot, descriptor)?,
            DescriptorKind::Grant | DescriptorKind::Lost | DescriptorKind::FailAll => {
                return Err(Fault::WrongKind);
            }
        }
        self.mark_ready(slot);
        Ok(())
    }

    /// Moves what waits for the instance of `slot` into its ring, as far as `push` takes it.
    pub fn deliver(&mut self, slot: Slot, mut push: impl FnMut(Descriptor) -> bool) -> Delivered {
        let local = &mut self.locals[slot.at()];
        if !local.attached {
            return Delivered::All;
        }
        while let Some(&block) = local.grants.last() {
            if !push(Descriptor::of_block(DescriptorKind::Grant, block)) {
                // An instance that has a ring full of grants says something before it needs more.
                return if local.pending.is_empty() { Delivered::Waiting } else { Delivered::TryAgain };
            }
            local.grants.pop();
        }
        // The out ring has room for its whole quota, for one end and for this many blocks it consumed.
        let limit = (OUT_SLOTS - UNPUBLISHED_MAX) as u32 - self.blocks.own(slot).len() as u32 - 1;
        while let Some(&next) = local.pending.front() {
            use DescriptorKind::{Ack, Data, FailAll, Lost};
            let is_block = matches!(next.kind, Data | Ack | Lost);
            if is_block && self.blocks.held_count(slot) >= limit {
                return Delivered::Waiting;
            }
            if !push(next) {
                // An instance that holds blocks and has all its grants comes forward by itself: it says done.
                let will_speak = self.blocks.held_count(slot) > 0;
                return if will_speak { Delivered::Waiting } else { Delivered::TryAgain };
            }
            local.pending.pop_front();
            if is_block {
                self.blocks.hold(slot, next.block);
            } else if next.kind == FailAll {
                local.fails_all = false;
            } else {
                self.ends.deliver(slot, TaskId(next.target));
            }
        }
        Delivered::All
    }

    /// A local task has ended: said by its instance, by a registration or by the plan.
    pub fn end_task(&mut self, slot: Slot) {
        if !self.ends.end(slot) {
            return;
        }
        let task = self.routes.tasks[slot.at()];
        if self.routes.trees.grow_from(self.routes.component(slot)) {
            self.void_pending(slot);
        }
        for descriptor in std::mem::take(&mut self.locals[slot.at()].pending) {
            if descriptor.kind == DescriptorKind::Data {
                self.leave_instance(slot, descriptor.block);
                self.drop_block(descriptor.block, Cause::TaskEnded, 1);
            }
        }
        self.spread_end(slot, task);
        self.effects.push(Effect::TaskEnded(task));
    }

    fn end_from_instance(&mut self, slot: Slot) -> Result<(), Fault> {
        // Of a process before this one it may be known, unknown to this one.
        if std::mem::replace(&mut self.locals[slot.at()].said_end, true) {
            return Err(Fault::AfterEnd { task: self.routes.tasks[slot.at()] });
        }
        self.end_task(slot);
        Ok(())
    }

    fn consumed(&mut self, slot: Slot, block: BlockId) -> Result<(), Fault> {
        self.blocks.unhold(slot, block)?;
        self.locals[slot.at()].consumed += u64::from(self.blocks.flight(block).count);
        self.leave_instance(slot, block);
        self.let_go(block);
        Ok(())
    }

    fn emit(&mut self, slot: Slot, descriptor: Descriptor) -> Result<(), Fault> {
        let Descriptor { block, used, count, target, .. } = descriptor;
        self.check_written(slot, &descriptor, u32::MAX)?;
        let from = self.routes.component(slot);
        let flight = Flight { source: from, used, count };
        match Destination::from_u32(target) {
            Destination::Task(task) => {
                let way = self.routes.way(task).ok_or(Fault::UnknownTarget { target })?;
                if !self.routes.reads(from, way.component) {
                    return Err(Fault::NotAReader { target });
                }
                match way.place {
                    Place::Local(to) => {
                        self.blocks.fly(block, flight, 1);
                        self.deliver_block(to, block);
                    }
                    Place::Remote(queue) => {
                        self.blocks.fly(block, flight, 1);
                        self.enqueue(queue, block, Purpose::Data);
                    }
                    Place::Unreached => return Err(Fault::NotAReader { target }),
                }
            }
            Destination::Broadcast(number) => self.emit_to_all(block, flight, number)?,
        }
        Ok(())
    }

    /// Whether the instance of `slot` may send the block that it names, with so many bytes in it.
    pub(super) fn check_written(&self, slot: Slot, block: &Descriptor, limit: u32) -> Result<(), Fault> {
        let size = self.sizes.block_bytes[self.blocks.emittable(slot, block.block)?].min(limit);
        if !(MIN_BATCH_BYTES..=size).contains(&block.used) {
            return Err(Fault::BadLength { used: block.used, size });
        }
        if self.ends.has_ended(slot) {
            return Err(Fault::AfterEnd { task: self.routes.tasks[slot.at()] });
        }
        Ok(())
    }

    fn emit_to_all(&mut self, block: BlockId, flight: Flight, number: u32) -> Result<(), Fault> {
        let target = Destination::Broadcast(number).to_u32();
        let index = number as usize;
        let ways = self.routes.broadcasts.get(index).ok_or(Fault::UnknownTarget { target })?;
        if ways.from != flight.source {
            return Err(Fault::NotAReader { target });
        }
        let (locals, queues) = (ways.local.len(), ways.queues.len());
        // One reference of its own, so that the block stays away until all deliveries are under way.
        self.blocks.fly(block, flight, (locals + queues) as u32 + 1);
        for i in 0..locals {
            self.deliver_block(self.routes.broadcasts[index].local[i], block);
        }
        for i in 0..queues {
            self.enqueue(self.routes.broadcasts[index].queues[i], block, Purpose::Data);
        }
        self.let_go(block);
        Ok(())
    }

    /// Tells every reader: local ones behind what waits for them, remote ones behind the data in their queues.
    fn spread_end(&mut self, slot: Slot, task: TaskId) {
        let from = self.routes.component(slot);
        let broadcasts = self.routes.broadcasts.iter().filter(|b| b.from == from);
        let through: Vec<_> = broadcasts.map(|b| (b.to, b.queues.clone())).collect();
        let all: Vec<_> = self.routes.all_tasks().collect();
        let readers = all.into_iter().filter(|(_, way)| self.routes.reads(from, way.component));
        let mut queues: Vec<QueueIndex> = through.iter().flat_map(|(_, queues)| queues.clone()).collect();
        let mut local = Vec::new();
        for (reader, way) in readers {
            match way.place {
                Place::Local(to) => local.push(to),
                Place::Remote(queue) => {
                    let broadcast = through.iter().filter(|(to, _)| *to == way.component).count();
                    self.ends.leave(slot, reader, 1 + broadcast);
                    queues.push(queue);
                }
                Place::Unreached => {}
            }
        }
        local.into_iter().for_each(|to| self.deliver_end(to, task));
        for queue in queues {
            self.queues[queue.at()].push(Waiting::End(task));
            self.pump(queue);
        }
    }
}
