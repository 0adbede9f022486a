//! An outlet that keeps what is emitted, and small topologies to emit in.

use egret::collector::{Emitter, InputTable, Outlet};
use egret::topology::BoltHandle;
use egret::{BasicBolt, BasicCollector, Blueprint, EmitError, Input, Next, Spout, SpoutCollector, TaskId};
use egret::{TopologyBuilder, Tuple};
use egret_dataplane::frame::{BatchReader, Destination};
use egret_dataplane::ids::{BlockId, ContainerId, Epoch};
use egret_dataplane::memory::{Class, Descriptor, OwnedBlock, Pool, PoolConfig};
use egret_dataplane::plan::{ContainerPlan, PackingPlan, PhysicalPlan, Resources, TaskPlan, Topology};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// A block that was pushed: for whom, and its bytes.
pub(crate) type Pushed = (Destination, Vec<u8>);

/// What an outlet of the kit has done. Blocks come home at once when they are pushed.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) pushed: Vec<Pushed>,
    /// Blocks taken and not pushed yet.
    pub(crate) out: usize,
    /// How often the emitter had to wait.
    pub(crate) waits: usize,
    /// The most blocks that may be out before the emitter has to wait.
    pub(crate) quota: usize,
    pub(crate) stopped: bool,
    /// What ends a tree when the emitter waits for that.
    pub(crate) close_one: Option<Box<dyn FnMut()>>,
}

pub(crate) struct KitOutlet {
    pool: Arc<Pool>,
    free: Vec<BlockId>,
    log: Rc<RefCell<Log>>,
}

impl KitOutlet {
    pub(crate) fn new(max_tuple_bytes: usize) -> (Box<Self>, Rc<RefCell<Log>>) {
        let pool = Arc::new(Pool::create(&PoolConfig { counts: [32, 4, 4], max_tuple_bytes }).unwrap());
        let free = (0..pool.block_count()).map(BlockId).collect();
        let log = Rc::new(RefCell::new(Log { quota: usize::MAX, ..Log::default() }));
        (Box::new(Self { pool, free, log: log.clone() }), log)
    }

    fn take(&mut self, min_bytes: usize) -> OwnedBlock {
        let class: Class = self.pool.class_for(min_bytes).expect("some class fits");
        let found =
            self.free.iter().position(|&b| self.pool.class_of(b) == Some(class)).expect("a free block");
        self.log.borrow_mut().out += 1;
        self.pool.claim(self.free.remove(found)).expect("free blocks are nobody's")
    }
}

impl Outlet for KitOutlet {
    fn take_block(&mut self, min_bytes: usize) -> Result<Option<OwnedBlock>, EmitError> {
        if self.log.borrow().stopped {
            return Err(EmitError::Stopped);
        }
        let full = self.log.borrow().out >= self.log.borrow().quota;
        Ok(if full { None } else { Some(self.take(min_bytes)) })
    }

    fn wait_for_block(&mut self, min_bytes: usize) -> Result<OwnedBlock, EmitError> {
        self.log.borrow_mut().waits += 1;
        assert_eq!(self.log.borrow().out, 0, "an emitter that waits holds no block");
        Ok(self.take(min_bytes))
    }

    fn wait_for_closed(&mut self) -> Result<(), EmitError> {
        assert_eq!(self.log.borrow().out, 0, "an emitter that waits holds no block");
        let close = self.log.borrow_mut().close_one.take();
        let mut close = close.ok_or(EmitError::Stopped)?;
        close();
        self.log.borrow_mut().close_one = Some(close);
        Ok(())
    }

    fn push(&mut self, block: OwnedBlock, descriptor: Descriptor) {
        assert_eq!(block.id(), descriptor.block);
        let mut log = self.log.borrow_mut();
        log.out -= 1;
        let bytes = block.bytes()[..descriptor.used as usize].to_vec();
        log.pushed.push((Destination::from_u32(descriptor.target), bytes));
        self.free.push(block.id());
    }
}

/// A spout that never has anything.
pub(crate) struct Nothing;

impl Spout for Nothing {
    type Id = u64;

    fn next_tuple(&mut self, _: &mut SpoutCollector<u64>) -> egret::Result<Next> {
        Ok(Next::Exhausted)
    }
}

/// A bolt that does nothing.
pub(crate) struct Ignore;

