//! Containers, their instances and the links between them, all simulated.
//!
//! Every task emits a number of blocks to destinations it chooses, numbered per destination, and consumes what comes.
//! A bolt ends when all upstream tasks have. What a block holds is known to the world, not to the cores.

use super::{packing, topology};
use crate::frame::Destination;
use crate::ids::{BlockId, ContainerId, TaskId};
use crate::memory::{Descriptor, DescriptorKind};
use crate::plan::Topology;
use crate::stmgr::core::{Core, Delivered, Effect, Received};
use crate::stmgr::route::{Peer, Routes, Slot};
use crate::stmgr::sizes::Sizes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(super) const SIZES: Sizes = Sizes {
    task: [3, 1, 1],
    window: [2, 1, 1],
    ack_window: [2, 1, 1],
    block_bytes: [16 << 10, 256 << 10, 1 << 20],
    max_tuple_bytes: (1 << 20) - 4096,
};
/// So small that rings fill up.
const RING: usize = 4;

/// A small, seeded generator (xorshift).
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % n
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
    source: TaskId,
    target: Destination,
    number: u32,
    used: u32,
    pub(super) count: u32,
}

#[derive(Default)]
pub(super) struct Instance {
    pub(super) alive: bool,
    ring: VecDeque<Descriptor>,
    pub(super) out: VecDeque<Descriptor>,
    pub(super) free: Vec<BlockId>,
    pub(super) held: VecDeque<Descriptor>,
    /// Tuples of the front of `held` that are executed.
    begun: u32,
    executed: u64,
    ends: BTreeSet<TaskId>,
    pub(super) said_end: bool,
}

enum Frame {
    Batch(Content),
    End { target: TaskId, ended: TaskId },
    Credit { target: Destination, class: usize, blocks: u32 },
}

pub(super) struct Container {
    pub(super) core: Core,
    pub(super) tasks: Vec<TaskId>,
    pub(super) instances: Vec<Instance>,
    contents: BTreeMap<BlockId, Content>,
    unsent: Vec<BlockId>,
    /// By peer: frames from it, and a batch that is being received.
    wires: Vec<VecDeque<Frame>>,
    receiving: Vec<Option<(BlockId, Content)>>,
}

pub(super) struct World {
    pub(super) containers: Vec<Container>,
    topology: Topology,
    pub(super) dice: Dice,
    /// Blocks that each task still emits; survives its instances.
    to_emit: BTreeMap<TaskId, u32>,
    next_number: BTreeMap<(TaskId, Destination), u32>,
    /// What each task has got: per source and destination, the numbers.
    pub(super) got: BTreeMap<(TaskId, TaskId, Destination), Vec<u32>>,
    pub(super) sent_tuples: u64,
    pub(super) executed_tuples: u64,
    pub(super) links: BTreeSet<(usize, usize)>,
}

impl World {
    pub(super) fn new(
        components: Vec<crate::plan::Component>,
        places: &[u32],
        blocks: u32,
        seed: u64,
    ) -> Self {
        let topology = topology(components);
        let packing = packing(&topology, places);
        let count = packing.containers.len();
        let make = |c: &crate::plan::ContainerPlan| {
            let routes = Routes::new(&topology, &packing, c.id).unwrap();
            let tasks = routes.tasks.clone();
            Container {
                core: Core::new(routes, SIZES),
                instances: tasks.iter().map(|_| Instance::default()).collect(),
                tasks,
                contents: BTreeMap::new(),
                unsent: Vec::new(),
                wires: (1..count).map(|_| VecDeque::new()).collect(),
                receiving: vec![None; count - 1],
            }
        };
        let containers = packing.containers.iter().map(make).collect();
        let to_emit = (1..=topology.task_count()).map(|t| (TaskId(t), blocks)).collect();
        Self {
            containers,
            topology,
            dice: Dice::new(seed),
            to_emit,
            next_number: BTreeMap::new(),
            got: BTreeMap::new(),
            sent_tuples: 0,
            executed_tuples: 0,
            links: BTreeSet::new(),
        }
    }

