//! What an instance does in the simulated world.

use super::{Content, RING, Root, Roots, SIZES, World};
use crate::frame::{Destination, Purpose};
use crate::ids::{BlockId, TaskId};
use crate::memory::{Descriptor, DescriptorKind};
use crate::stmgr::core::Delivered;
use crate::stmgr::route::Slot;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

#[derive(Default)]
pub(in super::super) struct Instance {
    pub(in super::super) alive: bool,
    incarnation: u32,
    ring: VecDeque<Descriptor>,
    out: VecDeque<Descriptor>,
    pub(in super::super) free: Vec<BlockId>,
    held: VecDeque<Descriptor>,
    /// Tuples of the front of `held` that are executed.
    begun: u32,
    pub(super) executed: u64,
    ends: BTreeSet<TaskId>,
    pub(in super::super) said_end: bool,
    /// It emits nothing for now.
    pub(in super::super) held_back: bool,
    /// How often a slow one was asked to execute.
    asked: u32,
    /// A bolt's block that is executed, and the spout processes it still has to ack it to.
    executing: Option<(BlockId, BTreeSet<(TaskId, u32)>)>,
    /// A bolt's: the roots of what it executed last.
    recent: VecDeque<Roots>,
    /// A spout's: how many roots it emitted, which of them failed, and below which number all did.
    roots: u32,
    failed: BTreeSet<Root>,
    failed_below: u32,
}

impl Instance {
    pub(super) fn new(incarnation: u32) -> Self {
        Self { alive: true, incarnation, ..Self::default() }
    }

    /// The blocks of tuples that it has been handed and has not said done of.
    pub(super) fn has_data(&self) -> Vec<BlockId> {
        let waiting = self.ring.iter().chain(&self.held).filter(|d| d.kind == DescriptorKind::Data);
        waiting.map(|d| d.block).chain(self.executing.iter().map(|(block, _)| *block)).collect()
    }

    /// The roots of what a bolt executed last.
    pub(super) fn recent_roots(&self) -> impl Iterator<Item = Root> + '_ {
        self.recent.iter().flat_map(|roots| roots.iter().copied())
    }

    /// Whether nothing is left to do.
    pub(super) fn ends_clean(&self) -> bool {
        self.ring.is_empty() && self.out.is_empty() && self.held.is_empty() && self.executing.is_none()
    }

    /// Whether a root has failed, or was another process's.
    pub(super) fn has_failed(&self, root: &Root) -> bool {
        let mine = root.incarnation == self.incarnation;
        !mine || root.number < self.failed_below || self.failed.contains(root)
    }

    pub(super) fn has_failed_none(&self) -> bool {
        self.failed.is_empty() && self.failed_below == 0
    }
}

impl World {
    pub(super) fn take_in(&mut self, c: usize, i: usize) -> bool {
        let container = &mut self.containers[c];
        let Some(descriptor) = container.instances[i].ring.pop_front() else { return false };
        let (instance, task) = (&mut container.instances[i], container.tasks[i]);
        match descriptor.kind {
            DescriptorKind::Grant => instance.free.push(descriptor.block),
            DescriptorKind::End => {
                assert!(instance.ends.insert(TaskId(descriptor.target)), "one end from each");
            }
            DescriptorKind::FailAll => instance.failed_below = instance.roots,
            DescriptorKind::Data | DescriptorKind::Ack | DescriptorKind::Lost => {
                let content = &container.contents[&descriptor.block];
                assert_eq!((descriptor.used, descriptor.count), (content.used, content.count));
                assert_eq!(descriptor.target, task.0);
                assert!(!instance.ends.contains(&content.source), "no data after the end");
                instance.held.push_back(descriptor);
                let is_spout = self.upstream(task).is_empty();
                assert_eq!(is_spout, descriptor.kind != DescriptorKind::Data, "each gets what is for it");
            }
            DescriptorKind::Done => panic!("an instance is told done"),
        }
        true
    }

    pub(super) fn execute(&mut self, c: usize, i: usize) -> bool {
        if self.containers[c].instances[i].executing.is_some() {
            return self.ack(c, i);
        }
        let container = &mut self.containers[c];
        let (instance, task) = (&mut container.instances[i], container.tasks[i]);
        let Some(&first) = instance.held.front() else { return false };
        instance.asked += 1;
        if self.slow.contains(&task) && instance.asked % 10 != 0 {
            return false;
        }
        let content = &container.contents[&first.block];
        if instance.begun == 0 && first.kind != DescriptorKind::Lost {
            self.got.entry((task, content.source, content.target)).or_default().push(content.number);
        }
        if first.kind == DescriptorKind::Data {
            instance.begun += 1;
            instance.executed += 1;
            if instance.begun == first.count {
                instance.begun = 0;
                instance.held.pop_front();
                instance.recent.push_front(content.roots.clone());
                instance.recent.truncate(2);
                let processes = content.roots.iter().map(|root| (root.spout, root.incarnation));
                instance.executing = Some((first.block, processes.collect()));
            }
            return true;
        }
        if first.kind == DescriptorKind::Ack {
            assert!(content.incarnation <= instance.incarnation, "an ack for one that is yet to come");
            self.acks.applied += 1;
        } else {
            let incarnation = instance.incarnation;
            let mine = |root: &&Root| (root.spout, root.incarnation) == (task, incarnation);
            instance.failed.extend(content.roots.iter().filter(mine));
        }
        instance.held.pop_front();
        instance.out.push_back(Descriptor::of_block(DescriptorKind::Done, first.block));
        true
    }

