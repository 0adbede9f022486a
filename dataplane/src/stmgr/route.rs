//! Where a block goes: the look-up tables made once from the topology and the packing plan.
//!
//! A *slot* is a local task, a *peer* another container's stmgr. Towards each peer there is one *queue* per
//! destination that a local task can emit to; from each peer one *window* per destination that one of its tasks can
//! emit to here. Both ends of a link compute the same pairs: my queue is my peer's window. Where trees are tracked the
//! spouts above a local bolt are destinations too, of acks and of blocks that were lost.

use super::bits::Bits;
use super::trees::{Trees, spouts_above};
use crate::frame::{Destination, Purpose};
use crate::ids::{ComponentIndex, ContainerId, TaskId};
use crate::plan::{Grouping, PackingPlan, Topology};

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u32);

        impl $name {
            /// The position in the table it belongs to.
            #[must_use]
            pub fn at(self) -> usize {
                self.0 as usize
            }
        }
    };
}

index! {
    /// A local task's position among the container's tasks.
    Slot
}
index! {
    /// Another container's position among all others.
    Peer
}
index! {
    /// A queue of blocks for one destination at one peer.
    QueueIndex
}
index! {
    /// Blocks kept ready to receive what one peer sends to one destination here.
    WindowIndex
}

/// Where a task is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In this container.
    Local(Slot),
    /// Through the queue to its container.
    Remote(QueueIndex),
    /// No local task ever emits or acks to it.
    Unreached,
}

/// A task as the router sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// What it runs.
    pub component: ComponentIndex,
    /// Its container, unless it is this one.
    pub peer: Option<Peer>,
    /// How a block gets there.
    pub place: Place,
}

/// A broadcast as the router sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BroadcastWays {
    /// Who emits.
    pub from: ComponentIndex,
    /// Who gets it.
    pub to: ComponentIndex,
    /// Its local readers.
    pub local: Vec<Slot>,
    /// One queue for each peer that has readers; empty when no local task emits it.
    pub queues: Vec<QueueIndex>,
}

/// One peer and one destination: the key of a queue or of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The other stmgr.
    pub peer: Peer,
    /// Where it is to go.
    pub destination: Destination,
}

/// All look-up tables of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    /// By slot: the local tasks, ascending.
    pub tasks: Vec<TaskId>,
    /// By peer: the other containers, ascending.
    pub peers: Vec<ContainerId>,
    /// By queue.
    pub queues: Vec<Pair>,
    /// By window.
    pub windows: Vec<Pair>,
    /// By broadcast number.
    pub broadcasts: Vec<BroadcastWays>,
    /// Whose tuple trees there are to be acked.
    pub trees: Trees,
    container: ContainerId,
    /// By task id; entry 0 is unused.
    ways: Vec<Option<Way>>,
    /// By component: the components that read it.
    readers: Vec<Bits>,
    /// By component: the spouts above it.
    above: Vec<Bits>,
    /// By component: to how many destinations each of its tasks emits, counted once for each stream.
    destinations: Vec<u32>,
    /// By peer × slot, then by peer × broadcast.
    task_windows: Vec<Option<WindowIndex>>,
    broadcast_windows: Vec<Option<WindowIndex>>,
    broadcast_queues: Vec<Option<QueueIndex>>,
}

/// Why there is no way to route by a plan.
#[derive(thiserror::Error, Clone, Debug, PartialEq, Eq)]
pub enum RouteError {
    /// The container is not in the plan.
    #[error("container {0} is not in the packing plan")]
    NoSuchContainer(ContainerId),
    /// The packing plan names a task that the topology lacks, or one twice.
    #[error("the packing plan does not fit the topology: task {0} is unknown or packed twice")]
    BadTask(TaskId),
    /// The packing plan lacks a task.
    #[error("the packing plan does not fit the topology: task {0} is in no container")]
    Unpacked(TaskId),
}

impl Routes {
    /// Makes the tables of `container`.
    ///
    /// # Errors
    /// [`RouteError`] when the packing plan does not pack each task of the topology exactly once, or lacks the container.
    pub fn new(
        topology: &Topology,
        packing: &PackingPlan,
        container: ContainerId,
    ) -> Result<Self, RouteError> {
        let own = packing.container(container).ok_or(RouteError::NoSuchContainer(container))?;
        let components = topology.components.len();
        let mut readers = vec![Bits::new(components); components];
        for (from, bits) in readers.iter_mut().enumerate() {
            topology.readers(ComponentIndex(from as u16)).iter().for_each(|to| {
                bits.insert(to.0 as usize);
            });
        }
        let mut peers: Vec<_> = packing.containers.iter().map(|c| c.id).filter(|&c| c != container).collect();
        peers.sort_unstable();
        let mut tasks: Vec<_> = own.tasks.iter().map(|t| t.task).collect();
        tasks.sort_unstable();
        let mut routes = Self {
            ways: ways(topology, packing, &tasks, &peers)?,
            broadcasts: Vec::new(),
            queues: Vec::new(),
            windows: Vec::new(),
            task_windows: vec![None; peers.len() * tasks.len()],
            broadcast_windows: Vec::new(),
            broadcast_queues: Vec::new(),
            trees: Trees::new(topology),
            above: spouts_above(topology),
            destinations: destinations(topology),
            container,
            tasks,
            peers,
            readers,
        };
        routes.add_task_pairs();
        routes.add_broadcasts(topology);
        Ok(routes)
    }

