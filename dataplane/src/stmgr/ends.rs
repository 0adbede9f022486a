//! Which tasks have emitted their last tuple, and who has been told.
//!
//! That a task has ended is state, not only a message: each local task gets the end of each of its upstream tasks
//! exactly once per process, after all data of it, however often that end is repeated by a peer's new link; and an
//! instance that starts late gets all of them again.

use super::bits::Bits;
use super::route::Slot;
use crate::ids::TaskId;
use std::collections::BTreeMap;

/// The ends known in a container.
#[derive(Debug)]
pub struct Ends {
    /// By slot: the local tasks that have ended.
    ended: Bits,
    /// By slot, over task ids: ends that wait for the instance or were delivered to it.
    known: Vec<Bits>,
    /// By slot, over task ids: ends that the present instance has got.
    delivered: Vec<Bits>,
    /// Ends on their way to remote tasks: how many queues still have to pass their data first.
    leaving: BTreeMap<(Slot, TaskId), usize>,
}

impl Ends {
    /// Nobody has ended.
    #[must_use]
    pub fn new(slots: usize, max_task: u32) -> Self {
        let empty = vec![Bits::new(max_task as usize + 1); slots];
        Self { ended: Bits::new(slots), known: empty.clone(), delivered: empty, leaving: BTreeMap::new() }
    }

    /// A local task has ended; says whether that is news.
    pub fn end(&mut self, slot: Slot) -> bool {
        self.ended.insert(slot.at())
    }

    /// Whether a local task has ended.
    #[must_use]
    pub fn has_ended(&self, slot: Slot) -> bool {
        self.ended.contains(slot.at())
    }

    /// The local tasks that have ended.
    pub fn ended(&self) -> impl Iterator<Item = Slot> {
        self.ended.iter().map(|slot| Slot(slot as u32))
    }

    /// `task`, upstream of `slot`, has ended; says whether `slot` is to be told.
    pub fn learn(&mut self, slot: Slot, task: TaskId) -> bool {
        self.known[slot.at()].insert(task.0 as usize)
    }

    /// The instance of `slot` has got the end of `task`.
    pub fn deliver(&mut self, slot: Slot, task: TaskId) {
        self.delivered[slot.at()].insert(task.0 as usize);
    }

    /// The instance of `slot` is gone: returns what its successor has to get again.
    pub fn forget_delivered(&mut self, slot: Slot) -> Vec<TaskId> {
        let tasks: Vec<_> = self.delivered[slot.at()].iter().map(|task| TaskId(task as u32)).collect();
        for task in &tasks {
            self.delivered[slot.at()].remove(task.0 as usize);
        }
        tasks
    }

    /// The end of the task of `slot` goes to the remote task `to` once it has passed `queues` queues.
    pub fn leave(&mut self, slot: Slot, to: TaskId, queues: usize) {
        self.leaving.insert((slot, to), queues);
    }

    /// It has passed one of them; says whether it was the last.
    pub fn pass(&mut self, slot: Slot, to: TaskId) -> bool {
        let Some(queues) = self.leaving.get_mut(&(slot, to)) else { return false };
        *queues -= 1;
        let last = *queues == 0;
        if last {
            self.leaving.remove(&(slot, to));
        }
        last
    }

    /// Whether it still waits in a queue.
    #[must_use]
    pub fn is_leaving(&self, slot: Slot, to: TaskId) -> bool {
        self.leaving.contains_key(&(slot, to))
    }
}
