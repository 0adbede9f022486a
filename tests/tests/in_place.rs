//! Payload bytes are written once and read where they were written: emitter, stmgr and bolt of one container, each
//! with its own mapping of the pool, without the processes around them. `routing` shows the same of real processes.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use egret::collector::{EmitError, Emitter, InputTable, Outlet};
use egret::topology::Runner;
use egret::{
    BasicBolt, BasicCollector, Blueprint, Input, Next, Spout, SpoutCollector, TaskId, TopologyBuilder, Tuple,
};
use egret_dataplane::frame::BatchReader;
use egret_dataplane::ids::{BlockId, ContainerId, Epoch};
use egret_dataplane::memory::{BlockBytes, Descriptor, DescriptorKind, OwnedBlock, Pool};
use egret_dataplane::plan::{ContainerPlan, PackingPlan, PhysicalPlan, Resources, StmgrAddress, TaskPlan};
use egret_dataplane::stmgr::core::Core;
use egret_dataplane::stmgr::route::{Routes, Slot};
use egret_dataplane::stmgr::sizes::Sizes;
use egret_dataplane::stmgr::watermarks::Watermarks;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

const SPOUT: TaskId = TaskId(1);
const BOLT: TaskId = TaskId(2);
const SIZES: [usize; 4] = [100, 9_000, 200_000, 3_000_000];

#[derive(Tuple)]
struct Blob<'a> {
    bytes: &'a [u8],
}

/// Emits payloads of all sizes, each filled with a byte of its own.
struct Blobs(std::vec::IntoIter<usize>);

impl Spout for Blobs {
    type Id = ();

    fn next_tuple(&mut self, out: &mut SpoutCollector<()>) -> egret::Result<Next> {
        let Some(len) = self.0.next() else { return Ok(Next::Exhausted) };
        out.emit(&Blob { bytes: &vec![fill(len); len] }).untracked()?;
        Ok(Next::Emitted)
    }
}

fn fill(len: usize) -> u8 {
    (len % 251) as u8 + 1
}

/// Keeps the address of each payload, and how long it is.
struct Addresses(Arc<Mutex<Vec<(usize, usize)>>>);

impl BasicBolt for Addresses {
    fn execute(&mut self, input: &Input<'_>, _: &mut BasicCollector<'_>) -> egret::Result<()> {
        let bytes = input.get::<Blob<'_>>()?.bytes;
        assert!(bytes.iter().all(|byte| *byte == fill(bytes.len())));
        self.0.lock().unwrap().push((bytes.as_ptr().addr(), bytes.len()));
        Ok(())
    }
}

/// Gives out the blocks it was granted and keeps what is pushed.
#[derive(Clone, Default)]
struct Blocks {
    free: Rc<RefCell<Vec<OwnedBlock>>>,
    pushed: Rc<RefCell<Vec<(OwnedBlock, Descriptor)>>>,
}

impl Outlet for Blocks {
    fn take_block(&mut self, min_bytes: usize) -> Result<Option<OwnedBlock>, EmitError> {
        let mut free = self.free.borrow_mut();
        let fitting = (0..free.len()).filter(|i| free[*i].bytes().len() >= min_bytes);
        let smallest = fitting.min_by_key(|i| free[*i].bytes().len());
        Ok(smallest.map(|i| free.swap_remove(i)))
    }

    fn wait_for_block(&mut self, min_bytes: usize) -> Result<OwnedBlock, EmitError> {
        Ok(self.take_block(min_bytes)?.expect("the quota is enough for this test"))
    }

    fn push(&mut self, block: OwnedBlock, descriptor: Descriptor) {
        self.pushed.borrow_mut().push((block, descriptor));
    }
}

fn plan(blueprint: &Blueprint) -> PhysicalPlan {
    let task = |task: TaskId, component: &str| TaskPlan {
        task,
        component: component.to_owned(),
        index: 0,
        resources: Resources::default(),
    };
    let tasks = vec![task(SPOUT, "blobs"), task(BOLT, "addresses")];
    let container = ContainerPlan { id: ContainerId(1), tasks, required: Resources::default() };
    let address = StmgrAddress { container: ContainerId(1), address: "127.0.0.1:1".to_owned() };
    PhysicalPlan {
        epoch: Epoch(1),
        topology: blueprint.topology().clone(),
        packing: PackingPlan { topology: "in-place".to_owned(), containers: vec![container] },
        stmgrs: vec![address],
        ended: Vec::new(),
    }
}