    pub(super) fn instances(&self) -> Vec<(usize, usize)> {
        let all = self.containers.iter().enumerate();
        all.flat_map(|(c, container)| (0..container.tasks.len()).map(move |i| (c, i))).collect()
    }

    pub(super) fn start(&mut self, c: usize, i: usize) {
        let container = &mut self.containers[c];
        if container.instances[i].alive {
            return;
        }
        container.instances[i] = Instance { alive: true, ..Instance::default() };
        container.instances[i].said_end = container.core.has_ended(Slot(i as u32));
        container.core.attach(Slot(i as u32));
    }

    pub(super) fn kill(&mut self, c: usize, i: usize) {
        if !self.containers[c].instances[i].alive {
            return;
        }
        while self.say(c, i) {}
        let container = &mut self.containers[c];
        let instance = std::mem::take(&mut container.instances[i]);
        self.executed_tuples += instance.executed;
        container.core.detach(Slot(i as u32), instance.executed);
        self.carry(c);
    }

    pub(super) fn link(&mut self, a: usize, b: usize) {
        if !self.links.insert((a.min(b), a.max(b))) {
            return;
        }
        for (from, to) in [(a, b), (b, a)] {
            let peer = self.peer(from, to);
            self.containers[from].core.peer_up(peer);
            self.carry(from);
        }
    }

    pub(super) fn unlink(&mut self, a: usize, b: usize) {
        if !self.links.remove(&(a.min(b), a.max(b))) {
            return;
        }
        for (from, to) in [(a, b), (b, a)] {
            let peer = self.peer(from, to);
            let container = &mut self.containers[from];
            container.wires[peer.at()].clear();
            container.receiving[peer.at()] = None;
            container.core.peer_down(peer);
            self.carry(from);
        }
    }

    fn peer(&self, from: usize, to: usize) -> Peer {
        let id = self.containers[to].core.routes().container();
        self.containers[from].core.routes().peer(id).unwrap()
    }

    /// Carries out the effects of a core: frames go onto the wires.
    fn carry(&mut self, c: usize) {
        let mut effects = Vec::new();
        self.containers[c].core.take_effects(&mut effects);
        let own = self.containers[c].core.routes().container();
        for effect in effects {
            let (peer, frame) = match effect {
                Effect::SendBatch { peer, target, purpose: _, block, used } => {
                    let content = self.containers[c].contents[&block];
                    assert_eq!((content.target, content.used), (target, used));
                    self.containers[c].unsent.push(block);
                    (peer, Frame::Batch(content))
                }
                Effect::SendEnd { peer, target, ended } => (peer, Frame::End { target, ended }),
                Effect::SendCredit { peer, target, class, blocks } => {
                    (peer, Frame::Credit { target, class, blocks })
                }
                Effect::TaskEnded(_) => continue,
            };
            let id = self.containers[c].core.routes().peers[peer.at()];
            let to = self.containers.iter().position(|o| o.core.routes().container() == id).unwrap();
            assert!(self.links.contains(&(c.min(to), c.max(to))), "nothing is sent without a link");
            let back = self.containers[to].core.routes().peer(own).unwrap();
            self.containers[to].wires[back.at()].push_back(frame);
        }
    }

    /// One step of one instance or link. Says whether anything moved.
    pub(super) fn step(&mut self, c: usize, i: usize, what: usize) -> bool {
        let moved = match what {
            0 => self.take_in(c, i),
            1 => self.execute(c, i),
            2 => self.emit(c, i),
            3 => self.say(c, i),
            4 => self.deliver(c, i),
            5 => self.receive(c),
            _ => self.finish_send(c),
        };
        self.carry(c);
        moved
    }

    fn take_in(&mut self, c: usize, i: usize) -> bool {
        let container = &mut self.containers[c];
        let Some(descriptor) = container.instances[i].ring.pop_front() else { return false };
        let instance = &mut container.instances[i];
        match descriptor.kind {
            DescriptorKind::Grant => instance.free.push(descriptor.block),
            DescriptorKind::End => {
                assert!(instance.ends.insert(TaskId(descriptor.target)), "one end from each");
            }
            DescriptorKind::Data => {
                let content = container.contents[&descriptor.block];
                assert_eq!((descriptor.used, descriptor.count), (content.used, content.count));
                assert_eq!(descriptor.target, container.tasks[i].0);
                assert!(!instance.ends.contains(&content.source), "no data after the end");
                instance.held.push_back(descriptor);
            }
            other => panic!("an instance is told {other:?}"),
        }
        true
    }

