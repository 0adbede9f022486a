//! What instances and peers say to a stmgr's core, in any order: refused or taken, and no block is lost or doubled.

use crate::bytes::Bytes;
use egret_dataplane::frame::{Destination, Purpose};
use egret_dataplane::ids::{BlockId, ContainerId, TaskId};
use egret_dataplane::memory::{Descriptor, DescriptorKind};
use egret_dataplane::plan::{
    Component, Config, ContainerPlan, Field, FieldKind, Grouping, Input, PackingPlan, Program, Resources,
    Role, Schema, Stream, TaskPlan, Topology, config,
};
use egret_dataplane::stmgr::core::{Core, Effect, Received};
use egret_dataplane::stmgr::route::{Peer, Routes, Slot};
use egret_dataplane::stmgr::sizes::Sizes;
use egret_dataplane::stmgr::watermarks::Watermarks;

const SIZES: Sizes = Sizes {
    task: [3, 1, 1],
    per_destination: 0,
    window: [2, 1, 1],
    ack_window: [2, 1, 1],
    block_bytes: [16 << 10, 256 << 10, 1 << 20],
    max_tuple_bytes: (1 << 20) - 4096,
};
const KINDS: [DescriptorKind; 7] = [
    DescriptorKind::Data,
    DescriptorKind::Done,
    DescriptorKind::End,
    DescriptorKind::Grant,
    DescriptorKind::Ack,
    DescriptorKind::Lost,
    DescriptorKind::FailAll,
];
/// Tasks of container 1.
const LOCALS: usize = 3;

fn component(id: &str, parallelism: u32, input: Option<(&str, bool)>) -> Component {
    let schema = Schema { fields: vec![Field { name: "n".into(), kind: FieldKind::U64 }] };
    let input = input.map(|(from, all)| Input {
        from: from.into(),
        stream: "default".into(),
        grouping: if all { Grouping::All } else { Grouping::Shuffle },
    });
    Component {
        id: id.into(),
        role: if input.is_none() { Role::Spout } else { Role::Bolt },
        parallelism,
        kind: "fuzz".into(),
        args: "null".into(),
        outputs: vec![Stream { name: "default".into(), schema }],
        inputs: input.into_iter().collect(),
        resources: Resources::default(),
        config: Config::default(),
    }
}

/// Tasks: spout `a` 1, bolt `b` 2 (reads `a`), bolt `c` 3 and 4 (read `b` by broadcast); task 4 is in container 2.
fn core() -> Core {
    let components = vec![
        component("a", 1, None),
        component("b", 1, Some(("a", false))),
        component("c", 2, Some(("b", true))),
    ];
    let mut config = Config::default();
    config.set(config::RELIABILITY_MODE, "ATLEAST_ONCE").expect("a mode");
    let topology = Topology { name: "t".into(), config, components, program: Program::Builtin };
    let container = |id, tasks: &[u32]| ContainerPlan {
        id: ContainerId(id),
        tasks: tasks
            .iter()
            .map(|&task| {
                let (component, index) = topology.component_of(TaskId(task)).expect("it is there");
                let component = topology.components[component.0 as usize].id.clone();
                TaskPlan { task: TaskId(task), component, index, resources: Resources::default() }
            })
            .collect(),
        required: Resources::default(),
    };
    let containers = vec![container(1, &[1, 2, 3]), container(2, &[4])];
    let packing = PackingPlan { topology: "t".into(), containers };
    let routes = Routes::new(&topology, &packing, ContainerId(1)).expect("it is packed");
    Core::new(routes, SIZES, Watermarks::of(&topology.config))
}

/// See the module.
pub fn run(data: &[u8]) {
    let mut world =
        World { core: core(), attached: [false; LOCALS], linked: false, filling: None, unsent: vec![] };
    let mut bytes = Bytes(data);
    while !bytes.is_empty() {
        world.turn(&mut bytes);
    }
}

