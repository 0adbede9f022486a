//! What a task does for each tuple.

use super::Work;
use super::rig::{Blocks, INCARNATION, Rig, SOURCE, TUPLE_BYTES, ledger};
use crate::program::NUMBER_BYTES;
use anyhow::{Context as _, Result, bail, ensure};
use egret::collector::InputTable;
use egret::components::{Identity, NullSink, NumberAndPayload, Sequence};
use egret::ledger::SharedLedger;
use egret::topology::{BoltRunner, Metrics, Runner, SpoutRunner};
use egret::{Context, Next, TaskId, TopologyBuilder};
use egret_dataplane::frame::AckReader;
use egret_dataplane::memory::{DescriptorKind, OwnedBlock};
use egret_dataplane::plan::config;
use std::sync::Arc;
use tempfile::TempDir;

/// Calls of user code between two looks at the clock, in a task that is quick.
const TURNS: u32 = 64;

fn failed(error: egret::Error) -> anyhow::Error {
    anyhow::anyhow!("{error}")
}

/// A spout, bolts in a row behind it, and a pool for all.
struct Row {
    source: Box<dyn SpoutRunner>,
    emitted: Blocks,
    bolts: Vec<Stage>,
    ledger: Option<SharedLedger>,
    /// Where the spout keeps its position.
    _folder: TempDir,
}

struct Stage {
    bolt: Box<dyn BoltRunner>,
    /// What it emits, and what it acks.
    emitted: Blocks,
    table: InputTable,
}

/// Blocks for each task.
const SHARE: u32 = 64;

impl Row {
    /// The spout and the bolt that the suites run.
    fn of_program(mode: &str) -> Result<Self> {
        Self::new(&Rig::new(1, mode)?)
    }

    /// `sequence` → `identity` → `null-sink`.
    fn of_built_ins(mode: &str) -> Result<Self> {
        let mut builder = TopologyBuilder::new("hops");
        builder.config("topology.reliability.mode", mode);
        builder
            .spout("source", 1, || Sequence::new().bytes(TUPLE_BYTES - NUMBER_BYTES))
            .emits::<NumberAndPayload<'_>>();
        builder.bolt("pass", 1, || Identity).emits::<NumberAndPayload<'_>>().shuffle("source");
        builder.bolt("sink", 1, || NullSink).shuffle("pass");
        Self::new(&Rig::of(builder)?)
    }

    fn new(rig: &Rig) -> Result<Self> {
        let topology = Arc::new(rig.plan.topology.clone());
        let ledger = topology.config.is(config::RELIABILITY_MODE, "ATLEAST_ONCE").then(ledger);
        let pool = rig.pool(&rig.routes(1)?)?;
        let blocks = |task: u32| Blocks::new(&pool, (task - 1) * SHARE..task * SHARE);
        let folder = tempfile::tempdir()?;
        let context = |task| {
            let context = Context::new(topology.clone(), task, Metrics::default());
            let context = context.context("no such task")?;
            anyhow::Ok(context.in_process(folder.path().to_owned(), INCARNATION))
        };
        let emitted = blocks(SOURCE.0);
        let Runner::Spout(mut source) = rig.runner(SOURCE, &emitted, ledger.as_ref())? else {
            bail!("task {SOURCE} is a spout");
        };
        source.open(&context(SOURCE)?).map_err(failed)?;
        let bolt = |task: u32| {
            let (emitted, task) = (blocks(task), TaskId(task));
            let Runner::Bolt(mut bolt) = rig.runner(task, &emitted, None)? else {
                bail!("task {task} is a bolt");
            };
            bolt.prepare(&context(task)?).map_err(failed)?;
            anyhow::Ok(Stage { bolt, emitted, table: InputTable::new(&topology, task) })
        };
        let bolts = (SOURCE.0 + 1..=topology.task_count()).map(bolt).collect::<Result<_>>()?;
        Ok(Self { source, emitted, bolts, ledger, _folder: folder })
    }

