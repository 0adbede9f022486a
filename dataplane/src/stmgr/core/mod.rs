//! The stream manager's decisions: events in, effects out. No sockets, rings, clocks or threads.
//!
//! * [`instances`](self): what an instance's descriptors do, its coming and its going.
//! * [`peers`](self): what frames of other stmgrs do, links that come and go.
//! * [`acks`](self): what goes to spouts: acks and fails, and what is lost.
//! * [`backpressure`](self): which spouts are held, since some task is behind.
//!
//! Everything that costs happens once per block. A block is routed by one look-up, and its memory is never touched.
//! What is to go into an instance's ring waits in its slot, [`Core::deliver`] takes it out; what is to go to peers
//! and to the tmaster comes out as [`Effect`]s.

mod acks;
mod audit;
mod backpressure;
mod instances;
mod peers;
#[cfg(test)]
pub(in crate::stmgr) mod tests;

pub use instances::Delivered;
pub use peers::Received;

use super::blocks::{Blocks, Flight};
use super::counters::{Cause, Counters};
use super::credit::{Queue, Waiting, Window};
use super::ends::Ends;
use super::pressure::Pressure;
use super::route::{Peer, Routes, Slot, WindowIndex};
use super::sizes::{Home, Sizes, homes};
use super::watermarks::{Gauges, Place as Waits, Watermarks};
use crate::frame::{Destination, Purpose};
use crate::ids::{BlockId, TaskId};
use crate::memory::Descriptor;
use std::collections::{BTreeSet, VecDeque};

/// Something for a driver to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send the block's first `used` bytes, then call [`Core::sent`].
    SendBatch {
        /// To whom.
        peer: Peer,
        /// For whom there.
        target: Destination,
        /// Why.
        purpose: Purpose,
        /// The block.
        block: BlockId,
        /// How much of it.
        used: u32,
    },
    /// Tell a peer that a local task has ended.
    SendEnd {
        /// To whom.
        peer: Peer,
        /// For whom there.
        target: TaskId,
        /// Who has ended.
        ended: TaskId,
    },
    /// Tell a peer that it may send more.
    SendCredit {
        /// To whom.
        peer: Peer,
        /// For which destination here.
        target: Destination,
        /// The size class.
        class: usize,
        /// How many blocks more.
        blocks: u32,
    },
    /// Tell the tmaster that a local task has ended.
    TaskEnded(TaskId),
    /// Tell a peer which of its spouts fail all that is in flight: [`Core::take_untold`].
    TellFailAll(Peer),
    /// Tell a peer for which tasks spouts are to be held: [`Core::statement`].
    StateHolders(Peer),
    /// Hold the instance of a spout, or let it go on.
    Hold(Slot, bool),
}

/// A local task.
#[derive(Debug, Default)]
struct LocalTask {
    attached: bool,
    /// Blocks of its own that are free again. They go into the ring first: nothing orders them after data, and an
    /// instance may need one before it can take more data.
    grants: Vec<BlockId>,
    /// For a bolt data and ends, in order; bounded by the blocks of its upstream homes and by the number of upstream
    /// tasks. For a spout acks and losses, bounded by the blocks there are, and one word to fail all.
    pending: VecDeque<Descriptor>,
    /// That word is among them. One is enough: it is about everything in flight when it arrives.
    fails_all: bool,
    /// Tuples in blocks that the present instance has consumed.
    consumed: u64,
    is_ready: bool,
    /// The present instance has said that the task has ended.
    said_end: bool,
    /// It is a spout that is to emit nothing for now.
    held: bool,
}

#[derive(Debug, Default)]
struct PeerState {
    linked: bool,
    /// Its last link broke, and there is no new one yet.
    lost: bool,
    /// The block that its link receives into at the moment, and what it is to be.
    filling: Option<(WindowIndex, BlockId, Purpose)>,
    /// Its spouts that are to fail all in flight, and have not been told; at most its tasks.
    untold: BTreeSet<TaskId>,
}

/// The state of one container's stream manager.
#[derive(Debug)]
pub struct Core {
    routes: Routes,
    sizes: Sizes,
    blocks: Blocks,
    ends: Ends,
    locals: Vec<LocalTask>,
    peers: Vec<PeerState>,
    queues: Vec<Queue>,
    windows: Vec<Window>,
    gauges: Gauges,
    pressure: Pressure,
    /// What is too much for a task is dropped.
    drops: bool,
    ready: Vec<Slot>,
    effects: Vec<Effect>,
    /// Batches that the network is not done with.
    sending: usize,
    /// What is counted along the way.
    pub counters: Counters,
}

impl Core {
    /// A container without instances and links, all blocks at home.
    #[must_use]
    pub fn new(routes: Routes, sizes: Sizes, watermarks: Watermarks) -> Self {
        let homes = homes(&sizes, &routes);
        let slots = routes.tasks.len();
        let window = |&pair| Window::new(pair, sizes.of_pair(&routes, pair));
        let mut windows: Vec<_> = routes.windows.iter().map(window).collect();
        for (block, &(home, class)) in homes.iter().enumerate() {
            if let Home::Window(window) = home {
                windows[window.at()].stock(class, BlockId(block as u32));
            }
        }
        let max_task = routes.all_tasks().map(|(task, _)| task.0).max().unwrap_or(0);
        Self {
            blocks: Blocks::new(&homes, slots, routes.windows.len()),
            ends: Ends::new(slots, max_task),
            locals: (0..slots).map(|_| LocalTask::default()).collect(),
            peers: routes.peers.iter().map(|_| PeerState::default()).collect(),
            queues: routes.queues.iter().map(|&pair| Queue::new(pair)).collect(),
            windows,
            gauges: Gauges::new(&routes, &sizes, &watermarks),
            pressure: Pressure::new(max_task, &routes.tasks, routes.peers.len(), watermarks.drop),
            drops: watermarks.drop,
            ready: Vec::new(),
            effects: Vec::new(),
            sending: 0,
            counters: Counters::default(),
            routes,
            sizes,
        }
    }