/// Where block 0 begins in a mapping: what other addresses are compared by.
fn base(pool: &Arc<Pool>) -> usize {
    BlockBytes::new(pool, BlockId(0), 0).unwrap().as_ptr().addr()
}

fn attached(pool: &Pool) -> Arc<Pool> {
    Arc::new(Pool::attach(pool.duplicate_fd().unwrap()).unwrap())
}

fn delivered(core: &mut Core, slot: Slot) -> Vec<Descriptor> {
    let mut descriptors = Vec::new();
    let _ = core.deliver(slot, |descriptor| {
        descriptors.push(descriptor);
        true
    });
    descriptors
}

/// Where the payloads of a batch lie in a mapping that begins at `base`: an archive of bytes begins with them.
fn payloads(batch: &[u8], base: usize) -> Vec<(usize, usize)> {
    let tuples = BatchReader::new(batch).unwrap().tuples().map(|tuple| tuple.unwrap().archive);
    let payload = |tuple: &[u8]| (tuple.as_ptr().addr() - base, <Blob<'_>>::read(tuple).unwrap().bytes.len());
    tuples.map(payload).collect()
}

#[test]
fn a_bolt_reads_a_payload_where_its_spout_wrote_it() {
    let read = Arc::new(Mutex::new(Vec::new()));
    let of_bolt = read.clone();
    let mut builder = TopologyBuilder::new("in-place");
    builder.spout("blobs", 1, || Blobs(SIZES.to_vec().into_iter())).emits::<Blob<'_>>();
    builder.basic_bolt("addresses", 1, move || Addresses(of_bolt.clone())).shuffle("blobs");
    let blueprint = builder.build().unwrap();
    let plan = plan(&blueprint);
    let routes = Routes::new(&plan.topology, &plan.packing, ContainerId(1)).unwrap();
    let sizes = Sizes::of(&plan.topology.config);
    let of_stmgr = Pool::create(&sizes.pool(&routes)).unwrap();
    let (of_spout, of_bolt) = (attached(&of_stmgr), attached(&of_stmgr));
    assert_ne!(base(&of_spout), base(&of_bolt), "two mappings, as two processes have");
    let (spout_slot, bolt_slot) = (routes.slot(SPOUT).unwrap(), routes.slot(BOLT).unwrap());
    let mut core = Core::new(routes, sizes, Watermarks::of(&plan.topology.config));
    core.attach(spout_slot);
    core.attach(bolt_slot);

    let outlet = Blocks::default();
    let granted = delivered(&mut core, spout_slot);
    outlet.free.borrow_mut().extend(granted.iter().map(|grant| of_spout.claim(grant.block).unwrap()));
    let emitter = Emitter::new(&plan, SPOUT, &[], 0, Box::new(outlet.clone())).unwrap();
    let Runner::Spout(mut spout) = blueprint.factory(SPOUT).unwrap().make(emitter) else { panic!("a spout") };
    assert!(matches!(spout.next_tuples(10).unwrap(), Next::Exhausted));
    spout.emitter().flush();

    let mut written = Vec::new();
    for (block, descriptor) in outlet.pushed.take() {
        written.extend(payloads(block.bytes(), base(&of_spout)));
        core.descriptor(spout_slot, descriptor).unwrap();
    }

    let emitter = Emitter::new(&plan, BOLT, &[], 0, Box::new(Blocks::default())).unwrap();
    let Runner::Bolt(mut bolt) = blueprint.factory(BOLT).unwrap().make(emitter) else { panic!("a bolt") };
    let table = InputTable::new(&plan.topology, BOLT);
    for descriptor in delivered(&mut core, bolt_slot) {
        if descriptor.kind == DescriptorKind::Data {
            let block = of_bolt.claim(descriptor.block).unwrap();
            assert!(!bolt.execute(&mut table.open(block.bytes()).unwrap(), 10).unwrap(), "all of it");
        }
    }

    let read = read.lock().unwrap().iter().map(|(at, len)| (at - base(&of_bolt), *len)).collect::<Vec<_>>();
    assert_eq!(read, written);
    assert_eq!(read.iter().map(|(_, len)| *len).collect::<Vec<_>>(), SIZES);
    assert_eq!(core.counters.copied_bytes, 0);
}