    /// Has the spout emit until it has emitted so many in all, or may not go on before trees end.
    fn emit_up_to(&mut self, goal: u64) -> Result<()> {
        let mut emitted = self.emitted_so_far();
        while emitted < goal {
            let turns = (goal - emitted).min(TURNS.into());
            let next = self.source.next_tuples(turns as u32).map_err(failed)?;
            ensure!(next == Next::Emitted, "the spout says {next:?}");
            if self.emitted_so_far() == emitted {
                break;
            }
            emitted = self.emitted_so_far();
        }
        Ok(())
    }

    fn emitted_so_far(&mut self) -> u64 {
        self.source.emitter().counters.emitted
    }
}

impl Stage {
    fn execute(&mut self, block: &OwnedBlock) -> Result<()> {
        let mut tuples = self.table.open(block.bytes())?;
        while self.bolt.execute(&mut tuples, TURNS).map_err(failed)? {}
        Ok(())
    }
}

pub(super) fn emit() -> Result<Work> {
    let mut row = Row::of_program("ATMOST_ONCE")?;
    let mut goal = 0;
    Ok(Box::new(move |tuples| {
        goal += tuples;
        row.emit_up_to(goal)?;
        ensure!(row.emitted_so_far() == goal, "{} tuples of {goal} were emitted", row.emitted_so_far());
        Ok(())
    }))
}

pub(super) fn execute() -> Result<Work> {
    let mut row = Row::of_program("ATMOST_ONCE")?;
    // Enough for two blocks, of which the first is full.
    row.emit_up_to(1000)?;
    let Some((block, descriptor)) = row.emitted.take() else { bail!("no block was pushed") };
    let batch = u64::from(descriptor.count);
    Ok(Box::new(move |tuples| {
        // In whole batches, the last of which may be too much.
        (0..tuples.div_ceil(batch)).try_for_each(|_| row.bolts[0].execute(&block))
    }))
}

pub(super) fn ack() -> Result<Work> {
    all_round(Row::of_program("ATLEAST_ONCE")?)
}

pub(super) fn hops() -> Result<Work> {
    all_round(Row::of_built_ins("ATLEAST_ONCE")?)
}

pub(super) fn hops_untracked() -> Result<Work> {
    all_round(Row::of_built_ins("ATMOST_ONCE")?)
}

fn all_round(mut row: Row) -> Result<Work> {
    let mut goal = 0;
    Ok(Box::new(move |tuples| {
        goal += tuples;
        while row.ended_so_far() < goal {
            row.all_round(goal)?;
        }
        let left = row.ledger.as_ref().map_or(0, |ledger| ledger.borrow().in_flight());
        ensure!(left == 0, "{left} trees are open");
        Ok(())
    }))
}

/// Trees in flight at a time: as many as a few blocks hold.
const IN_FLIGHT: u64 = 4096;

impl Row {
    /// Tuples that need nothing more.
    fn ended_so_far(&mut self) -> u64 {
        let counters = &self.source.emitter().counters;
        if self.ledger.is_some() { counters.acked } else { counters.emitted }
    }

    /// Emits as much as may be, and sees it through to the end of its trees.
    fn all_round(&mut self, goal: u64) -> Result<()> {
        let next = self.emitted_so_far() + IN_FLIGHT;
        self.emit_up_to(next.min(goal))?;
        self.source.emitter().flush();
        let Self { emitted, bolts, ledger, .. } = self;
        pass_on(emitted, bolts, ledger.as_ref())?;
        ensure!(!self.source.deliver(), "a tree failed");
        Ok(())
    }
}

/// Has the first of these bolts execute all that was emitted, and the others what that makes of it. Acks are applied.
fn pass_on(emitted: &Blocks, bolts: &mut [Stage], ledger: Option<&SharedLedger>) -> Result<()> {
    while let Some((block, descriptor)) = emitted.take() {
        if descriptor.kind == DescriptorKind::Ack {
            let Some(ledger) = ledger else { bail!("an ack of an untracked tuple") };
            let mut ledger = ledger.borrow_mut();
            AckReader::new(block.bytes())?.records().for_each(|record| ledger.ack_all(record));
        } else if let [first, behind @ ..] = &mut *bolts {
            first.execute(&block)?;
            first.bolt.emitter().flush();
            pass_on(&first.emitted, behind, ledger)?;
        }
        emitted.give_back(block);
    }
    Ok(())
}
