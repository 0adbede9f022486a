//! The loop of a bolt's task.

use super::guard::guard;
use super::task::Task;
use crate::collector::InputTable;
use crate::topology::BoltRunner;
use egret_dataplane::host;
use egret_dataplane::ids::TaskId;
use egret_dataplane::memory::{Descriptor, DescriptorKind, OwnedBlock};
use egret_dataplane::plan::config;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Blocks that may wait to be given back together: a block of acks has room for what two blocks of small tuples hold.
const MAX_DONE: usize = 2;

/// Runs a bolt until the topology is over. `Err` is the exit code.
pub(super) fn run(task: &mut Task, mut bolt: Box<dyn BoltRunner>) -> Result<(), u8> {
    let ran = run_prepared(task, bolt.as_mut());
    let cleaned = guard(|| {
        bolt.cleanup();
        Ok(())
    });
    if let Err(error) = cleaned {
        task.warn(&format!("cleanup: {error}"));
    }
    ran
}

fn run_prepared(task: &mut Task, bolt: &mut dyn BoltRunner) -> Result<(), u8> {
    if !task.ended {
        guard(|| bolt.prepare(&task.context)).map_err(|e| task.fatal(&format!("prepare: {e}")))?;
    }
    let mut inputs = Inputs::new(task);
    loop {
        if task.is_commanded() {
            // What is kept belongs to the stmgr that gave it.
            give_back(task, bolt, &mut inputs.done);
            task.commands(bolt.emitter())?;
        }
        if task.ended {
            task.wait_for_command();
            continue;
        }
        tick(task, bolt, &mut inputs.ticks)?;
        let next = task.queues.0.borrow_mut().next();
        match next {
            Some(descriptor) if descriptor.kind == DescriptorKind::Data => {
                inputs.busy = true;
                execute(task, bolt, &mut inputs, descriptor)?;
            }
            Some(descriptor) => {
                give_back(task, bolt, &mut inputs.done);
                inputs.open.remove(&TaskId(descriptor.target));
                if inputs.open.is_empty() {
                    finish(task, bolt);
                }
            }
            None => {
                give_back(task, bolt, &mut inputs.done);
                if inputs.busy {
                    inputs.busy = false;
                    guard(|| bolt.idle()).or_else(|error| task.on_error(bolt.emitter(), &error))?;
                }
                task.flush(bolt.emitter());
                task.queues.0.borrow_mut().wait(inputs.ticks.left(host::now()));
                task.pace.waited(host::now());
            }
        }
    }
}

/// What a bolt's task reads.
struct Inputs {
    table: InputTable,
    /// Upstream tasks that have not ended.
    open: BTreeSet<TaskId>,
    ticks: Ticks,
    /// Executed and not given back.
    done: Vec<OwnedBlock>,
    /// Something was executed since the bolt was told that it is idle.
    busy: bool,
}

impl Inputs {
    fn new(task: &Task) -> Self {
        let topology = task.context.topology();
        let component = topology.component_of(task.id).map(|(component, _)| component);
        let upstream = component.map(|c| topology.upstream(c)).unwrap_or_default();
        Self {
            table: InputTable::new(topology, task.id),
            open: upstream.into_iter().flat_map(|c| topology.tasks(c)).map(TaskId).collect(),
            ticks: Ticks::new(topology.config.number(config::TICK_MS), host::now()),
            done: Vec::with_capacity(MAX_DONE),
            busy: false,
        }
    }
}

/// Executes the tuples of a block, and gives it back or lets it wait for the next one.
fn execute(
    task: &mut Task,
    bolt: &mut dyn BoltRunner,
    inputs: &mut Inputs,
    from: Descriptor,
) -> Result<(), u8> {
    let Some(block) = task.queues.0.borrow().claim(&from) else {
        task.warn(&format!("the stmgr delivered block {}, which this task holds already", from.block));
        return Ok(());
    };
    match inputs.table.open(block.bytes()) {
        Ok(mut tuples) => {
            loop {
                let turns = task.pace.turns();
                match guard(|| bolt.execute(&mut tuples, turns)) {
                    Ok(more) => {
                        task.after_turns(bolt.emitter());
                        tick(task, bolt, &mut inputs.ticks)?;
                        if !bolt.emitter().has_open_acks() {
                            give_back(task, bolt, &mut inputs.done);
                        }
                        if !more {
                            break;
                        }
                    }
                    Err(error) => {
                        if !error.is_stopped() {
                            // Fails itself only when there is nobody left to tell.
                            let _ = bolt.fail(&tuples);
                        }
                        task.on_error(bolt.emitter(), &error)?;
                    }
                }
                if task.is_interrupted() {
                    break;
                }
            }
            bolt.emitter().keep(tuples.kept());
        }
        Err(error) => task.warn(&format!("a block was dropped: {error}")),
    }
    inputs.done.push(block);
    if inputs.done.len() >= MAX_DONE || !bolt.emitter().has_open_acks() {
        give_back(task, bolt, &mut inputs.done);
    }
    Ok(())
}

/// Calls [`tick`](crate::Bolt::tick) if that is due, also in the middle of a block.
#[inline]
fn tick(task: &mut Task, bolt: &mut dyn BoltRunner, ticks: &mut Ticks) -> Result<(), u8> {
    if ticks.every.is_some() && ticks.is_due(host::now()) {
        guard(|| bolt.tick()).or_else(|error| task.on_error(bolt.emitter(), &error))?;
        task.after_turns(bolt.emitter());
    }
    Ok(())
}

/// Gives executed blocks back. The acks first: when this process dies, what its blocks still held is what it had not
/// acked. And what is left of them in other hands than theirs is announced before.
fn give_back(task: &mut Task, bolt: &mut dyn BoltRunner, done: &mut Vec<OwnedBlock>) {
    if !done.is_empty() {
        bolt.emitter().flush_acks();
        task.publish_unnamed(bolt.emitter());
        let mut queues = task.queues.0.borrow_mut();
        done.drain(..).for_each(|block| queues.done(block));
    }
}

/// All inputs have ended.
fn finish(task: &mut Task, bolt: &mut dyn BoltRunner) {
    match guard(|| bolt.finish()) {
        Err(error) if error.is_stopped() => return,
        Err(error) => task.incomplete(&format!("finish: {error}")),
        Ok(()) => {}
    }
    task.end(bolt.emitter());
}

/// When tick tuples are due.
struct Ticks {
    every: Option<Duration>,
    next: Instant,
}

impl Ticks {
    fn new(every_ms: u64, now: Instant) -> Self {
        let every = (every_ms > 0).then(|| Duration::from_millis(every_ms));
        Self { every, next: now + every.unwrap_or_default() }
    }

    /// Whether one is due now; those that were missed meanwhile are left out.
    #[inline]
    fn is_due(&mut self, now: Instant) -> bool {
        let Some(every) = self.every else { return false };
        let due = now >= self.next;
        if due {
            self.next = now + every;
        }
        due
    }

    fn left(&self, now: Instant) -> Option<Duration> {
        self.every.map(|_| self.next.saturating_duration_since(now))
    }
}