    /// The tables it routes by.
    #[must_use]
    pub fn routes(&self) -> &Routes {
        &self.routes
    }

    /// Hands over what is to be done, in order, into `out`, which it empties first.
    pub fn take_effects(&mut self, out: &mut Vec<Effect>) {
        out.clear();
        std::mem::swap(&mut self.effects, out);
    }

    /// The next slot that has something for its instance; call [`deliver`](Self::deliver) for it.
    pub fn next_ready(&mut self) -> Option<Slot> {
        let slot = self.ready.pop()?;
        self.locals[slot.at()].is_ready = false;
        Some(slot)
    }

    /// Whether nobody waits for a block that an instance has consumed or soon will: then what instances say of that can
    /// wait until there is something else to do.
    #[must_use]
    pub fn can_wait_for_blocks(&self) -> bool {
        let behind = self.blocks.is_scarce() || self.gauges.any_over() || self.drops;
        !behind && self.locals.iter().all(|local| local.pending.is_empty() && local.grants.is_empty())
    }

    /// Whether a local task has ended.
    #[must_use]
    pub fn has_ended(&self, slot: Slot) -> bool {
        self.ends.has_ended(slot)
    }

    /// The local tasks that have ended.
    #[must_use]
    pub fn ended_tasks(&self) -> Vec<TaskId> {
        self.ends.ended().map(|slot| self.routes.tasks[slot.at()]).collect()
    }

    fn mark_ready(&mut self, slot: Slot) {
        let local = &mut self.locals[slot.at()];
        let has_work = !local.grants.is_empty() || !local.pending.is_empty();
        if local.attached && has_work && !local.is_ready {
            local.is_ready = true;
            self.ready.push(slot);
        }
    }

    /// One delivery of a block is over.
    fn let_go(&mut self, block: BlockId) {
        match self.blocks.release(block) {
            Some(Home::Task(slot)) => self.grant_again(slot, block),
            Some(Home::Window(window)) => self.return_to_window(window, block),
            None => {}
        }
    }

    fn grant_again(&mut self, slot: Slot, block: BlockId) {
        let local = &mut self.locals[slot.at()];
        if local.attached && !self.ends.has_ended(slot) && self.blocks.grant(block) {
            local.grants.push(block);
            self.mark_ready(slot);
        }
    }

    fn return_to_window(&mut self, index: WindowIndex, block: BlockId) {
        let class = self.blocks.class(block);
        let window = &mut self.windows[index.at()];
        let Some(blocks) = window.put(class, block) else { return };
        let (peer, target) = (window.pair.peer, window.pair.destination);
        // Without a link this credit is part of what the next link begins with.
        if self.peers[peer.at()].linked {
            self.effects.push(Effect::SendCredit { peer, target, class, blocks });
        }
    }

    /// A block for a local bolt: into its pending queue, or dropped when the task takes nothing any more, or too much
    /// of it waits already.
    fn deliver_block(&mut self, to: Slot, block: BlockId) {
        if self.ends.has_ended(to) {
            self.drop_block(block, Cause::TaskEnded, 1);
        } else if self.drops && self.gauges.is_over(Waits::Task(to)) {
            self.drop_block(block, Cause::Backpressure, 1);
        } else {
            self.wait_for_instance(to, block, Purpose::Data);
        }
    }

    /// Drops what so many tasks should have got.
    fn drop_block(&mut self, block: BlockId, cause: Cause, tasks: u64) {
        let count = self.blocks.flight(block).count;
        self.counters.drop_tuples(cause, u64::from(count) * tasks);
        self.lose(block);
    }

    fn wait_for_instance(&mut self, to: Slot, block: BlockId, purpose: Purpose) {
        let Flight { used, count, .. } = self.blocks.flight(block);
        let (kind, target) = (purpose.descriptor_kind(), self.routes.tasks[to.at()].0);
        self.locals[to.at()].pending.push_back(Descriptor { kind, block, target, used, count });
        self.gauges.add(Waits::Task(to), self.blocks.class(block));
        self.mark_ready(to);
    }

    fn deliver_end(&mut self, to: Slot, ended: TaskId) {
        if !self.ends.has_ended(to) && self.ends.learn(to, ended) {
            self.locals[to.at()].pending.push_back(Descriptor::end(ended));
            self.mark_ready(to);
        }
    }

    /// A local task's delivery of a block is over.
    fn leave_instance(&mut self, slot: Slot, block: BlockId) {
        self.gauges.remove(Waits::Task(slot), self.blocks.class(block));
    }

    fn enqueue(&mut self, queue: super::route::QueueIndex, block: BlockId, purpose: Purpose) {
        let place = Waits::Queue(queue);
        if purpose != Purpose::Data && self.peers[self.queues[queue.at()].pair.peer.at()].lost {
            self.void_for_peer(queue, block);
            return;
        }
        if self.drops && purpose == Purpose::Data && self.gauges.is_over(place) {
            let tasks = self.gauges.tasks(place).len() as u64;
            self.drop_block(block, Cause::Backpressure, tasks);
            return;
        }
        let used = self.blocks.flight(block).used;
        self.gauges.add(place, self.blocks.class(block));
        // A block of this pool has a class, so its bytes in use have one too.
        let class = self.sizes.class_for(used).unwrap_or(crate::memory::CLASSES - 1) as u8;
        self.queues[queue.at()].push(Waiting::Block { block, used, class, purpose });
        self.pump(queue);
    }
}
