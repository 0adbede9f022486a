//! What a task does for each tuple.

use super::Work;
use super::rig::{Blocks, Rig, SINK, SOURCE, ledger};
use anyhow::{Result, bail, ensure};
use egret::collector::InputTable;
use egret::ledger::SharedLedger;
use egret::topology::{BoltRunner, Metrics, Runner, SpoutRunner};
use egret::{Context, Next};
use egret_dataplane::frame::AckReader;
use egret_dataplane::memory::OwnedBlock;
use std::sync::Arc;

/// Calls of user code between two looks at the clock, in a task that is quick.
const TURNS: u32 = 64;

fn failed(error: egret::Error) -> anyhow::Error {
    anyhow::anyhow!("{error}")
}

/// A spout and a bolt, and a pool for both.
struct Pair {
    source: Box<dyn SpoutRunner>,
    emitted: Blocks,
    sink: Box<dyn BoltRunner>,
    acks: Blocks,
    table: InputTable,
}

impl Pair {
    fn new(mode: &str, ledger: Option<&SharedLedger>) -> Result<Self> {
        let rig = Rig::new(1, mode)?;
        let pool = rig.pool(&rig.routes(1)?)?;
        let (emitted, acks) = (Blocks::new(&pool, 0..64), Blocks::new(&pool, 64..128));
        let topology = Arc::new(rig.plan.topology.clone());
        let context = |task| Context::new(topology.clone(), task, Metrics::default());
        let (Some(for_source), Some(for_sink)) = (context(SOURCE), context(SINK)) else { bail!("no tasks") };
        let (Runner::Spout(mut source), Runner::Bolt(mut sink)) =
            (rig.runner(SOURCE, &emitted, ledger)?, rig.runner(SINK, &acks, None)?)
        else {
            bail!("task 1 is a spout, task 2 a bolt");
        };
        source.open(&for_source).map_err(failed)?;
        sink.prepare(&for_sink).map_err(failed)?;
        Ok(Self { source, emitted, sink, acks, table: InputTable::new(&rig.plan.topology, SINK) })
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

    fn execute(&mut self, block: &OwnedBlock) -> Result<()> {
        let mut tuples = self.table.open(block.bytes())?;
        while self.sink.execute(&mut tuples, TURNS).map_err(failed)? {}
        Ok(())
    }
}

pub(super) fn emit() -> Result<Work> {
    let mut pair = Pair::new("ATMOST_ONCE", None)?;
    let mut goal = 0;
    Ok(Box::new(move |tuples| {
        goal += tuples;
        pair.emit_up_to(goal)?;
        ensure!(pair.emitted_so_far() == goal, "{} tuples of {goal} were emitted", pair.emitted_so_far());
        Ok(())
    }))
}

pub(super) fn execute() -> Result<Work> {
    let mut pair = Pair::new("ATMOST_ONCE", None)?;
    // Enough for two blocks, of which the first is full.
    pair.emit_up_to(1000)?;
    let Some((block, descriptor)) = pair.emitted.take() else { bail!("no block was pushed") };
    let batch = u64::from(descriptor.count);
    Ok(Box::new(move |tuples| {
        // In whole batches, the last of which may be too much.
        (0..tuples.div_ceil(batch)).try_for_each(|_| pair.execute(&block))
    }))
}

pub(super) fn ack() -> Result<Work> {
    let ledger = ledger();
    let mut pair = Pair::new("ATLEAST_ONCE", Some(&ledger))?;
    let mut goal = 0;
    Ok(Box::new(move |tuples| {
        goal += tuples;
        while pair.source.emitter().counters.acked < goal {
            pair.all_round(goal, &ledger)?;
        }
        let left = ledger.borrow().in_flight();
        ensure!(left == 0, "{left} trees are open");
        Ok(())
    }))
}

/// Trees in flight at a time: as many as a few blocks hold.
const IN_FLIGHT: u64 = 4096;

impl Pair {
    /// Emits as much as may be, and sees it through to the end of its trees.
    fn all_round(&mut self, goal: u64, ledger: &SharedLedger) -> Result<()> {
        let next = self.emitted_so_far() + IN_FLIGHT;
        self.emit_up_to(next.min(goal))?;
        self.source.emitter().flush();
        while let Some((block, _)) = self.emitted.take() {
            self.execute(&block)?;
            self.sink.emitter().flush_acks();
            self.emitted.give_back(block);
            while let Some((block, _)) = self.acks.take() {
                let mut ledger = ledger.borrow_mut();
                AckReader::new(block.bytes())?.records().for_each(|record| ledger.ack_all(record));
                drop(ledger);
                self.acks.give_back(block);
            }
        }
        ensure!(!self.source.deliver(), "a tree failed");
        Ok(())
    }
}