    fn execute(&mut self, c: usize, i: usize) -> bool {
        let container = &mut self.containers[c];
        let (instance, task) = (&mut container.instances[i], container.tasks[i]);
        let Some(&first) = instance.held.front() else { return false };
        if instance.begun == 0 {
            let content = container.contents[&first.block];
            self.got.entry((task, content.source, content.target)).or_default().push(content.number);
        }
        instance.begun += 1;
        instance.executed += 1;
        if instance.begun == first.count {
            instance.begun = 0;
            instance.held.pop_front();
            instance.out.push_back(Descriptor::of_block(DescriptorKind::Done, first.block));
        }
        true
    }

    pub(super) fn destinations(&self, task: TaskId) -> Vec<Destination> {
        let (component, _) = self.topology.component_of(task).unwrap();
        let readers = self.topology.readers(component);
        let tasks = readers.iter().flat_map(|&r| self.topology.tasks(r));
        let mut all: Vec<_> = tasks.map(|t| Destination::Task(TaskId(t))).collect();
        let broadcasts = self.topology.broadcasts();
        let own = broadcasts.iter().enumerate().filter(|(_, b)| b.from == component);
        all.extend(own.map(|(n, _)| Destination::Broadcast(n as u32)));
        all
    }

    fn upstream(&self, task: TaskId) -> BTreeSet<TaskId> {
        let (component, _) = self.topology.component_of(task).unwrap();
        let from = self.topology.upstream(component);
        from.iter().flat_map(|&c| self.topology.tasks(c)).map(TaskId).collect()
    }

    /// Emits a block, or says that it has ended.
    fn emit(&mut self, c: usize, i: usize) -> bool {
        let task = self.containers[c].tasks[i];
        let destinations = self.destinations(task);
        let upstream = self.upstream(task);
        let instance = &mut self.containers[c].instances[i];
        if !instance.alive || instance.said_end {
            return false;
        }
        let left = self.to_emit.get_mut(&task).unwrap();
        if *left == 0 || destinations.is_empty() {
            let done = instance.ends == upstream && instance.held.is_empty();
            if done {
                instance.said_end = true;
                instance.out.push_back(Descriptor::end(task));
            }
            return done;
        }
        if instance.free.is_empty() {
            return false;
        }
        let block = instance.free.swap_remove(self.dice.below(instance.free.len()));
        *left -= 1;
        let target = destinations[self.dice.below(destinations.len())];
        let class = self.containers[c].core.blocks.class(block);
        let used = 64 + self.dice.below(SIZES.block_bytes[class] as usize - 63) as u32;
        let next = self.next_number.entry((task, target)).or_default();
        let content =
            Content { source: task, target, number: *next, used, count: 1 + self.dice.below(3) as u32 };
        *next += 1;
        let copies = match target {
            Destination::Task(_) => 1,
            Destination::Broadcast(n) => self.topology.tasks(self.topology.broadcasts()[n as usize].to).len(),
        };
        self.sent_tuples += copies as u64 * u64::from(content.count);
        self.containers[c].contents.insert(block, content);
        let kind = DescriptorKind::Data;
        let descriptor = Descriptor { kind, block, target: target.to_u32(), used, count: content.count };
        self.containers[c].instances[i].out.push_back(descriptor);
        true
    }

    fn say(&mut self, c: usize, i: usize) -> bool {
        let container = &mut self.containers[c];
        let Some(descriptor) = container.instances[i].out.pop_front() else { return false };
        container.core.descriptor(Slot(i as u32), descriptor).unwrap();
        self.carry(c);
        true
    }

