//! What a hot path stands on: a plan of one spout and one bolt, a pool, and an outlet that keeps blocks at hand.

use crate::program::Spec;
use anyhow::{Context, Result};
use egret::collector::{EmitError, Emitter, Outlet};
use egret::ledger::{Ledger, Limits, SharedLedger};
use egret::topology::Runner;
use egret::{Blueprint, TaskId, TopologyBuilder};
use egret_control::packing::{Packing, RoundRobin};
use egret_dataplane::ids::{BlockId, ContainerId, Epoch, Incarnation};
use egret_dataplane::memory::{Class, Descriptor, OwnedBlock, Pool};
use egret_dataplane::plan::PhysicalPlan;
use egret_dataplane::stmgr::route::Routes;
use egret_dataplane::stmgr::sizes::Sizes;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes of each tuple.
pub const TUPLE_BYTES: usize = 16;
/// The spout.
pub const SOURCE: TaskId = TaskId(1);
/// The bolt.
pub const SINK: TaskId = TaskId(2);
/// Which process of the spout it is.
pub const INCARNATION: Incarnation = Incarnation(1);

/// A plan, and the code of its tasks.
pub struct Rig {
    /// The code.
    pub blueprint: Blueprint,
    /// The plan.
    pub plan: PhysicalPlan,
    /// How many blocks there are.
    pub sizes: Sizes,
}

impl Rig {
    /// A spout and a bolt in this many containers, in this reliability mode.
    ///
    /// # Errors
    /// When the mode is none.
    pub fn new(containers: u32, mode: &str) -> Result<Self> {
        // Without end: who works on it decides how much it is.
        let mut builder = Spec::row("paths", u64::MAX, TUPLE_BYTES).builder();
        builder.config("topology.containers", containers).config("topology.reliability.mode", mode);
        Self::of(builder)
    }

    /// Any topology.
    ///
    /// # Errors
    /// When it is invalid.
    pub fn of(builder: TopologyBuilder) -> Result<Self> {
        let blueprint = builder.build().map_err(|problems| anyhow::anyhow!("{problems:?}"))?;
        let topology = blueprint.topology().clone();
        let sizes = Sizes::of(&topology.config);
        let packing = RoundRobin.pack(&topology)?;
        let plan = PhysicalPlan { epoch: Epoch(1), topology, packing, stmgrs: vec![], ended: vec![] };
        Ok(Self { blueprint, plan, sizes })
    }

    /// The routing tables of a container.
    ///
    /// # Errors
    /// When there is no such container.
    pub fn routes(&self, container: u32) -> Result<Routes> {
        Ok(Routes::new(&self.plan.topology, &self.plan.packing, ContainerId(container))?)
    }

    /// The pool of a container.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn pool(&self, routes: &Routes) -> Result<Arc<Pool>> {
        Ok(Arc::new(Pool::create(&self.sizes.pool(routes))?))
    }

    /// A task that emits into these blocks.
    ///
    /// # Errors
    /// When there is no such task.
    pub fn runner(&self, task: TaskId, blocks: &Blocks, ledger: Option<&SharedLedger>) -> Result<Runner> {
        let outlet = Box::new(blocks.clone());
        let mut emitter = Emitter::new(&self.plan, task, self.blueprint.customs(), 7, outlet)?;
        if let Some(ledger) = ledger {
            emitter = emitter.with_ledger(ledger.clone(), INCARNATION);
        }
        Ok(self.blueprint.factory(task).context("no such task")?.make(emitter))
    }
}

/// A ledger as a spout has it by default.
#[must_use]
pub fn ledger() -> SharedLedger {
    let limits = Limits { max_pending: 65_536, timeout_us: 30_000_000 };
    Rc::new(RefCell::new(Ledger::new(limits)))
}

/// The blocks of a task: free ones, and those that it has pushed.
#[derive(Clone)]
pub struct Blocks(Rc<RefCell<Inner>>);

struct Inner {
    free: Vec<OwnedBlock>,
    pushed: VecDeque<(OwnedBlock, Descriptor)>,
}

impl Blocks {
    /// The share of a task among these standard blocks of a pool.
    #[must_use]
    pub fn new(pool: &Arc<Pool>, share: std::ops::Range<u32>) -> Self {
        let first = pool.blocks(Class::Standard).start;
        let free = share.filter_map(|i| pool.claim(BlockId(first + i))).collect();
        Self(Rc::new(RefCell::new(Inner { free, pushed: VecDeque::with_capacity(128) })))
    }

    /// The block that was pushed first, if there is one.
    #[must_use]
    pub fn take(&self) -> Option<(OwnedBlock, Descriptor)> {
        self.0.borrow_mut().pushed.pop_front()
    }

    /// A block comes home.
    pub fn give_back(&self, block: OwnedBlock) {
        self.0.borrow_mut().free.push(block);
    }
}

impl Outlet for Blocks {
    fn take_block(&mut self, _: usize) -> Result<Option<OwnedBlock>, EmitError> {
        let mut inner = self.0.borrow_mut();
        // Who only emits gets back what it pushed first.
        let recycled = |inner: &mut Inner| inner.pushed.pop_front().map(|(block, _)| block);
        Ok(inner.free.pop().or_else(|| recycled(&mut inner)))
    }

    fn wait_for_block(&mut self, _: usize) -> Result<OwnedBlock, EmitError> {
        Err(EmitError::Stopped)
    }

    fn push(&mut self, block: OwnedBlock, descriptor: Descriptor) {
        self.0.borrow_mut().pushed.push_back((block, descriptor));
    }
}
