//! The task thread: runs user code, and owns the task's ends of the rings.

use super::guard::{guard, install_hook};
use super::mailbox::{Attachment, Command, Mailbox};
use super::pace::Pace;
use super::queues::{Queues, SharedQueues};
use super::rate::Rate;
use super::reports::{Notice, Reporter};
use super::roots::Roots;
use super::{Load, bolt, exit, spout};
use crate::Error;
use crate::collector::Emitter;
use crate::topology::{Context, Metrics, Runner};
use egret_dataplane::affinity;
use egret_dataplane::host::{self, Killed};
use egret_dataplane::ids::{ContainerId, Incarnation, TaskId};
use egret_dataplane::message::{Latency, RunState, Severity, TaskCounters};
use egret_dataplane::mutants::{self, Mutant};
use egret_dataplane::plan::topology::Role;
use egret_dataplane::plan::{PhysicalPlan, config};
use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// How late a task may be woken after a pause. Each pause costs tens of microseconds of CPU down the chain, so a spout that
/// is asked for a tuple every microsecond emits some at a time.
const TIMER_SLACK: Duration = Duration::from_micros(20);
/// How often a spout tells how long its trees take, while that changes.
const LATENCY_EVERY: Duration = Duration::from_secs(1);

/// Everything the task thread begins with.
pub(crate) struct Start {
    pub(crate) task: TaskId,
    pub(crate) incarnation: Incarnation,
    pub(crate) container_dir: PathBuf,
    pub(crate) plan: PhysicalPlan,
    /// The task has ended in an earlier process.
    pub(crate) ended: bool,
    pub(crate) attachment: Attachment,
    pub(crate) mailbox: Arc<Mailbox>,
    /// What its user code counts.
    pub(crate) metrics: Metrics,
}

/// Starts the task thread; its last notice is [`Notice::Exit`].
pub(crate) fn spawn(start: Start, load: Load, gateway: OwnedFd) -> io::Result<Receiver<Notice>> {
    install_hook();
    let component = start.plan.topology.component_of(start.task);
    let id = component.map(|(c, _)| start.plan.topology.components[c.0 as usize].id.clone());
    let (reporter, notices) = Reporter::new(gateway, id.unwrap_or_default(), start.task);
    host::spawn("task", move || {
        let last_words = reporter.clone();
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(start, load, reporter))) {
            Err(payload) if payload.is::<Killed>() => std::panic::resume_unwind(payload),
            ended => last_words.notify(Notice::Exit(ended.unwrap_or(exit::FAILED))),
        }
    })?;
    Ok(notices)
}

fn run(start: Start, load: Load, mut reporter: Reporter) -> u8 {
    host::set_timer_slack(TIMER_SLACK);
    match prepare(start, load, reporter.clone()) {
        Ok((mut task, runner)) => {
            let ran = match runner {
                Runner::Spout(runner) => spout::run(&mut task, runner),
                Runner::Bolt(runner) => bolt::run(&mut task, runner),
            };
            ran.err().unwrap_or(exit::DONE)
        }
        Err(message) => {
            reporter.report(Severity::Fatal, &message);
            exit::FAILED
        }
    }
}

fn prepare(start: Start, load: Load, reporter: Reporter) -> Result<(Task, Runner), String> {
    let topology = Arc::new(start.plan.topology.clone());
    let settings = &topology.config;
    pin(&start.plan, start.task);
    let (factory, customs) = load(&topology, start.task)?;
    let context = Context::new(topology.clone(), start.task, start.metrics)
        .ok_or_else(|| format!("the physical plan has no task {}", start.task))?
        .in_process(start.container_dir, start.incarnation);
    let tracks = settings.is(config::RELIABILITY_MODE, "ATLEAST_ONCE");
    let roots = (tracks && context.definition().role == Role::Spout)
        .then(|| Roots::new(start.task, start.incarnation, settings));
    let spin_turns = affinity::spin_turns(settings);
    let component = topology.component_of(start.task).map(|(component, _)| component);
    let limit = component.and_then(|component| topology.output_bps(component));
    let rate = limit.map(|bytes| Rate::new(bytes, host::now()));
    let queues = Queues::new(start.attachment, start.mailbox.clone(), spin_turns, rate, roots.clone());
    let queues = SharedQueues(Rc::new(RefCell::new(queues)));
    let mut seed = [0; 8];
    host::fill_random(&mut seed).map_err(|error| format!("no randomness: {error}"))?;
    let seed = u64::from_ne_bytes(seed);
    let emitter = Emitter::new(&start.plan, start.task, &customs, seed, Box::new(queues.clone()));
    let mut emitter = emitter.map_err(|e| e.to_string())?;
    if let Some(roots) = &roots {
        emitter = emitter.with_ledger(roots.ledger.clone(), start.incarnation);
    }
    let runner = guard(|| Ok(factory.make(emitter))).map_err(|error| error.to_string())?;
    let flush_interval = Duration::from_millis(settings.number(config::FLUSH_INTERVAL_MS));
    let task = Task {
        id: start.task,
        incarnation: start.incarnation,
        context,
        queues,
        mailbox: start.mailbox,
        reporter,
        state: RunState::Paused,
        ended: start.ended,
        restart_on_error: settings.is(config::ERROR_ACTION, "RESTART"),
        pace: Pace::new(flush_interval, host::now()),
        roots,
        latency_told: host::now(),
    };
    Ok((task, runner))
}

