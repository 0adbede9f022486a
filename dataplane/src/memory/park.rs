//! How a consumer that finds nothing sleeps, and how a producer wakes it without a system call when it does not.
//!
//! One word in shared memory says whether the consumer sleeps, and how deep. The protocol, with the race it closes:
//!
//! 1. The consumer writes 1 or 2, then looks once more for work; if there is some it writes 0 and goes on.
//! 2. The producer publishes work, then reads the word; if it is not 0 it writes 0 and wakes the consumer.
//!
//! Between the write and the read on either side stands a full fence, so at least one of the two sees the other
//! (Dekker). SYNC(parker) The fence costs about 20 ns: call [`Waker::wake`] once per batch, not per tuple.
//!
//! Work that the consumer can do as well when it is awake for something else, such as a block that has come back, is
//! announced by [`Waker::nudge`]: it leaves one who sleeps [deep](Sleep::Deep) alone. To wake a thread costs more than
//! to move a block.

use super::atomics::{AtomicU32, Ordering, fence};
use super::futex;
use super::map::Mapping;
use crate::host;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

const AWAKE: u32 = 0;

/// How deep a consumer sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Sleep {
    /// Whatever comes wakes it.
    Light = 1,
    /// Only what cannot wait wakes it.
    Deep = 2,
}

#[derive(Clone)]
struct Word {
    map: Arc<Mapping>,
    offset: usize,
}

impl Word {
    fn get(&self) -> &AtomicU32 {
        self.map.word(self.offset)
    }
}

/// The sleeping side.
#[derive(Clone)]
pub struct Parker {
    word: Word,
}

impl Parker {
    pub(crate) fn new(map: Arc<Mapping>, offset: usize) -> Self {
        Self { word: Word { map, offset } }
    }

    /// Says that this consumer is about to sleep. It must then look for work once more, and either sleep or call
    /// [`wake_up`](Self::wake_up).
    pub fn fall_asleep(&self, sleep: Sleep) {
        self.word.get().store(sleep as u32, Ordering::Relaxed);
        fence(Ordering::SeqCst); // SYNC(parker)
    }

    /// Says that this consumer is awake.
    pub fn wake_up(&self) {
        self.word.get().store(AWAKE, Ordering::Relaxed);
    }

    /// Sleeps on the word itself until a [`Waker`] wakes it, `ready` is true already, or `timeout` has
    /// passed. May return early.
    pub fn park(&self, sleep: Sleep, ready: impl FnOnce() -> bool, timeout: Option<Duration>) {
        self.fall_asleep(sleep);
        if !ready() {
            if host::is_virtual() {
                self.sleep_virtually(timeout);
            } else {
                futex::wait(self.word.get(), sleep as u32, timeout);
            }
        }
        self.wake_up();
    }

    /// As a futex does: the word alone says whether the sleep goes on.
    fn sleep_virtually(&self, timeout: Option<Duration>) {
        let until = timeout.map(|timeout| host::now() + timeout);
        let word = self.word.clone();
        host::wait(until, move || word.get().load(Ordering::Relaxed) == AWAKE);
    }
}

/// The waking side.
pub struct Waker {
    word: Word,
    eventfd: Option<OwnedFd>,
}

impl Waker {
    /// Wakes a consumer that sleeps in [`Parker::park`].
    pub(crate) fn futex(map: Arc<Mapping>, offset: usize) -> Self {
        Self { word: Word { map, offset }, eventfd: None }
    }

    /// Wakes a consumer that sleeps in its reactor, which watches this eventfd.
    pub(crate) fn eventfd(map: Arc<Mapping>, offset: usize, fd: OwnedFd) -> Self {
        Self { word: Word { map, offset }, eventfd: Some(fd) }
    }

    /// Wakes the consumer if it sleeps. To be called after the work is published.
    #[inline]
    pub fn wake(&self) {
        fence(Ordering::SeqCst); // SYNC(parker)
        if self.word.get().load(Ordering::Relaxed) != AWAKE {
            self.wake_sleeper();
        }
    }

    /// Wakes the consumer if it sleeps lightly; one that sleeps deep finds the work when something wakes it.
    #[inline]
    pub fn nudge(&self) {
        fence(Ordering::SeqCst); // SYNC(parker)
        if self.word.get().load(Ordering::Relaxed) == Sleep::Light as u32 {
            self.wake_sleeper();
        }
    }

    #[cold]
    fn wake_sleeper(&self) {
        if self.word.get().swap(AWAKE, Ordering::Relaxed) == AWAKE {
            return;
        }
        // The call fails only when the sleeper is awake anyway, and nobody waits.
        match &self.eventfd {
            Some(fd) => host::ring(fd),
            None if host::is_virtual() => {}
            None => futex::wake(self.word.get()),
        }
    }
}
