//! How the gateway thread tells the task thread what to do.
//!
//! The task thread looks at one flag between tuples, which costs nothing while it is not set. It sleeps on a word of
//! its channel, so the gateway wakes it through the same word that the stmgr does.

use egret_dataplane::memory::{Channel, Parker, Pool, Sleep, Waker};
use egret_dataplane::message::RunState;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a stmgr gave this instance when it took it.
pub(crate) struct Attachment {
    pub(crate) pool: Arc<Pool>,
    pub(crate) channel: Channel,
    pub(crate) stmgr: Waker,
    /// It knows that the task has ended.
    pub(crate) knows_end: bool,
}

/// What the task thread should do.
pub(crate) enum Command {
    /// There is a new stmgr.
    Attach(Box<Attachment>),
    /// The stmgr is gone.
    Detach,
    /// Run, pause, drain or stop.
    State(RunState),
}

#[derive(Default)]
struct Inner {
    commands: VecDeque<Command>,
    waker: Option<Waker>,
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Mailbox {
    pending: AtomicBool,
    urgent: AtomicBool,
    inner: Mutex<Inner>,
}

impl Mailbox {
    /// Leaves a command and wakes the task thread.
    pub(crate) fn send(&self, command: Command) {
        let mut inner = self.lock();
        let next_waker = match &command {
            Command::Attach(attachment) => Some(attachment.channel.instance_waker()),
            Command::Detach | Command::State(_) => None,
        };
        inner.commands.push_back(command);
        self.publish(&inner);
        if let Some(waker) = &inner.waker {
            waker.wake();
        }
        // The task thread sleeps on the old word until it has read the command that brings the new one.
        if next_waker.is_some() {
            inner.waker = next_waker;
        }
    }

    /// Says how the task thread is woken from now on: it is about to start with this channel.
    pub(crate) fn wake_by(&self, waker: Waker) {
        self.lock().waker = Some(waker);
    }

    /// Whether a command waits. The task thread asks this between tuples.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Acquire)
    }

    /// Takes the oldest command.
    pub(crate) fn take(&self) -> Option<Command> {
        let mut inner = self.lock();
        let command = inner.commands.pop_front();
        self.publish(&inner);
        command
    }

    /// Whether a command waits that ends whatever the task is doing: the stmgr is gone, or the topology is over.
    #[inline]
    pub(crate) fn is_urgent(&self) -> bool {
        self.urgent.load(Ordering::Acquire)
    }

    /// Sleeps until a command waits.
    pub(crate) fn wait(&self, parker: &Parker) {
        while !self.is_pending() {
            parker.park(Sleep::Deep, || self.is_pending(), None);
        }
    }

    fn publish(&self, inner: &Inner) {
        let urgent = |c: &Command| matches!(c, Command::Detach | Command::State(RunState::Stopped));
        self.urgent.store(inner.commands.iter().any(urgent), Ordering::Release);
        self.pending.store(!inner.commands.is_empty(), Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
