//! The task thread's ends of data-in and data-out: the rings whose other ends are with the stmgr.

use super::mailbox::{Attachment, Mailbox};
use super::rate::Rate;
use super::roots::Roots;
use crate::collector::{EmitError, Outlet};
use egret_dataplane::host;
use egret_dataplane::memory::{
    CLASSES, Class, Consumer, Counters, Descriptor, DescriptorKind, Hold, OwnedBlock, Parker, Pool, Producer,
    Sleep, Waker,
};
use egret_dataplane::message::TaskCounters;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a quick task pushes before it wakes the stmgr. A wake-up takes the processor from the task where they share one,
/// and costs more than to write a block; with this many blocks at a time that is little.
const WAKE_EVERY: u32 = 8;
/// How late the stmgr is woken at most, as far as the task looks at the clock.
const WAKE_WITHIN: Duration = Duration::from_micros(100);

/// The queues of a task, shared by its loop and its emitter, which take turns on one thread.
#[derive(Clone)]
pub(crate) struct SharedQueues(pub(crate) Rc<RefCell<Queues>>);

/// Both rings, the blocks that are free to emit into, and what came in while the task waited for one.
pub(crate) struct Queues {
    pool: Arc<Pool>,
    producer: Producer,
    consumer: Consumer,
    counters: Counters,
    hold: Hold,
    parker: Parker,
    stmgr: Waker,
    /// How many pushes wake the stmgr, how many there were since it was woken, and when they were seen first.
    wake_every: u32,
    unwoken: u32,
    unwoken_since: Option<Instant>,
    /// Whether one of them cannot wait until the stmgr is awake anyway.
    is_urgent: bool,
    /// Last in, first out: the block used last is the one still in the cache.
    free: [Vec<OwnedBlock>; CLASSES],
    /// Data and ends that arrived while the task waited for a grant. Bounded by the ring and the stmgr's quotas.
    inbox: VecDeque<Descriptor>,
    mailbox: Arc<Mailbox>,
    spin_turns: u64,
    rate: Option<Rate>,
    /// The trees of a spout, where they are tracked. What comes for them is applied as soon as it is seen, also while the
    /// task waits to emit: so acks always flow, whoever waits for whom.
    roots: Option<Roots>,
}

impl Queues {
    pub(crate) fn new(
        attachment: Attachment,
        mailbox: Arc<Mailbox>,
        spin_turns: u64,
        rate: Option<Rate>,
        roots: Option<Roots>,
    ) -> Self {
        let parker = attachment.channel.instance_parker();
        let end = attachment.channel.instance_end();
        Self {
            pool: attachment.pool,
            producer: end.producer,
            consumer: end.consumer,
            counters: end.counters,
            hold: end.hold,
            parker,
            stmgr: attachment.stmgr,
            wake_every: 1,
            unwoken: 0,
            unwoken_since: None,
            is_urgent: false,
            free: Default::default(),
            inbox: VecDeque::new(),
            mailbox,
            spin_turns,
            rate,
            roots,
        }
    }

    /// Goes over to the rings of another stmgr. What was in the old ones is lost with it.
    pub(crate) fn attach(&mut self, attachment: Attachment) {
        let (mailbox, rate, roots) = (self.mailbox.clone(), self.rate.take(), self.roots.take());
        *self = Self::new(attachment, mailbox, self.spin_turns, rate, roots);
    }

