//! How a consumer that finds nothing sleeps, and how a producer wakes it without a system call when it does not.
//!
//! One word in shared memory says whether the consumer sleeps. The protocol, with the race it closes:
//!
//! 1. The consumer writes 1, then looks once more for work; if there is some it writes 0 and goes on.
//! 2. The producer publishes work, then reads the word; if it is 1 it writes 0 and wakes the consumer.
//!
//! Between the write and the read on either side stands a full fence, so at least one of the two sees the other
//! (Dekker). SYNC(parker) The fence costs about 20 ns: call [`Waker::wake`] once per batch, not per tuple.

use super::map::Mapping;
use crate::host;
use rustix::io::Errno;
use rustix::thread::futex;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

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
    pub fn fall_asleep(&self) {
        self.word.get().store(ASLEEP, Ordering::Relaxed);
        fence(Ordering::SeqCst); // SYNC(parker)
    }

    /// Says that this consumer is awake.
    pub fn wake_up(&self) {
        self.word.get().store(AWAKE, Ordering::Relaxed);
    }

    /// Sleeps on the word itself until a [`Waker`] wakes it, `ready` is true already, or `timeout` has
    /// passed. May return early.
    pub fn park(&self, ready: impl FnOnce() -> bool, timeout: Option<Duration>) {
        self.fall_asleep();
        if !ready() {
            if host::is_virtual() { self.sleep_virtually(timeout) } else { self.sleep(timeout) }
        }
        self.wake_up();
    }

    fn sleep(&self, timeout: Option<Duration>) {
        let timeout = timeout.map(|t| rustix::time::Timespec {
            tv_sec: t.as_secs().min(1 << 30) as i64,
            tv_nsec: i64::from(t.subsec_nanos()),
        });
        let slept = futex::wait(self.word.get(), futex::Flags::empty(), ASLEEP, timeout.as_ref());
        debug_assert!(
            matches!(slept, Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT)),
            "{slept:?}"
        );
    }

    /// As a futex does: the word alone says whether the sleep goes on.
    fn sleep_virtually(&self, timeout: Option<Duration>) {
        let until = timeout.map(|timeout| host::now() + timeout);
        while self.word.get().load(Ordering::Relaxed) == ASLEEP && until.is_none_or(|at| host::now() < at) {
            host::wait(until);
        }
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
        if self.word.get().load(Ordering::Relaxed) == ASLEEP {
            self.wake_sleeper();
        }
    }

    #[cold]
    fn wake_sleeper(&self) {
        if self.word.get().swap(AWAKE, Ordering::Relaxed) != ASLEEP {
            return;
        }
        // The call fails only when the sleeper is awake anyway, and nobody waits.
        match &self.eventfd {
            Some(fd) => host::ring(fd),
            None if host::is_virtual() => host::notify(),
            None => _ = futex::wake(self.word.get(), futex::Flags::empty(), 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn no_wake_up_is_lost() {
        let map = Arc::new(Mapping::create("park-test", 4096).unwrap());
        let (parker, waker) = (Parker::new(map.clone(), 0), Waker::futex(map, 0));
        let work = Arc::new(AtomicU64::new(0));
        let seen = Arc::new(AtomicU64::new(0));
        let producer = std::thread::spawn({
            let (work, seen) = (work.clone(), seen.clone());
            move || {
                for n in 1..=20_000 {
                    work.store(n, Ordering::Relaxed);
                    waker.wake();
                    while seen.load(Ordering::Relaxed) < n {
                        std::thread::yield_now();
                    }
                }
            }
        });
        // Without a timeout: one lost wake-up would hang the test.
        for n in 1..=20_000 {
            while work.load(Ordering::Relaxed) < n {
                parker.park(|| work.load(Ordering::Relaxed) >= n, None);
            }
            seen.store(n, Ordering::Relaxed);
        }
        producer.join().unwrap();
    }

    #[test]
    fn a_timeout_ends_the_sleep() {
        let map = Arc::new(Mapping::create("park-test", 4096).unwrap());
        Parker::new(map, 0).park(|| false, Some(Duration::from_millis(1)));
    }
}
