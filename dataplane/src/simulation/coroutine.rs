//! One thread of a simulated process: code with a stack of its own, which stops where it waits.
//!
//! User code waits in the middle of its calls, when it emits and has no block left, so a thread cannot be a state machine
//! without a stack.
#![allow(unsafe_code)]

use crate::host::Killed;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, RefCell};
use std::io;
use std::panic::resume_unwind;
use std::rc::Rc;
use std::time::Instant;

/// Bytes of a thread's stack. Only what is used takes memory.
const STACK_BYTES: usize = 1 << 20;

/// What a thread is told when it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    Go,
    /// Its process is killed.
    Die,
}

/// Why a thread has stopped.
pub(super) enum Pause {
    /// It has done a step of its work and would go on.
    Step,
    /// It waits until then, or until this says that it need not.
    Wait(Option<Instant>, Box<dyn Fn() -> bool>),
    /// It is over.
    Ended,
}

type Place = *const Yielder<Wake, Pause>;

thread_local! {
    /// Where the simulated thread that runs now stops; null outside of all.
    static RUNNING: Cell<Place> = const { Cell::new(std::ptr::null()) };
    /// Stacks of threads that are over: processes die and come back all the time, and fresh memory costs more than they do.
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// Stacks that are kept at most: more than the threads of most simulated worlds.
const STACKS_KEPT: usize = 128;

/// Its coroutine is there until it is dropped.
pub(super) struct Coroutines(Option<Coroutine<Wake, Pause, ()>>, Rc<Cell<Place>>);

impl Coroutines {
    /// A thread that will run `body`, which catches its own panics.
    pub(super) fn new(body: Box<dyn FnOnce()>) -> io::Result<Self> {
        let place = Rc::new(Cell::new(std::ptr::null()));
        let own = place.clone();
        let kept = STACKS.with_borrow_mut(Vec::pop);
        let stack = kept.map_or_else(|| DefaultStack::new(STACK_BYTES), Ok)?;
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<Wake, Pause>, wake| {
            own.set(yielder);
            RUNNING.set(yielder);
            if wake == Wake::Go {
                body();
            }
        });
        Ok(Self(Some(coroutine), place))
    }

    /// Lets it run until it stops.
    pub(super) fn resume(&mut self, wake: Wake) -> Pause {
        let Some(coroutine) = self.0.as_mut().filter(|coroutine| !coroutine.done()) else {
            return Pause::Ended;
        };
        RUNNING.set(self.1.get());
        let result = coroutine.resume(wake);
        RUNNING.set(std::ptr::null());
        match result {
            CoroutineResult::Yield(pause) => pause,
            CoroutineResult::Return(()) => Pause::Ended,
        }
    }
}

impl Drop for Coroutines {
    fn drop(&mut self) {
        // One that is not done unwinds, and its stack goes with it.
        let Some(coroutine) = self.0.take().filter(Coroutine::done) else { return };
        let stack = coroutine.into_stack();
        // When the real thread ends its stacks may be gone before this.
        let _ = STACKS.try_with(|stacks| {
            let mut stacks = stacks.borrow_mut();
            if stacks.len() < STACKS_KEPT {
                stacks.push(stack);
            }
        });
    }
}

/// Stops the simulated thread that runs now. It unwinds from here when its process is killed.
pub(super) fn pause(pause: Pause) {
    let place = RUNNING.get();
    // While it unwinds nothing can be waited for, and outside of all threads nothing runs that could be.
    if place.is_null() || std::thread::panicking() {
        return;
    }
    // SAFETY: `place` is the yielder on the stack of the coroutine that runs now: `resume` sets it before it goes on, and
    // resets it when it stops or ends.
    if unsafe { &*place }.suspend(pause) == Wake::Die {
        resume_unwind(Box::new(Killed));
    }
}
