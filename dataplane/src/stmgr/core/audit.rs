//! Counts again what the core counts along the way, and says what does not fit together. For the simulator and the tests:
//! it looks at every block.
//!
//! * No block is leaked, or is at more places than it has deliveries; what is free is where it is looked for.
//! * Memory is bounded: what waits for a task is in the quotas of the tasks that it reads, or in the windows for it.
//! * Who is behind and who is held for it is what the gauges and the peers that are linked say.

use super::Core;
use crate::frame::Destination;
use crate::ids::BlockId;
use crate::memory::DescriptorKind;
use crate::stmgr::bits::Bits;
use crate::stmgr::credit::Waiting;
use crate::stmgr::route::{Peer, QueueIndex, Slot, WindowIndex};
use crate::stmgr::sizes::Home;
use crate::stmgr::watermarks::Place;

impl Core {
    /// To be called after [`turn`](Self::turn).
    ///
    /// # Errors
    /// What does not fit together.
    pub fn audit(&self) -> Result<(), String> {
        self.audit_deliveries()?;
        (0..self.locals.len() as u32).try_for_each(|slot| self.audit_task(Slot(slot)))?;
        (0..self.queues.len() as u32).try_for_each(|queue| self.audit_queue(QueueIndex(queue)))?;
        (0..self.windows.len() as u32).try_for_each(|window| self.audit_window(WindowIndex(window)))?;
        self.audit_pressure()
    }

    /// The blocks that wait for the instance of `slot`.
    fn pending(&self, slot: Slot) -> impl Iterator<Item = (BlockId, DescriptorKind)> {
        use DescriptorKind::{Ack, Data, Lost};
        let pending = self.locals[slot.at()].pending.iter();
        pending.filter(|d| matches!(d.kind, Data | Ack | Lost)).map(|d| (d.block, d.kind))
    }

    fn queued(&self, queue: QueueIndex) -> impl Iterator<Item = BlockId> {
        self.queues[queue.at()].waiting().filter_map(|waiting| match waiting {
            Waiting::Block { block, .. } => Some(*block),
            Waiting::End(_) => None,
        })
    }

    fn audit_deliveries(&self) -> Result<(), String> {
        let mut places = vec![0; self.blocks.count()];
        let mut at = |block: BlockId| places[block.0 as usize] += 1;
        for slot in (0..self.locals.len() as u32).map(Slot) {
            self.pending(slot).for_each(|(block, _)| at(block));
            self.blocks.held(slot).for_each(&mut at);
        }
        for queue in (0..self.queues.len() as u32).map(QueueIndex) {
            self.queued(queue).for_each(&mut at);
        }
        self.blocks.audit(&places, self.sending)
    }

    fn weight_of(&self, blocks: impl Iterator<Item = BlockId>) -> u64 {
        blocks.map(|block| self.gauges.weight(self.blocks.class(block))).sum()
    }

    fn audit_task(&self, slot: Slot) -> Result<(), String> {
        let task = self.routes.tasks[slot.at()];
        let waiting = self.pending(slot).map(|(block, _)| block).chain(self.blocks.held(slot));
        let (bytes, gauge) = (self.weight_of(waiting), self.gauges.bytes(Place::Task(slot)));
        if bytes != gauge {
            return Err(format!("{bytes} bytes wait for task {task}, its gauge shows {gauge}"));
        }
        let mut seen = Bits::new(self.blocks.count());
        for (block, _) in self.pending(slot).filter(|(_, kind)| *kind == DescriptorKind::Data) {
            if !self.may_wait(slot, block) {
                return Err(format!("{block:?} waits for task {task} and is of nobody that it reads"));
            }
            if !seen.insert(block.0 as usize) {
                return Err(format!("{block:?} waits for task {task} twice"));
            }
        }
        let grants = self.locals[slot.at()].attached && !self.ends.has_ended(slot);
        match self.blocks.own(slot).iter().find(|block| grants && self.blocks.is_home(**block)) {
            Some(block) => Err(format!("{block:?} of task {task} is free, and not granted to it")),
            None => Ok(()),
        }
    }

    /// Whether a block with tuples for the task of `slot` is in a quota of which it may wait.
    fn may_wait(&self, slot: Slot, block: BlockId) -> bool {
        let component = self.routes.component(slot);
        match self.blocks.home(block) {
            Home::Task(writer) => self.routes.reads(self.routes.component(writer), component),
            Home::Window(window) => match self.windows[window.at()].pair.destination {
                Destination::Task(task) => task == self.routes.tasks[slot.at()],
                broadcast => self.routes.reader(broadcast) == Some(component),
            },
        }
    }

    fn audit_queue(&self, queue: QueueIndex) -> Result<(), String> {
        let bytes = self.weight_of(self.queued(queue));
        let gauge = self.gauges.bytes(Place::Queue(queue));
        let pair = self.queues[queue.at()].pair;
        if !self.peers[pair.peer.at()].linked && self.queues[queue.at()].has_credit() {
            return Err(format!("there is credit for {pair:?}, and no link"));
        }
        let said = || format!("{bytes} bytes wait for {pair:?}, its gauge shows {gauge}");
        if bytes == gauge { Ok(()) } else { Err(said()) }
    }

    fn audit_window(&self, index: WindowIndex) -> Result<(), String> {
        let window = &self.windows[index.at()];
        let (free, home) = (window.free_count(), self.blocks.home_count(Home::Window(index)));
        let said = || format!("{home} blocks of the window of {:?} are free, it has {free}", window.pair);
        if free == home { Ok(()) } else { Err(said()) }
    }

    fn audit_pressure(&self) -> Result<(), String> {
        let mut places = vec![0; self.pressure.task_count()];
        for task in self.gauges.told_over().flat_map(|place| self.gauges.tasks(place)) {
            places[task.0 as usize] += 1;
        }
        self.pressure.audit(&places)?;
        for peer in (0..self.peers.len() as u32).map(Peer) {
            if !self.peers[peer.at()].linked && self.pressure.is_told_by(peer) {
                return Err(format!("{peer:?} is not linked, and spouts are held for what it stated"));
            }
        }
        let holders = self.present_holders();
        for slot in (0..self.locals.len() as u32).map(Slot).filter(|_| self.pressure.is_settled()) {
            let (held, right) = (self.is_held(slot), self.is_to_be_held(slot, &holders));
            if held != right {
                let task = self.routes.tasks[slot.at()];
                return Err(format!("task {task}: held is {held}, and right would be {right}"));
            }
        }
        Ok(())
    }
}