struct World {
    core: Core,
    attached: [bool; LOCALS],
    linked: bool,
    filling: Option<u32>,
    unsent: Vec<BlockId>,
}

impl World {
    fn turn(&mut self, bytes: &mut Bytes<'_>) {
        let at = bytes.below(LOCALS);
        let slot = Slot(at as u32);
        match bytes.below(10) {
            0..=2 if self.attached[at] => self.says(slot, bytes),
            3 if self.attached[at] => {
                let room = bytes.below(8);
                let mut taken = 0..room;
                let _ = self.core.deliver(slot, |_| taken.next().is_some());
            }
            4 if !std::mem::replace(&mut self.attached[at], true) => self.core.attach(slot),
            5 if self.linked => self.frame(bytes),
            6 if !std::mem::replace(&mut self.linked, true) => self.core.peer_up(Peer(0)),
            7 if bytes.u8() == 0 => self.unlink(),
            8 => self.unsent.pop().into_iter().for_each(|block| self.core.sent(block)),
            _ => {}
        }
        let mut effects = Vec::new();
        self.core.take_effects(&mut effects);
        for effect in effects {
            if let Effect::SendBatch { block, .. } = effect {
                assert!(!self.unsent.contains(&block), "one block is sent twice at a time");
                self.unsent.push(block);
            }
        }
    }

    /// Whoever has no right to something is cut off.
    fn says(&mut self, slot: Slot, bytes: &mut Bytes<'_>) {
        if self.core.descriptor(slot, descriptor(bytes)).is_err() {
            self.core.detach(slot, u64::from(bytes.u8()), true);
            self.attached[slot.0 as usize] = false;
        }
    }

    fn frame(&mut self, bytes: &mut Bytes<'_>) {
        let (peer, target) = (Peer(0), Destination::from_u32(target(bytes)));
        let fine = match bytes.below(4) {
            0 if self.filling.is_none() => {
                let purpose = [Purpose::Data, Purpose::Ack, Purpose::Lost][bytes.below(3)];
                let length = 64 << bytes.below(16);
                let begun = self.core.begin_batch(peer, target, purpose, length);
                self.filling = begun.is_ok().then_some(length);
                begun.is_ok()
            }
            1 => {
                if let Some(used) = self.filling.take() {
                    let count = u32::from(bytes.u8());
                    let received = Received { source: TaskId(u32::from(bytes.u8())), target, used, count };
                    let whole = bytes.below(4) != 0;
                    let _ = self.core.batch(peer, whole.then_some(received), count);
                }
                true
            }
            2 => {
                self.core.end_from_peer(peer, TaskId(target.to_u32()), TaskId(u32::from(bytes.u8()))).is_ok()
            }
            _ => self.core.credit(peer, target, bytes.below(4), u32::from(bytes.u8())).is_ok(),
        };
        if !fine {
            self.unlink();
        }
    }

    fn unlink(&mut self) {
        if std::mem::take(&mut self.linked) {
            self.filling = None;
            self.core.peer_down(Peer(0));
            // Closing a connection lets go of what it had to send.
            for block in self.unsent.drain(..) {
                self.core.sent(block);
            }
        }
    }
}

fn target(bytes: &mut Bytes<'_>) -> u32 {
    match bytes.u8() {
        near @ 0..200 => u32::from(near) % 6,
        broadcast @ 200..240 => 0x8000_0000 | (u32::from(broadcast) % 3),
        _ => bytes.u32(),
    }
}

fn descriptor(bytes: &mut Bytes<'_>) -> Descriptor {
    let kind = KINDS[bytes.below(KINDS.len())];
    let block = BlockId(u32::from(bytes.u8()) % 32);
    let used = if bytes.u8() < 220 { 64 + u32::from(bytes.u8()) * 16 } else { bytes.u32() };
    Descriptor { kind, block, target: target(bytes), used, count: u32::from(bytes.u8()) }
}