    /// Acks to one of the spouts, or says done when all have been.
    fn ack(&mut self, c: usize, i: usize) -> bool {
        let (core, source) = (&self.containers[c].core, self.containers[c].tasks[i]);
        let instance = &self.containers[c].instances[i];
        let standard = instance.free.iter().position(|&block| core.blocks.class(block) == 0);
        let instance = &mut self.containers[c].instances[i];
        let Some((block, spouts)) = &mut instance.executing else { return false };
        let Some(&(spout, incarnation)) = spouts.first() else {
            instance.out.push_back(Descriptor::of_block(DescriptorKind::Done, *block));
            instance.executing = None;
            return true;
        };
        let Some(at) = standard else { return false };
        spouts.pop_first();
        let block = instance.free.swap_remove(at);
        let target = Destination::Task(spout);
        let count = 1 + self.dice.below(3) as u32;
        let number = self.number(source, target);
        let (used, roots) = (64 + 16 * count, Roots::default());
        self.acks.sent += 1;
        self.write(c, i, block, Content { source, target, number, used, count, roots, incarnation });
        true
    }

    fn number(&mut self, source: TaskId, target: Destination) -> u32 {
        let next = self.next_number.entry((source, target)).or_default();
        *next += 1;
        *next - 1
    }

    fn write(&mut self, c: usize, i: usize, block: BlockId, content: Content) {
        let is_ack = content.incarnation > 0;
        let purpose = if is_ack { Purpose::Ack } else { Purpose::Data };
        let Content { target, used, count, .. } = content;
        self.containers[c].contents.insert(block, content);
        let (kind, target) = (purpose.descriptor_kind(), target.to_u32());
        let descriptor = Descriptor { kind, block, target, used, count };
        self.containers[c].instances[i].out.push_back(descriptor);
    }

    fn destinations(&self, task: TaskId) -> Vec<Destination> {
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
    pub(super) fn emit(&mut self, c: usize, i: usize) -> bool {
        let task = self.containers[c].tasks[i];
        let destinations = self.destinations(task);
        let instance = &mut self.containers[c].instances[i];
        if !instance.alive || instance.said_end || instance.held_back || instance.executing.is_some() {
            return false;
        }
        let left = self.to_emit.get_mut(&task).unwrap();
        if *left == 0 || destinations.is_empty() {
            return self.end(c, i);
        }
        if instance.free.is_empty() {
            return false;
        }
        let block = instance.free.swap_remove(self.dice.below(instance.free.len()));
        *left -= 1;
        let target = destinations[self.dice.below(destinations.len())];
        let class = self.containers[c].core.blocks.class(block);
        let used = 64 + self.dice.below(SIZES.block_bytes[class] as usize - 63) as u32;
        let count = 1 + self.dice.below(3) as u32;
        let copies = match target {
            Destination::Task(_) => 1,
            Destination::Broadcast(n) => self.topology.tasks(self.topology.broadcasts()[n as usize].to).len(),
        };
        self.sent_tuples += copies as u64 * u64::from(count);
        let (number, roots) = (self.number(task, target), self.roots(c, i));
        self.write(c, i, block, Content { source: task, target, number, used, count, roots, incarnation: 0 });
        true
    }

    /// The roots of what an instance emits next.
    fn roots(&mut self, c: usize, i: usize) -> Roots {
        let spout = self.containers[c].tasks[i];
        let is_spout = self.upstream(spout).is_empty();
        let instance = &mut self.containers[c].instances[i];
        match (self.tracked, is_spout) {
            (false, _) => Roots::default(),
            (true, false) => {
                Rc::new(instance.recent.iter().flat_map(|roots| roots.iter().copied()).collect())
            }
            (true, true) => {
                let (incarnation, number) = (instance.incarnation, instance.roots);
                instance.roots += 1;
                Rc::new(BTreeSet::from([Root { spout, incarnation, number }]))
            }
        }
    }

    fn end(&mut self, c: usize, i: usize) -> bool {
        let task = self.containers[c].tasks[i];
        let upstream = self.upstream(task);
        let instance = &mut self.containers[c].instances[i];
        let may_end = !upstream.is_empty() || self.quiet || self.spouts_end_early;
        if !may_end || instance.ends != upstream || !instance.held.is_empty() {
            return false;
        }
        instance.said_end = true;
        instance.out.push_back(Descriptor::end(task));
        if upstream.is_empty() && !self.quiet {
            self.ended_early.insert(task);
        }
        true
    }

    pub(super) fn say(&mut self, c: usize, i: usize) -> bool {
        let container = &mut self.containers[c];
        let Some(descriptor) = container.instances[i].out.pop_front() else { return false };
        container.core.descriptor(Slot(i as u32), descriptor).unwrap();
        self.carry(c);
        true
    }

    pub(super) fn deliver(&mut self, c: usize, i: usize) -> bool {
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
}