    /// This container.
    #[must_use]
    pub fn container(&self) -> ContainerId {
        self.container
    }

    /// What is known of `task`, or `None` for an unknown one.
    #[must_use]
    pub fn way(&self, task: TaskId) -> Option<Way> {
        self.ways.get(task.0 as usize).copied().flatten()
    }

    /// The slot of a local task.
    #[must_use]
    pub fn slot(&self, task: TaskId) -> Option<Slot> {
        self.tasks.binary_search(&task).ok().map(|i| Slot(i as u32))
    }

    /// The peer that is `container`.
    #[must_use]
    pub fn peer(&self, container: ContainerId) -> Option<Peer> {
        self.peers.binary_search(&container).ok().map(|i| Peer(i as u32))
    }

    /// What the task of `slot` runs.
    #[must_use]
    pub fn component(&self, slot: Slot) -> ComponentIndex {
        self.ways[self.tasks[slot.at()].0 as usize].map_or(ComponentIndex(u16::MAX), |way| way.component)
    }

    /// Whether `to` reads a stream of `from`.
    #[must_use]
    pub fn reads(&self, from: ComponentIndex, to: ComponentIndex) -> bool {
        self.readers.get(from.0 as usize).is_some_and(|bits| bits.contains(to.0 as usize))
    }

    /// Whether the component is a spout.
    #[must_use]
    pub fn is_spout(&self, component: ComponentIndex) -> bool {
        self.is_above(component, component)
    }

    /// Whether `spout` is a spout whose tuples, or what comes of them, reach `component`.
    #[must_use]
    pub fn is_above(&self, spout: ComponentIndex, component: ComponentIndex) -> bool {
        self.above.get(usize::from(component.0)).is_some_and(|above| above.contains(usize::from(spout.0)))
    }

    /// To how many destinations each task of `component` emits, counted once for each stream.
    #[must_use]
    pub fn destinations(&self, component: ComponentIndex) -> u32 {
        self.destinations.get(usize::from(component.0)).copied().unwrap_or_default()
    }

    /// The component that gets what is meant for `destination`.
    #[must_use]
    pub fn reader(&self, destination: Destination) -> Option<ComponentIndex> {
        match destination {
            Destination::Task(task) => self.way(task).map(|way| way.component),
            Destination::Broadcast(number) => self.broadcasts.get(number as usize).map(|b| b.to),
        }
    }

    /// Every task with its way, by ascending id.
    pub fn all_tasks(&self) -> impl Iterator<Item = (TaskId, Way)> {
        let all = self.ways.iter().enumerate();
        all.filter_map(|(task, way)| way.map(|way| (TaskId(task as u32), way)))
    }

    /// The queue to a peer for a destination.
    #[must_use]
    pub fn queue(&self, peer: Peer, destination: Destination) -> Option<QueueIndex> {
        match destination {
            Destination::Task(task) => match self.way(task)? {
                Way { place: Place::Remote(queue), peer: Some(at), .. } if at == peer => Some(queue),
                _ => None,
            },
            Destination::Broadcast(number) => {
                let count = self.broadcasts.len();
                let inside = (number as usize) < count;
                inside.then(|| self.broadcast_queues[peer.at() * count + number as usize]).flatten()
            }
        }
    }

    /// The window of a peer for a destination.
    #[must_use]
    pub fn window(&self, peer: Peer, destination: Destination) -> Option<WindowIndex> {
        match destination {
            Destination::Task(task) => {
                let slot = self.slot(task)?;
                self.task_windows[peer.at() * self.tasks.len() + slot.at()]
            }
            Destination::Broadcast(number) => {
                let count = self.broadcasts.len();
                let inside = (number as usize) < count;
                inside.then(|| self.broadcast_windows[peer.at() * count + number as usize]).flatten()
            }
        }
    }

    /// Whether blocks for `destination` are acks, fails and losses: it is a spout whose trees are tracked.
    #[must_use]
    pub fn is_for_acks(&self, destination: Destination) -> bool {
        match destination {
            Destination::Task(task) => self.way(task).is_some_and(|to| self.trees.grow_from(to.component)),
            Destination::Broadcast(_) => false,
        }
    }

