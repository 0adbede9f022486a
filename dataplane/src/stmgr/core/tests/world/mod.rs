//! Containers, their instances and the links between them, all simulated.
//!
//! Every task emits a number of blocks to destinations it chooses, numbered per destination, and consumes what comes.
//! A bolt ends when all upstream tasks have. What a block holds is known to the world, not to the cores.
//!
//! In a tracked world each block of a spout has a root, each block of a bolt the roots of what the bolt executed last,
//! and a bolt acks a block to every spout process in its roots before it says done. There are no timeouts: a spout ends
//! when nothing moves any more, or early.

mod instance;

use super::{packing, topology};
use crate::frame::{Destination, Purpose};
use crate::ids::{BlockId, ContainerId, TaskId};
use crate::message::Backpressure;
use crate::plan::{Topology, config};
use crate::stmgr::core::{Core, Effect, Received};
use crate::stmgr::route::{Peer, Routes, Slot};
use crate::stmgr::sizes::Sizes;
use crate::stmgr::watermarks::Watermarks;
use instance::Instance;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

pub(super) const SIZES: Sizes = Sizes {
    task: [3, 1, 1],
    per_destination: 0,
    window: [2, 1, 1],
    ack_window: [2, 1, 1],
    block_bytes: [16 << 10, 256 << 10, 1 << 20],
    max_tuple_bytes: (1 << 20) - 4096,
};
/// Below a task's quota, so that they matter.
pub(super) const WATERMARKS: Watermarks =
    Watermarks { high_bytes: 20 << 10, low_bytes: 10 << 10, drop: false };
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

/// One block of a spout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Root {
    spout: TaskId,
    incarnation: u32,
    /// How many the process had emitted before.
    number: u32,
}

type Roots = Rc<BTreeSet<Root>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    source: TaskId,
    target: Destination,
    number: u32,
    used: u32,
    pub(super) count: u32,
    roots: Roots,
    /// Of acks: for which process of the spout.
    incarnation: u32,
}

enum Frame {
    Batch { target: Destination, purpose: Purpose, content: Content },
    End { target: TaskId, ended: TaskId },
    Credit { target: Destination, class: usize, blocks: u32 },
    Holders(Backpressure),
    FailAll(Vec<TaskId>),
}

pub(super) struct Container {
    pub(super) core: Core,
    pub(super) tasks: Vec<TaskId>,
    pub(super) instances: Vec<Instance>,
    contents: BTreeMap<BlockId, Content>,
    unsent: Vec<BlockId>,
    /// By peer: frames from it, and a batch that is being received.
    wires: Vec<VecDeque<Frame>>,
    receiving: Vec<Option<(BlockId, Purpose, Content)>>,
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
    tracked: bool,
    pub(super) spouts_end_early: bool,
    /// Nothing moves any more but ends.
    quiet: bool,
    ended_early: BTreeSet<TaskId>,
    incarnations: BTreeMap<TaskId, u32>,
    /// Roots of which something was lost that their spout is to hear of.
    must_fail: BTreeSet<Root>,
    /// Blocks of acks.
    pub(super) acks: Acks,
    pub(super) now: Duration,
    /// These execute one time in ten that they could.
    pub(super) slow: BTreeSet<TaskId>,
    /// One statement of four about who holds gets lost.
    pub(super) forgetful: bool,
}

#[derive(Default)]
pub(super) struct Acks {
    pub(super) sent: u64,
    pub(super) applied: u64,
    pub(super) on_broken_links: u64,
}

