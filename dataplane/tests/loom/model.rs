//! What stands in for shared memory: loom's atomics, in which a thread can be made to die between any two operations.

/// As `memory::atomics`. Every operation takes a step of a mortal thread's life.
pub(crate) mod atomics {
    use std::cell::Cell;

    pub(crate) use loom::sync::atomic::Ordering;

    loom::thread_local! {
        static STEPS_LEFT: Cell<Option<u32>> = Cell::new(None);
    }

    /// What unwinds a thread whose life is over.
    pub(crate) struct Died;

    /// Does something that ends, with all that it would still do, after so many operations. Says whether it came to its
    /// end.
    pub(crate) fn live_for(steps: u32, act: impl FnOnce()) -> bool {
        STEPS_LEFT.with(|left| left.set(Some(steps)));
        let end = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
        STEPS_LEFT.with(|left| left.set(None));
        match end {
            Ok(()) => true,
            Err(died) if died.is::<Died>() => false,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    fn step() {
        STEPS_LEFT.with(|left| match left.get() {
            Some(0) => std::panic::resume_unwind(Box::new(Died)),
            Some(steps) => left.set(Some(steps - 1)),
            None => {}
        });
    }

    pub(crate) fn fence(order: Ordering) {
        step();
        loom::sync::atomic::fence(order);
    }

    /// The word that a consumer sleeps on.
    pub(crate) struct AtomicU32(loom::sync::atomic::AtomicU32);

    impl AtomicU32 {
        pub(crate) fn new(value: u32) -> Self {
            Self(loom::sync::atomic::AtomicU32::new(value))
        }

        pub(crate) fn load(&self, order: Ordering) -> u32 {
            step();
            self.0.load(order)
        }

        pub(crate) fn store(&self, value: u32, order: Ordering) {
            step();
            self.0.store(value, order);
        }

        pub(crate) fn swap(&self, value: u32, order: Ordering) -> u32 {
            step();
            self.0.swap(value, order)
        }
    }

    /// A cursor or half a slot. Slots are read and written relaxed because the cursors put that in order: loom checks it as
    /// if they were plain memory.
    pub(crate) struct AtomicU64 {
        word: loom::sync::atomic::AtomicU64,
        plain: loom::cell::UnsafeCell<()>,
    }

    impl AtomicU64 {
        pub(crate) fn new(value: u64) -> Self {
            let word = loom::sync::atomic::AtomicU64::new(value);
            Self { word, plain: loom::cell::UnsafeCell::new(()) }
        }

        pub(crate) fn load(&self, order: Ordering) -> u64 {
            step();
            if order == Ordering::Relaxed {
                self.plain.with(|_| ());
            }
            self.word.load(order)
        }

        pub(crate) fn store(&self, value: u64, order: Ordering) {
            step();
            if order == Ordering::Relaxed {
                self.plain.with_mut(|_| ());
            }
            self.word.store(value, order);
        }
    }
}

/// As `memory::map`.
pub(crate) mod map {
    use super::atomics::{AtomicU32, AtomicU64};
    use loom::sync::{Condvar, Mutex};

    /// A double word for every 8 bytes, and at offset 0 also a word with its futex.
    pub(crate) struct Mapping {
        words64: Vec<AtomicU64>,
        word: AtomicU32,
    }

    impl Mapping {
        pub(crate) fn model(bytes: usize) -> Self {
            let words64 = (0..bytes / 8).map(|_| AtomicU64::new(0)).collect();
            Self { words64, word: AtomicU32::new(0) }
        }

        pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
            assert_eq!(offset, 0, "there is one");
            &self.word
        }

        pub(crate) fn words64(&self, offset: usize, count: usize) -> &[AtomicU64] {
            &self.words64[offset / 8..][..count]
        }
    }

    /// The kernel's queue of the one word that is slept on.
    #[derive(Default)]
    pub(crate) struct Queue {
        pub(super) lock: Mutex<()>,
        pub(super) woken: Condvar,
    }
}

/// As `memory::futex`: compares and goes to sleep in one step, as far as wakers can see.
pub(crate) mod futex {
    use super::atomics::{AtomicU32, Ordering};
    use super::map::Queue;
    use std::time::Duration;

    loom::lazy_static! {
        static ref QUEUE: Queue = Queue::default();
    }

    pub(crate) fn wait(word: &AtomicU32, value: u32, timeout: Option<Duration>) {
        assert_eq!(timeout, None, "loom knows no time");
        let guard = QUEUE.lock.lock().unwrap();
        if word.load(Ordering::Relaxed) == value {
            drop(QUEUE.woken.wait(guard).unwrap());
        }
    }

    pub(crate) fn wake(_: &AtomicU32) {
        let _guard = QUEUE.lock.lock().unwrap();
        QUEUE.woken.notify_one();
    }
}