    /// Whether `peer` may send what `source` wrote to `destination`, for this purpose. What is lost may have been
    /// written anywhere; everything else was written by a task of the peer.
    #[must_use]
    pub fn may_receive(
        &self,
        peer: Peer,
        source: TaskId,
        destination: Destination,
        purpose: Purpose,
    ) -> bool {
        let Some(from) = self.way(source) else { return false };
        if purpose != Purpose::Lost && from.peer != Some(peer) {
            return false;
        }
        match destination {
            Destination::Task(task) => self.way(task).is_some_and(|to| {
                let (from, here) = (from.component, to.peer.is_none());
                here && match purpose {
                    Purpose::Data => self.reads(from, to.component),
                    Purpose::Ack => self.trees.ack_to(from, to.component),
                    Purpose::Lost => self.trees.have(from, to.component),
                }
            }),
            Destination::Broadcast(number) => {
                let broadcast = self.broadcasts.get(number as usize);
                purpose == Purpose::Data && broadcast.is_some_and(|b| b.from == from.component)
            }
        }
    }

    /// Whether tasks of `from` have blocks for tasks of `to`.
    fn sends(&self, from: ComponentIndex, to: ComponentIndex) -> bool {
        self.reads(from, to) || self.trees.ack_to(from, to)
    }

    fn add_task_pairs(&mut self) {
        let local: Vec<_> = (0..self.tasks.len() as u32).map(|s| self.component(Slot(s))).collect();
        for task in 0..self.ways.len() {
            let Some(Way { component, peer: Some(peer), .. }) = self.ways[task] else { continue };
            if local.iter().any(|&from| self.sends(from, component)) {
                let place = Place::Remote(QueueIndex(self.queues.len() as u32));
                self.queues.push(Pair { peer, destination: Destination::Task(TaskId(task as u32)) });
                self.ways[task] = Some(Way { component, peer: Some(peer), place });
            }
            for (slot, &reader) in local.iter().enumerate() {
                let gets = self.sends(component, reader);
                let known = &mut self.task_windows[peer.at() * local.len() + slot];
                if gets && known.is_none() {
                    *known = Some(WindowIndex(self.windows.len() as u32));
                    self.windows.push(Pair { peer, destination: Destination::Task(self.tasks[slot]) });
                }
            }
        }
    }

    fn add_broadcasts(&mut self, topology: &Topology) {
        let found = topology.broadcasts();
        self.broadcast_windows = vec![None; found.len() * self.peers.len()];
        self.broadcast_queues = vec![None; found.len() * self.peers.len()];
        for (number, broadcast) in found.iter().enumerate() {
            let (from, to) = (broadcast.from, broadcast.to);
            let at = |component, peer| {
                self.ways.iter().flatten().any(|way| way.component == component && way.peer == peer)
            };
            let (emits, reads) = (at(from, None), at(to, None));
            let sides: Vec<_> = (0..self.peers.len() as u32)
                .map(|p| (Peer(p), at(from, Some(Peer(p))), at(to, Some(Peer(p)))))
                .collect();
            let slots = (0..self.tasks.len() as u32).map(Slot);
            let local = slots.filter(|&slot| self.component(slot) == to).collect();
            let mut queues = Vec::new();
            for (peer, peer_emits, peer_reads) in sides {
                let key = peer.at() * found.len() + number;
                let pair = Pair { peer, destination: Destination::Broadcast(number as u32) };
                if emits && peer_reads {
                    queues.push(QueueIndex(self.queues.len() as u32));
                    self.broadcast_queues[key] = queues.last().copied();
                    self.queues.push(pair);
                }
                if reads && peer_emits {
                    self.broadcast_windows[key] = Some(WindowIndex(self.windows.len() as u32));
                    self.windows.push(pair);
                }
            }
            self.broadcasts.push(BroadcastWays { from, to, local, queues });
        }
    }
}

/// By component, over all that read it: one for each task, or one for a broadcast.
fn destinations(topology: &Topology) -> Vec<u32> {
    let count_for = |id: &String| {
        let readers = topology.components.iter().flat_map(|reader| {
            let inputs = reader.inputs.iter().filter(|input| input.from == *id);
            inputs.map(|input| if input.grouping == Grouping::All { 1 } else { reader.parallelism })
        });
        readers.sum()
    };
    topology.components.iter().map(|component| count_for(&component.id)).collect()
}