impl World {
    pub(super) fn new(
        components: Vec<crate::plan::Component>,
        places: &[u32],
        blocks: u32,
        seed: u64,
        tracked: bool,
    ) -> Self {
        let mut topology = topology(components);
        if tracked {
            topology.config.set(config::RELIABILITY_MODE, "ATLEAST_ONCE").unwrap();
        }
        let packing = packing(&topology, places);
        let count = packing.containers.len();
        let make = |c: &crate::plan::ContainerPlan| {
            let routes = Routes::new(&topology, &packing, c.id).unwrap();
            let tasks = routes.tasks.clone();
            Container {
                core: Core::new(routes, SIZES, WATERMARKS),
                instances: tasks.iter().map(|_| Instance::default()).collect(),
                tasks,
                contents: BTreeMap::new(),
                unsent: Vec::new(),
                wires: (1..count).map(|_| VecDeque::new()).collect(),
                receiving: (1..count).map(|_| None).collect(),
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
            tracked,
            spouts_end_early: !tracked,
            quiet: false,
            ended_early: BTreeSet::new(),
            incarnations: BTreeMap::new(),
            must_fail: BTreeSet::new(),
            acks: Acks::default(),
            now: Duration::ZERO,
            slow: BTreeSet::new(),
            forgetful: false,
        }
    }

    /// Other watermarks, before anything has happened.
    pub(super) fn with_watermarks(mut self, watermarks: Watermarks) -> Self {
        for container in &mut self.containers {
            container.core = Core::new(container.core.routes().clone(), SIZES, watermarks);
        }
        self
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
        let incarnation = self.incarnations.entry(container.tasks[i]).or_default();
        *incarnation += 1;
        container.instances[i] = Instance::new(*incarnation);
        container.instances[i].said_end = container.core.has_ended(Slot(i as u32));
        container.instances[i].held_back = container.core.is_held(Slot(i as u32));
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
        for block in instance.has_data() {
            self.must_fail.extend(container.contents[&block].roots.iter());
        }
        // Half of them have some more of what they executed in hand, and say so.
        let has_unnamed = self.dice.below(2) == 0;
        if has_unnamed {
            self.must_fail.extend(instance.recent_roots());
        }
        container.core.detach(Slot(i as u32), instance.executed, has_unnamed);
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
            let frames = std::mem::take(&mut container.wires[peer.at()]).into_iter();
            let batches = frames.filter_map(|frame| match frame {
                Frame::Batch { purpose, content, .. } => Some((purpose, content)),
                _ => None,
            });
            let receiving =
                container.receiving[peer.at()].take().map(|(_, purpose, content)| (purpose, content));
            let lost: Vec<_> = batches.chain(receiving).collect();
            container.core.peer_down(peer);
            self.acks.on_broken_links += lost.iter().filter(|(p, _)| *p == Purpose::Ack).count() as u64;
            let data = lost.iter().filter(|(purpose, _)| *purpose == Purpose::Data);
            self.must_fail.extend(data.flat_map(|(_, content)| content.roots.iter()));
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
        self.containers[c].core.turn(self.now);
        self.containers[c].core.take_effects(&mut effects);
        let own = self.containers[c].core.routes().container();
        for effect in effects {
            let (peer, frame) = match effect {
                Effect::SendBatch { peer, target, purpose, block, used } => {
                    let content = self.containers[c].contents[&block].clone();
                    assert_eq!(content.used, used);
                    assert!(content.target == target || purpose == Purpose::Lost);
                    self.containers[c].unsent.push(block);
                    (peer, Frame::Batch { target, purpose, content })
                }
                Effect::SendEnd { peer, target, ended } => (peer, Frame::End { target, ended }),
                Effect::SendCredit { peer, target, class, blocks } => {
                    (peer, Frame::Credit { target, class, blocks })
                }
                Effect::StateHolders(_) if self.forgetful && self.dice.below(4) == 0 => continue,
                Effect::StateHolders(peer) => {
                    (peer, Frame::Holders(self.containers[c].core.statement(self.now)))
                }
                Effect::TellFailAll(peer) => {
                    (peer, Frame::FailAll(self.containers[c].core.take_untold(peer)))
                }
                Effect::Hold(slot, held) => {
                    self.containers[c].instances[slot.at()].held_back = held;
                    continue;
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

    fn receive(&mut self, c: usize) -> bool {
        let container = &mut self.containers[c];
        if container.wires.is_empty() {
            return false;
        }
        let p = self.dice.below(container.wires.len());
        let peer = Peer(p as u32);
        if let Some((block, _, content)) = container.receiving[p].take() {
            let Content { source, target, used, count, .. } = content;
            container.contents.insert(block, content);
            assert!(container.core.batch(peer, Some(Received { source, target, used, count }), count));
            return true;
        }
        // A statement comes again and again, and is no movement by itself: what it lets move is.
        let frame = loop {
            match container.wires[p].pop_front() {
                Some(Frame::Holders(statement)) => {
                    container.core.holders_of_peer(peer, &statement, self.now).unwrap();
                }
                other => break other,
            }
        };
        let Some(frame) = frame else { return false };
        match frame {
            Frame::Batch { target, purpose, content } => {
                let block = container.core.begin_batch(peer, target, purpose, content.used).unwrap();
                container.receiving[p] = Some((block, purpose, content));
            }
            Frame::End { target, ended } => container.core.end_from_peer(peer, target, ended).unwrap(),
            Frame::Credit { target, class, blocks } => {
                container.core.credit(peer, target, class, blocks).unwrap();
            }
            Frame::FailAll(spouts) => container.core.fail_all_from_peer(&spouts).unwrap(),
            Frame::Holders(_) => unreachable!("taken above"),
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
        self.now += Duration::from_millis(self.dice.below(20) as u64);
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
        self.exhaust();
        self.quiet = true;
        self.exhaust();
        for instance in self.containers.iter_mut().flat_map(|c| &mut c.instances) {
            self.executed_tuples += std::mem::take(&mut instance.executed);
        }
    }

    /// Goes on until nothing moves any more.
    pub(super) fn exhaust(&mut self) {
        let mut still = 0;
        while still < 20 {
            let mut moved = false;
            for (c, i) in self.instances() {
                for what in 0..7 {
                    moved |= self.step(c, i, what);
                }
            }
            self.now += Duration::from_millis(200);
            still = if moved { 0 } else { still + 1 };
        }
    }

    /// What must hold once everything has settled, whatever happened.
    pub(super) fn check_settled(&self) {
        for container in &self.containers {
            assert!(container.instances.iter().all(|i| i.said_end), "every task ends");
            assert_eq!(container.core.blocks.away(), 0, "every block is home");
            assert_eq!(container.core.gauges.total_bytes(), 0, "nothing waits for a task");
            assert!(!container.instances.iter().any(|i| i.held_back), "nobody is held");
            assert!(container.core.queues.iter().all(|q| q.len() == 0), "nothing waits for a peer");
            for window in &container.core.windows {
                let size = SIZES.of_pair(container.core.routes(), window.pair);
                assert_eq!(window.free_count(), size.iter().sum::<u32>(), "{:?}", window.pair);
            }
            assert!(container.instances.iter().all(|i| i.ends_clean()), "everything is taken");
        }
        let instances = self.containers.iter().flat_map(|c| c.tasks.iter().zip(&c.instances));
        let instances: BTreeMap<_, _> = instances.collect();
        for root in self.must_fail.iter().filter(|root| !self.ended_early.contains(&root.spout)) {
            assert!(instances[&root.spout].has_failed(root), "{root:?} was lost, and its spout knows");
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
        let instances = self.containers.iter().flat_map(|c| &c.instances);
        assert!(instances.into_iter().all(|i| i.has_failed_none()), "nothing fails without a cause");
    }

    pub(super) fn container_ids(&self) -> Vec<ContainerId> {
        self.containers.iter().map(|c| c.core.routes().container()).collect()
    }
}