    /// The next block to execute or end to take note of, if there is one now.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Descriptor> {
        self.inbox.pop_front().or_else(|| self.take_in())
    }

    /// Takes a delivered block into this process's hands; `None` when the descriptor lied.
    pub(crate) fn claim(&self, descriptor: &Descriptor) -> Option<OwnedBlock> {
        self.pool.claim(descriptor.block)
    }

    /// Gives a consumed block back.
    #[inline]
    pub(crate) fn done(&mut self, block: OwnedBlock) {
        let descriptor = Descriptor::of_block(DescriptorKind::Done, block.id());
        self.push(block, descriptor);
    }

    /// Says that this task has emitted its last tuple.
    pub(crate) fn end(&mut self, task: egret_dataplane::ids::TaskId) {
        self.send(Descriptor::end(task));
        self.wake_stmgr();
    }

    /// The task goes on. Until it waits, or looks at the clock again, the stmgr is woken for each push or, where user code
    /// is `quick`, for several at a time.
    #[inline]
    pub(crate) fn go_on(&mut self, now: Instant, quick: bool) {
        self.wake_every = if quick { WAKE_EVERY } else { 1 };
        if self.unwoken > 0 {
            let since = *self.unwoken_since.get_or_insert(now);
            if !quick || now.saturating_duration_since(since) >= WAKE_WITHIN {
                self.wake_stmgr();
            }
        }
    }

    /// Wakes the stmgr if something was pushed since: the task is about to wait.
    #[inline]
    fn wake_stmgr(&mut self) {
        if self.unwoken > 0 {
            (self.unwoken, self.unwoken_since) = (0, None);
            if std::mem::take(&mut self.is_urgent) { self.stmgr.wake() } else { self.stmgr.nudge() }
        }
    }

    /// Whether the stmgr has taken what was pushed.
    pub(crate) fn is_drained(&self) -> bool {
        self.producer.is_drained()
    }

    /// Makes the counters visible to the stmgr.
    #[inline]
    pub(crate) fn publish(&self, counters: &TaskCounters) {
        self.counters.store(counters);
    }

    /// Makes it visible to the stmgr whether tuples of trees are in hand that no delivered block names.
    #[inline]
    pub(crate) fn publish_unnamed(&self, has_unnamed: bool) {
        self.counters.store_unnamed(has_unnamed);
    }

    /// Waits until something to execute or to take note of, or a command, may have come, at most for `timeout`: some turns
    /// awake, then asleep. Grants may be left in the ring meanwhile.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) {
        if !self.inbox.is_empty() {
            // It came while user code waited for a block, after it was told that there is nothing to execute.
            return;
        }
        self.wait_for(Sleep::Deep, |mailbox| mailbox.is_pending(), timeout);
    }

    fn wait_for(&mut self, sleep: Sleep, commanded: impl Fn(&Mailbox) -> bool, timeout: Option<Duration>) {
        self.wake_stmgr();
        // A corrupt ring says nothing more; only a command (that the stmgr is gone) can end that.
        let ready = || (self.consumer.has_some() && !self.consumer.is_corrupt()) || commanded(&self.mailbox);
        for _ in 0..self.spin_turns {
            if ready() {
                return;
            }
            std::hint::spin_loop();
        }
        self.parker.park(sleep, ready, timeout);
    }

    /// Sleeps at most for `timeout` whatever blocks come; only a command ends it early.
    pub(crate) fn pause(&mut self, timeout: Duration) {
        self.wake_stmgr();
        self.parker.park(Sleep::Deep, || self.mailbox.is_pending(), Some(timeout));
    }

    /// As [`pause`](Self::pause), but what comes ends it too.
    fn pause_or_arrival(&mut self, timeout: Duration) {
        self.wake_stmgr();
        let ready = || (self.consumer.has_some() && !self.consumer.is_corrupt()) || self.mailbox.is_pending();
        self.parker.park(Sleep::Deep, ready, Some(timeout));
    }

    /// Whether this spout is to emit nothing for now.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.hold.is_set()
    }

    /// Sleeps until this spout is held no more, has to be told of a tree, a block or a command may have come, or `timeout` has passed. Grants
    /// are taken in before: nobody emits meanwhile, and they would fill the ring.
    pub(crate) fn wait_while_held(&mut self, timeout: Option<Duration>) {
        self.take_in_acks();
        if self.roots.as_ref().is_some_and(|roots| roots.ledger.borrow().has_ended()) {
            return;
        }
        self.wake_stmgr();
        let ready = || {
            let told = self.consumer.has_some() && !self.consumer.is_corrupt();
            told || self.mailbox.is_pending() || !self.hold.is_set()
        };
        self.parker.park(Sleep::Deep, ready, timeout);
    }

    /// Where this task sleeps, also when its stmgr is gone. It is about to.
    pub(crate) fn parker(&mut self) -> Parker {
        self.wake_stmgr();
        self.parker.clone()
    }

    /// Takes descriptors from the ring until one is for the task's loop.
    fn take_in(&mut self) -> Option<Descriptor> {
        while let Some(descriptor) = self.consumer.pop() {
            match descriptor.kind {
                DescriptorKind::Data | DescriptorKind::End => return Some(descriptor),
                DescriptorKind::Ack | DescriptorKind::Lost => self.apply(descriptor),
                DescriptorKind::FailAll => {
                    if let Some(roots) = &self.roots {
                        roots.ledger.borrow_mut().fail_all();
                    }
                }
                DescriptorKind::Grant => {
                    // A grant of a block that this process holds already is a lie, and is left out.
                    if let Some(class) = self.pool.class_of(descriptor.block) {
                        self.free[class as usize].extend(self.pool.claim(descriptor.block));
                    }
                }
                // Only instances say this.
                DescriptorKind::Done => {}
            }
        }
        None
    }

    /// Applies a block of acks, fails or lost tuples to the ledger, and gives it back.
    fn apply(&mut self, descriptor: Descriptor) {
        let Some(block) = self.pool.claim(descriptor.block) else { return };
        if let Some(roots) = &self.roots {
            let applied = match descriptor.kind {
                DescriptorKind::Ack => roots.apply(block.bytes()),
                _ => roots.lost(block.bytes()),
            };
            if let Err(error) = applied {
                // The trees in it time out.
                tracing::warn!("a block of acks was dropped: {error}");
            }
        }
        self.done(block);
    }

    /// Takes in what has come for a spout: grants, and what its ledger is told.
    pub(crate) fn take_in_acks(&mut self) {
        // Data and ends are nothing that a spout gets.
        while self.take_in().is_some() {}
    }

    /// An emission is about to wait, at most as long as this says: what was emitted until now may take its time from now
    /// on, and times out also while the task waits. What has come is taken in.
    fn turn(&self) -> Option<Duration> {
        let now = host::now();
        let roots = self.roots.as_ref()?;
        roots.turn(now);
        roots.expire(now);
        roots.until_look(now)
    }

    fn take_free(&mut self, min_bytes: usize) -> Result<Option<OwnedBlock>, EmitError> {
        let Some(class) = self.pool.class_for(min_bytes) else {
            return Err(EmitError::TooLarge { bytes: min_bytes, limit: self.pool.block_bytes(Class::Large) });
        };
        Ok(self.free[class as usize].pop())
    }

    /// Takes everything out of the ring, to find the grants behind data that this task cannot execute now.
    fn stash_arrivals(&mut self) {
        while let Some(descriptor) = self.take_in() {
            self.inbox.push_back(descriptor);
        }
    }

    fn push(&mut self, block: OwnedBlock, descriptor: Descriptor) {
        if let (Some(rate), DescriptorKind::Data) = (&mut self.rate, descriptor.kind) {
            rate.spend(descriptor.used, host::now());
        }
        // The claim goes before the descriptor: the other side may grant the block again at once.
        drop(block);
        self.send(descriptor);
    }

    fn send(&mut self, descriptor: Descriptor) {
        host::step();
        // The ring has a slot for every block this side can hold, so it is full only when it is corrupt; then the
        // stmgr is about to close, and what is lost is counted by its executor's successor.
        if self.producer.push(descriptor).is_ok() {
            self.unwoken += 1;
            self.is_urgent |= descriptor.kind != DescriptorKind::Done;
            if self.unwoken >= self.wake_every {
                self.wake_stmgr();
            }
        }
    }
}