/// The ways of all tasks, with the remote ones still unreached.
fn ways(
    topology: &Topology,
    packing: &PackingPlan,
    local: &[TaskId],
    peers: &[ContainerId],
) -> Result<Vec<Option<Way>>, RouteError> {
    let mut ways = vec![None; topology.task_count() as usize + 1];
    for container in &packing.containers {
        let peer = peers.binary_search(&container.id).ok().map(|i| Peer(i as u32));
        for task in container.tasks.iter().map(|t| t.task) {
            let (component, _) = topology.component_of(task).ok_or(RouteError::BadTask(task))?;
            let entry = &mut ways[task.0 as usize];
            let slot = local.binary_search(&task).ok().filter(|_| peer.is_none());
            let place = slot.map_or(Place::Unreached, |slot| Place::Local(Slot(slot as u32)));
            if entry.replace(Way { component, peer, place }).is_some() {
                return Err(RouteError::BadTask(task));
            }
        }
    }
    match ways.iter().skip(1).position(Option::is_none) {
        Some(missing) => Err(RouteError::Unpacked(TaskId(missing as u32 + 1))),
        None => Ok(ways),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::config;
    use crate::stmgr::core::tests::{component, packing, topology};

    fn check_both_ends(tracked: bool) -> Vec<Routes> {
        let components = vec![
            component("a", 3, &[]),
            component("b", 3, &[("a", false), ("a", true)]),
            component("c", 2, &[("b", true)]),
        ];
        let mut topology = topology(components);
        if tracked {
            topology.config.set(config::RELIABILITY_MODE, "ATLEAST_ONCE").unwrap();
        }
        let packing = packing(&topology, &[1, 2, 5, 1, 2, 1, 5, 1]);
        let all: Vec<_> = [1, 2, 5].map(|c| Routes::new(&topology, &packing, ContainerId(c)).unwrap()).into();
        for from in &all {
            for to in all.iter().filter(|to| to.container != from.container) {
                let (there, back) = (from.peer(to.container).unwrap(), to.peer(from.container).unwrap());
                let goes = |pairs: &[Pair], peer| {
                    let mut found: Vec<_> =
                        pairs.iter().filter(|p| p.peer == peer).map(|p| p.destination).collect();
                    found.sort_unstable();
                    found
                };
                assert_eq!(goes(&from.queues, there), goes(&to.windows, back));
                for pair in from.queues.iter().filter(|pair| pair.peer == there) {
                    assert!(from.queue(there, pair.destination).is_some());
                    assert!(to.window(back, pair.destination).is_some());
                }
            }
        }
        all
    }

    #[test]
    fn the_queues_of_one_end_are_the_windows_of_the_other() {
        let all = check_both_ends(false);
        // Container 5 has tasks 3 (`a`) and 7 (`c`): it sends to every `b`, receives from those for `c` only.
        assert_eq!((all[2].queues.len(), all[2].windows.len()), (5, 4));
    }

    #[test]
    fn spouts_are_destinations_of_the_bolts_below_them_where_trees_are_tracked() {
        let all = check_both_ends(true);
        // Task 7 acks to tasks 1 and 2; task 3 gets acks from both other containers.
        assert_eq!((all[2].queues.len(), all[2].windows.len()), (7, 6));
        let (spout, peer) = (Destination::Task(TaskId(3)), Peer(0));
        assert!(all[2].is_for_acks(spout) && !all[2].is_for_acks(Destination::Task(TaskId(7))));
        let may = |source, purpose| all[2].may_receive(peer, TaskId(source), spout, purpose);
        // Tasks 1, 4, 6 and 8 are at the peer; 1 is a spout, 5 is a bolt elsewhere.
        assert_eq!(
            [1, 4, 5, 8, 9].map(|source| may(source, Purpose::Ack)),
            [false, true, false, true, false]
        );
        assert_eq!([1, 3, 4, 5, 9].map(|source| may(source, Purpose::Lost)), [true, true, true, true, false]);
        assert!(!may(4, Purpose::Data));
    }

    #[test]
    fn a_plan_that_does_not_fit_is_refused() {
        let topology = topology(vec![component("a", 2, &[]), component("b", 1, &[("a", false)])]);
        let mut packing = packing(&topology, &[1, 1, 2]);
        let make = |packing: &PackingPlan, c| Routes::new(&topology, packing, ContainerId(c)).map(drop);
        assert_eq!(make(&packing, 1), Ok(()));
        assert_eq!(make(&packing, 3), Err(RouteError::NoSuchContainer(ContainerId(3))));
        packing.containers[1].tasks[0].task = TaskId(4);
        assert_eq!(make(&packing, 1), Err(RouteError::BadTask(TaskId(4))));
        packing.containers[1].tasks[0].task = TaskId(1);
        assert_eq!(make(&packing, 1), Err(RouteError::BadTask(TaskId(1))));
        packing.containers[1].tasks.clear();
        assert_eq!(make(&packing, 1), Err(RouteError::Unpacked(TaskId(3))));
    }
}