fn pin(plan: &PhysicalPlan, task: TaskId) {
    let container = plan.packing.container_of(task).unwrap_or(ContainerId(1));
    affinity::pin(&affinity::Policy::of(&plan.topology.config), container);
}

/// What both loops share. `Err` of its methods is the exit code with which the loop ends.
pub(super) struct Task {
    pub(super) id: TaskId,
    incarnation: Incarnation,
    pub(super) context: Context,
    pub(super) queues: SharedQueues,
    mailbox: Arc<Mailbox>,
    reporter: Reporter,
    pub(super) state: RunState,
    pub(super) ended: bool,
    restart_on_error: bool,
    pub(super) pace: Pace,
    /// The trees of a spout, where they are tracked.
    pub(super) roots: Option<Roots>,
    latency_told: Instant,
}

impl Task {
    /// Whether a command waits: the loop should get to [`commands`](Self::commands) soon.
    #[inline]
    pub(super) fn is_commanded(&self) -> bool {
        self.mailbox.is_pending()
    }

    /// Whether a command waits that makes going on useless.
    #[inline]
    pub(super) fn is_interrupted(&self) -> bool {
        self.mailbox.is_urgent()
    }

    /// Obeys the commands that wait. While there is no stmgr it waits for the next one.
    pub(super) fn commands(&mut self, emitter: &mut Emitter) -> Result<(), u8> {
        if !self.is_commanded() {
            return Ok(());
        }
        let mut attached = true;
        loop {
            match self.mailbox.take() {
                Some(Command::State(RunState::Stopped)) => return Err(exit::DONE),
                Some(Command::State(state)) => self.state = state,
                Some(Command::Detach) => {
                    emitter.discard();
                    // Every block with a tuple of theirs is in the pool that is gone, or leads to it.
                    if let Some(roots) = &self.roots {
                        roots.ledger.borrow_mut().fail_all();
                    }
                    attached = false;
                }
                Some(Command::Attach(attachment)) => {
                    emitter.discard();
                    // The end may have gone into the ring of one that was dead already.
                    let owes_end = self.ended && !attachment.knows_end;
                    self.queues.0.borrow_mut().attach(*attachment);
                    if owes_end {
                        self.queues.0.borrow_mut().end(self.id);
                    }
                    self.publish(emitter);
                    attached = true;
                }
                None if attached => return Ok(()),
                None => {
                    let parker = self.queues.0.borrow_mut().parker();
                    self.mailbox.wait(&parker);
                }
            }
        }
    }

    /// After some calls of user code: makes the counters visible, and flushes if it is time.
    #[inline]
    pub(super) fn after_turns(&mut self, emitter: &mut Emitter) {
        host::step();
        let now = host::now();
        if self.pace.look(now, emitter.has_open_blocks()) {
            emitter.flush();
            self.pace.flushed();
        }
        self.after_roots(now);
        self.publish(emitter);
        self.queues.0.borrow_mut().go_on(now, self.pace.is_quick());
    }

    /// Takes in what has come for the trees of a spout, and sees to what they need at this time.
    #[inline]
    pub(super) fn after_roots(&mut self, now: Instant) {
        if let Some(roots) = &self.roots {
            roots.turn(now);
            self.queues.0.borrow_mut().take_in_acks();
            roots.expire(now);
            if now.saturating_duration_since(self.latency_told) >= LATENCY_EVERY {
                self.tell_latency(now);
            }
        }
    }

    #[cold]
    fn tell_latency(&mut self, now: Instant) {
        self.latency_told = now;
        let Some(roots) = &self.roots else { return };
        if let Some(histogram) = roots.ledger.borrow_mut().latency().serialize_changed() {
            let latency = Latency { task: self.id, incarnation: self.incarnation, histogram };
            self.reporter.notify(Notice::Latency(latency));
        }
    }

    /// Whether as many trees are in flight as may be.
    pub(super) fn is_full(&self) -> bool {
        self.roots.as_ref().is_some_and(|roots| roots.ledger.borrow().room() == 0)
    }

    /// How many trees of a spout are in flight.
    pub(super) fn in_flight(&self) -> u32 {
        self.roots.as_ref().map_or(0, |roots| roots.ledger.borrow().in_flight())
    }

    /// Before waiting: nothing may stay behind.
    pub(super) fn flush(&mut self, emitter: &mut Emitter) {
        emitter.flush();
        self.pace.flushed();
        self.publish(emitter);
    }