impl Outlet for SharedQueues {
    fn take_block(&mut self, min_bytes: usize) -> Result<Option<OwnedBlock>, EmitError> {
        let mut queues = self.0.borrow_mut();
        if let Some(block) = queues.take_free(min_bytes)? {
            return Ok(Some(block));
        }
        queues.stash_arrivals();
        queues.take_free(min_bytes)
    }

    fn wait_for_block(&mut self, min_bytes: usize) -> Result<OwnedBlock, EmitError> {
        let mut queues = self.0.borrow_mut();
        loop {
            queues.stash_arrivals();
            if let Some(block) = queues.take_free(min_bytes)? {
                return Ok(block);
            }
            if queues.mailbox.is_urgent() {
                return Err(EmitError::Stopped);
            }
            let timeout = queues.turn();
            queues.wait_for(Sleep::Light, Mailbox::is_urgent, timeout);
        }
    }

    fn wait_for_closed(&mut self) -> Result<(), EmitError> {
        let mut queues = self.0.borrow_mut();
        loop {
            queues.stash_arrivals();
            let timeout = queues.turn();
            match &queues.roots {
                Some(roots) if roots.ledger.borrow().has_ended() => return Ok(()),
                Some(_) if !queues.mailbox.is_urgent() => {}
                _ => return Err(EmitError::Stopped),
            }
            queues.wait_for(Sleep::Deep, Mailbox::is_urgent, timeout);
        }
    }

    fn is_ahead(&self) -> bool {
        self.0.borrow().rate.as_ref().is_some_and(|rate| rate.wait(host::now()).is_some())
    }

    /// Ends early when there is a command: what it is about may be more urgent than a rate that is kept on average.
    fn wait_for_rate(&mut self) -> Result<(), EmitError> {
        let mut queues = self.0.borrow_mut();
        loop {
            queues.stash_arrivals();
            let left = queues.rate.as_ref().and_then(|rate| rate.wait(host::now()));
            if queues.mailbox.is_urgent() {
                return Err(EmitError::Stopped);
            }
            let Some(left) = left.filter(|_| !queues.mailbox.is_pending()) else { return Ok(()) };
            let timeout = queues.turn().map_or(left, |turn| turn.min(left));
            queues.pause_or_arrival(timeout);
        }
    }

    #[inline]
    fn push(&mut self, block: OwnedBlock, descriptor: Descriptor) {
        self.0.borrow_mut().push(block, descriptor);
    }
}