    fn deliver(&mut self, c: usize, i: usize) -> bool {
        let container = &mut self.containers[c];
        if !container.instances[i].alive {
            return false;
        }
        let ring = &mut container.instances[i].ring;
        let before = ring.len();
        let outcome = container.core.deliver(Slot(i as u32), |descriptor| {
            let room = ring.len() < RING;
            if room {
                ring.push_back(descriptor);
            }
            room
        });
        let moved = ring.len() > before;
        assert!(outcome == Delivered::All || ring.len() == RING);
        moved
    }

    fn receive(&mut self, c: usize) -> bool {
        let container = &mut self.containers[c];
        if container.wires.is_empty() {
            return false;
        }
        let p = self.dice.below(container.wires.len());
        let peer = Peer(p as u32);
        if let Some((block, content)) = container.receiving[p].take() {
            container.contents.insert(block, content);
            let Content { source, target, used, count, .. } = content;
            assert!(container.core.batch(peer, Some(Received { source, target, used, count }), count));
            return true;
        }
        let Some(frame) = container.wires[p].pop_front() else { return false };
        match frame {
            Frame::Batch(content) => {
                let block = container
                    .core
                    .begin_batch(peer, content.target, crate::frame::Purpose::Data, content.used)
                    .unwrap();
                container.receiving[p] = Some((block, content));
            }
            Frame::End { target, ended } => container.core.end_from_peer(peer, target, ended).unwrap(),
            Frame::Credit { target, class, blocks } => {
                container.core.credit(peer, target, class, blocks).unwrap();
            }
        }
        true
    }

    fn finish_send(&mut self, c: usize) -> bool {
        let container = &mut self.containers[c];
        if container.unsent.is_empty() {
            return false;
        }
        let at = self.dice.below(container.unsent.len());
        let block = container.unsent.swap_remove(at);
        container.core.sent(block);
        true
    }

    /// A random step of a random instance.
    pub(super) fn random_step(&mut self) {
        let all = self.instances();
        let (c, i) = all[self.dice.below(all.len())];
        let what = self.dice.below(7);
        self.step(c, i, what);
    }

    /// Starts and links all, and goes on until nothing moves any more.
    pub(super) fn settle(&mut self) {
        for (c, i) in self.instances() {
            self.start(c, i);
        }
        for a in 0..self.containers.len() {
            for b in 0..a {
                self.link(a, b);
            }
        }
        let mut still = 0;
        while still < 20 {
            let mut moved = false;
            for (c, i) in self.instances() {
                for what in 0..7 {
                    moved |= self.step(c, i, what);
                }
            }
            still = if moved { 0 } else { still + 1 };
        }
        for instance in self.containers.iter_mut().flat_map(|c| &mut c.instances) {
            self.executed_tuples += std::mem::take(&mut instance.executed);
        }
    }

    /// What must hold once everything has settled, whatever happened.
    pub(super) fn check_settled(&self) {
        for container in &self.containers {
            assert!(container.instances.iter().all(|i| i.said_end), "every task ends");
            assert_eq!(container.core.blocks.away(), 0, "every block is home");
            assert!(container.core.queues.iter().all(|q| q.len() == 0), "nothing waits for a peer");
            assert!(
                container.core.windows.iter().all(|w| w.free_count() == SIZES.window.iter().sum::<u32>())
            );
        }
        for (key, numbers) in &self.got {
            assert!(numbers.is_sorted_by(|a, b| a < b), "in order, none twice: {key:?} {numbers:?}");
        }
    }

    /// What must hold besides when nothing failed.
    pub(super) fn check_complete(&self) {
        for (&(source, target), &sent) in &self.next_number {
            let readers = match target {
                Destination::Task(task) => vec![task],
                Destination::Broadcast(n) => {
                    let to = self.topology.broadcasts()[n as usize].to;
                    self.topology.tasks(to).map(TaskId).collect()
                }
            };
            for reader in readers {
                let got = self.got.get(&(reader, source, target)).map_or(&[][..], Vec::as_slice);
                assert_eq!(got.len(), sent as usize, "all of {source} for {target:?} at {reader}");
            }
        }
        assert_eq!(self.executed_tuples, self.sent_tuples);
    }

    pub(super) fn container_ids(&self) -> Vec<ContainerId> {
        self.containers.iter().map(|c| c.core.routes().container()).collect()
    }
}