    /// Before a pause. In a `short` one tuples may stay in an open block, within the flush interval, while the stmgr has not
    /// got to what was pushed before: they would wait there as well, and a block for each few would keep it from getting on.
    pub(super) fn flush_before_pause(&mut self, emitter: &mut Emitter, now: Instant, short: bool) {
        let waits = emitter.has_open_blocks();
        if self.pace.look(now, waits) || !short || self.queues.0.borrow().is_drained() {
            self.flush(emitter);
        } else {
            self.publish(emitter);
        }
    }

    /// The task has emitted its last tuple.
    pub(super) fn end(&mut self, emitter: &mut Emitter) {
        if mutants::is(Mutant::EndBeforeFlush) {
            self.queues.0.borrow_mut().end(self.id);
        }
        self.flush(emitter);
        self.tell_latency(host::now());
        self.queues.0.borrow_mut().end(self.id);
        self.ended = true;
        self.reporter.notify(Notice::Ended);
    }

    /// Sleeps until the next command.
    pub(super) fn wait_for_command(&mut self) {
        let parker = self.queues.0.borrow_mut().parker();
        self.mailbox.wait(&parker);
    }

    /// A spout has nothing to do, at most for `timeout`: sleeps until that has passed, a command waits or, where trees are
    /// tracked, something may have come for them. Everything is flushed.
    pub(super) fn rest(&mut self, timeout: Option<Duration>) {
        match (&self.roots, timeout) {
            (None, Some(timeout)) => self.queues.0.borrow_mut().pause(timeout),
            (None, None) => return self.wait_for_command(),
            (Some(_), _) if self.has_news_of_trees() => return,
            (Some(_), _) => {
                let timeout = self.until_trees_need_it(timeout);
                self.queues.0.borrow_mut().wait(timeout);
            }
        }
        self.rested();
    }

    /// Whether this spout is to emit nothing for now.
    #[inline]
    pub(super) fn is_held(&self) -> bool {
        self.queues.0.borrow().is_held()
    }

    /// As [`rest`](Self::rest), but only as long as this spout is held.
    pub(super) fn rest_while_held(&mut self) {
        if !self.has_news_of_trees() {
            let timeout = self.until_trees_need_it(None);
            self.queues.0.borrow_mut().wait_while_held(timeout);
            self.rested();
        }
    }

    /// Sees to what took too long; whether some tree has ended and the spout has not been told.
    fn has_news_of_trees(&self) -> bool {
        let Some(roots) = &self.roots else { return false };
        let now = host::now();
        roots.turn(now);
        self.queues.0.borrow_mut().take_in_acks();
        roots.expire(now);
        roots.ledger.borrow().has_ended()
    }

    /// How long to wait at most, so that what trees need and what is told of them is in time.
    fn until_trees_need_it(&self, timeout: Option<Duration>) -> Option<Duration> {
        let now = host::now();
        let roots = self.roots.as_ref();
        let tells = roots.is_some_and(|roots| roots.ledger.borrow_mut().latency().has_changed());
        let since_told = now.saturating_duration_since(self.latency_told);
        let tell = tells.then(|| LATENCY_EVERY.saturating_sub(since_told));
        let look = roots.and_then(|roots| roots.until_look(now));
        [timeout, look, tell].into_iter().flatten().min()
    }

    fn rested(&mut self) {
        let now = host::now();
        self.pace.waited(now);
        self.after_roots(now);
    }

    /// An error of user code for which there is a tuple to fail, or a call to make again.
    pub(super) fn on_error(&mut self, emitter: &mut Emitter, error: &Error) -> Result<(), u8> {
        if error.is_stopped() {
            return Ok(());
        }
        emitter.counters.failed += 1;
        if self.restart_on_error {
            return Err(self.fatal(&error.to_string()));
        }
        self.reporter.report(Severity::Error, &error.to_string());
        Ok(())
    }

    /// An error that ends this process; the exit code.
    pub(super) fn fatal(&mut self, message: &str) -> u8 {
        self.reporter.report(Severity::Fatal, message);
        exit::FAILED
    }

    /// Worth a line in the log and the status.
    pub(super) fn warn(&mut self, message: &str) {
        self.reporter.report(Severity::Warning, message);
    }

    /// The task ends without all of its results.
    pub(super) fn incomplete(&mut self, message: &str) {
        self.reporter.report(Severity::Incomplete, message);
    }

    /// Makes visible whether the death of this process takes along tuples that nobody else can name.
    #[inline]
    pub(super) fn publish_unnamed(&self, emitter: &Emitter) {
        self.queues.0.borrow().publish_unnamed(emitter.has_unnamed());
    }

    pub(super) fn publish(&self, emitter: &Emitter) {
        self.publish_unnamed(emitter);
        let counted = &emitter.counters;
        self.queues.0.borrow().publish(&TaskCounters {
            task: self.id,
            incarnation: self.incarnation,
            emitted: counted.emitted,
            sent: counted.sent,
            executed: counted.executed,
            acked: counted.acked,
            failed: counted.failed,
            timed_out: counted.timed_out,
            pending: u64::from(self.in_flight()),
            ..TaskCounters::default()
        });
    }
}