impl BasicBolt for Ignore {
    fn execute(&mut self, _: &Input<'_>, _: &mut BasicCollector<'_>) -> egret::Result<()> {
        Ok(())
    }
}

#[derive(Tuple, Debug, PartialEq, Clone)]
pub(crate) struct Word<'a> {
    pub(crate) word: &'a str,
    pub(crate) n: u64,
}

/// `source` (task 1) emits [`Word`]s, `sink` reads them on `tasks` tasks (2 and up) as `wire` says.
pub(crate) fn one_reader(
    tasks: u32,
    wire: impl for<'t> FnOnce(BoltHandle<'t>) -> BoltHandle<'t>,
) -> Blueprint {
    let mut t = TopologyBuilder::new("test");
    t.spout("source", 1, || Nothing).emits::<Word>();
    wire(t.basic_bolt("sink", tasks, || Ignore));
    t.build().expect("a valid topology")
}

/// A plan that puts task 1 and each third task into container 1 and the others into container 2.
pub(crate) fn plan(topology: &Topology) -> PhysicalPlan {
    let container = |id: u32| {
        let here = move |task: &u32| (*task % 3 == 1) == (id == 1);
        let tasks = (1..=topology.task_count()).filter(here).map(|task| {
            let (component, index) = topology.component_of(TaskId(task)).unwrap();
            let component = topology.components[component.0 as usize].id.clone();
            TaskPlan { task: TaskId(task), component, index, resources: Resources::default() }
        });
        ContainerPlan { id: ContainerId(id), tasks: tasks.collect(), required: Resources::default() }
    };
    PhysicalPlan {
        epoch: Epoch(1),
        topology: topology.clone(),
        packing: PackingPlan {
            topology: topology.name.clone(),
            containers: vec![container(1), container(2)],
        },
        stmgrs: Vec::new(),
        ended: Vec::new(),
    }
}

/// The emitter of task 1.
pub(crate) fn emitter(blueprint: &Blueprint) -> (Emitter, Rc<RefCell<Log>>) {
    emitter_of(blueprint, TaskId(1))
}

pub(crate) fn emitter_of(blueprint: &Blueprint, task: TaskId) -> (Emitter, Rc<RefCell<Log>>) {
    let (outlet, log) = KitOutlet::new(4 << 20);
    let plan = plan(blueprint.topology());
    (Emitter::new(&plan, task, blueprint.customs(), 7, outlet).unwrap(), log)
}

/// How many tuples went to each destination.
pub(crate) fn counts(log: &Log) -> BTreeMap<Destination, u64> {
    let mut counts = BTreeMap::new();
    for (target, bytes) in &log.pushed {
        let reader = BatchReader::new(bytes).unwrap();
        reader.validate().unwrap();
        *counts.entry(*target).or_default() += u64::from(reader.count());
    }
    counts
}

/// The archives that went to each destination, in order, each copied to aligned memory.
pub(crate) fn archives(log: &Log) -> Vec<(Destination, Vec<Aligned>)> {
    let archives = |bytes: &Vec<u8>| {
        BatchReader::new(bytes).unwrap().tuples().map(|t| Aligned::from(t.unwrap().archive)).collect()
    };
    log.pushed.iter().map(|(target, bytes)| (*target, archives(bytes))).collect()
}

/// A block as its reader sees it: in aligned memory.
pub(crate) fn blocks(log: &Log) -> Vec<Aligned> {
    log.pushed.iter().map(|(_, bytes)| Aligned::from(bytes.as_slice())).collect()
}

pub(crate) fn table(blueprint: &Blueprint, task: u32) -> InputTable {
    InputTable::new(blueprint.topology(), TaskId(task))
}

/// Bytes that begin at a multiple of 16.
#[derive(Clone, Debug)]
pub(crate) struct Aligned(rkyv::util::AlignedVec<16>);

impl From<&[u8]> for Aligned {
    fn from(bytes: &[u8]) -> Self {
        let mut aligned = rkyv::util::AlignedVec::new();
        aligned.extend_from_slice(bytes);
        Self(aligned)
    }
}

impl std::ops::Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl std::ops::DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// The archive of a record.
pub(crate) fn archive(record: &impl egret::Record) -> Aligned {
    let write = |before: u8| {
        let mut space = Aligned::from(vec![before; record.encoded_len()].as_slice());
        record.write(&mut space);
        space
    };
    let archive = write(0xaa);
    assert_eq!(*archive, *write(0x55), "what was in a block before must not show");
    archive
}
