//! Processes and their threads, the clock, and who is next.
//!
//! Time stands while anybody can go on, and then moves to the next moment at which somebody can. A step of a process's
//! work takes a time drawn for it, so the fast and the slow meet in ever other orders.

use super::coroutine::{Coroutines, Pause, Wake, pause};
use super::dice::Dice;
use super::reactor::WireReactor;
use super::wires::{HostId, Weather, Wires};
use crate::host::{self, Killed, Virtual};
use crate::net::reactor::{ConnId, Reactor};
use rustix::fs::MemfdFlags;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

/// A process, numbered from 0 in the order of their starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub usize);

/// How a process has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With this exit code.
    Exited(u8),
    /// By [`World::kill`].
    Killed,
    /// Its main thread panicked with this message.
    Panicked(String),
}

/// What a [`World::turn`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Ran {
    /// A thread ran.
    One,
    /// Nobody can go on before the deadline, which it is now.
    Deadline,
}

struct Process {
    outcome: Option<Outcome>,
    /// What a step takes on the average.
    step_ns: u64,
    paused_until_ns: u64,
}

struct Thread {
    process: ProcessId,
    is_main: bool,
    /// Absent while it runs.
    coroutine: Option<Coroutines>,
    state: State,
    result: Rc<Cell<Option<Outcome>>>,
}

enum State {
    /// Goes on at this time.
    Ready(u64),
    /// Goes on at this time, or when this says so.
    Waiting { until_ns: Option<u64>, ready: Box<dyn Fn() -> bool> },
}

/// See the [module](super).
pub struct World {
    own: Weak<World>,
    start: Instant,
    now_ns: Cell<u64>,
    dice: RefCell<Dice>,
    randomness: RefCell<Dice>,
    processes: RefCell<Vec<Process>>,
    threads: RefCell<Vec<Thread>>,
    ended: RefCell<Vec<ProcessId>>,
    running: Cell<Option<ProcessId>>,
    trace: Cell<u64>,
    /// Whom a doorbell wakes, by the number of its file.
    doorbells: RefCell<BTreeMap<u64, usize>>,
    pub(super) wires: RefCell<Wires>,
}

impl World {
    /// A world in which nothing runs yet.
    #[must_use]
    pub fn new(seed: u64) -> Rc<Self> {
        let mut seeds = Dice::new(seed);
        let mut next = || Dice::new(seeds.number());
        let (dice, randomness, wires) = (next(), next(), next());
        Rc::new_cyclic(|own| Self {
            own: own.clone(),
            start: Instant::now(),
            now_ns: Cell::new(0),
            dice: RefCell::new(dice),
            randomness: RefCell::new(randomness),
            processes: RefCell::default(),
            threads: RefCell::default(),
            ended: RefCell::default(),
            running: Cell::new(None),
            trace: Cell::new(seed),
            doorbells: RefCell::default(),
            wires: RefCell::new(Wires::new(wires)),
        })
    }

    /// The time since the beginning.
    #[must_use]
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.now_ns.get())
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    /// A number that two runs share which went alike so far.
    #[must_use]
    pub fn trace(&self) -> u64 {
        self.trace.get() ^ self.wires.borrow().trace
    }

    fn note(&self, what: u64) {
        self.trace.set((self.trace.get() ^ what).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17));
    }

    /// Starts a process on a host. `main` gives its exit code; a step of its work takes `step` on the average.
    ///
    /// # Panics
    /// When there is no memory left for a stack.
    pub fn start(&self, host: HostId, step: Duration, main: impl FnOnce() -> u8 + 'static) -> ProcessId {
        let id = ProcessId(self.processes.borrow().len());
        self.processes.borrow_mut().push(Process {
            outcome: None,
            step_ns: step.as_nanos() as u64,
            paused_until_ns: 0,
        });
        self.wires.borrow_mut().add_endpoint(host);
        self.add_thread(id, true, Box::new(main));
        id
    }

    fn add_thread(&self, process: ProcessId, is_main: bool, main: Box<dyn FnOnce() -> u8>) {
        let result = Rc::new(Cell::new(None));
        let told = result.clone();
        let body = Box::new(move || {
            let outcome = match catch_unwind(AssertUnwindSafe(main)) {
                Ok(code) => Outcome::Exited(code),
                Err(payload) if payload.is::<Killed>() => Outcome::Killed,
                Err(payload) => Outcome::Panicked(text_of(payload.as_ref())),
            };
            told.set(Some(outcome));
        });
        let coroutine =
            Coroutines::new(body).unwrap_or_else(|error| panic!("no stack for a thread: {error}"));
        let state = State::Ready(self.now_ns.get() + self.step_time(process));
        let thread = Thread { process, is_main, coroutine: Some(coroutine), state, result };
        self.threads.borrow_mut().push(thread);
    }

    fn step_time(&self, process: ProcessId) -> u64 {
        let step_ns = self.processes.borrow()[process.0].step_ns;
        self.dice.borrow_mut().between(1, 2 * step_ns)
    }

    /// How a process has ended; `None` while it runs.
    #[must_use]
    pub fn outcome(&self, process: ProcessId) -> Option<Outcome> {
        self.processes.borrow()[process.0].outcome.clone()
    }

    /// The processes that have ended since this was asked last.
    pub fn take_ended(&self) -> Vec<ProcessId> {
        self.ended.take()
    }

    /// Ends a process at once, as SIGKILL does.
    pub fn kill(&self, process: ProcessId) {
        if self.outcome(process).is_none() {
            self.end(process, Outcome::Killed);
        }
    }

    /// Ends every process that runs. To be called last: threads that wait keep their world.
    pub fn end_all(&self) {
        let count = self.processes.borrow().len();
        for process in 0..count {
            self.kill(ProcessId(process));
        }
    }

    /// Holds a process up for this long, as SIGSTOP does until SIGCONT comes.
    pub fn pause(&self, process: ProcessId, time: Duration) {
        self.processes.borrow_mut()[process.0].paused_until_ns = self.now_ns.get() + time.as_nanos() as u64;
    }

    /// No process is held up any more.
    pub fn resume_all(&self) {
        self.processes.borrow_mut().iter_mut().for_each(|process| process.paused_until_ns = 0);
    }

    /// How the network is from now on.
    pub fn set_weather(&self, weather: Weather) {
        let mut wires = self.wires.borrow_mut();
        wires.weather = weather;
        wires.touch_all();
    }

    /// Nothing gets from one host to the other until it is [healed](Self::heal); the other way it may.
    pub fn cut(&self, from: HostId, to: HostId) {
        self.wires.borrow_mut().cut.insert((from, to));
    }

    /// Everything gets everywhere again.
    pub fn heal(&self) {
        let mut wires = self.wires.borrow_mut();
        wires.cut.clear();
        wires.touch_all();
    }

    /// Breaks some connection between different processes, and says whether there is one.
    pub fn reset_some(&self) -> bool {
        self.wires.borrow_mut().reset_some(self.now_ns.get())
    }

    /// Lets one thread run, or moves the clock, but not past `deadline`.
    pub fn turn(&self, deadline: Duration) -> Ran {
        let deadline_ns = deadline.as_nanos() as u64;
        match self.next() {
            Some((index, at_ns)) if at_ns <= deadline_ns => {
                self.now_ns.set(self.now_ns.get().max(at_ns));
                self.run(index);
                Ran::One
            }
            _ => {
                self.now_ns.set(self.now_ns.get().max(deadline_ns));
                Ran::Deadline
            }
        }
    }

    /// Who is next, and when: one of those who go on first.
    fn next(&self) -> Option<(usize, u64)> {
        let now = self.now_ns.get();
        let processes = self.processes.borrow();
        let mut dice = self.dice.borrow_mut();
        let mut best: Option<(usize, u64)> = None;
        let mut alike = 0;
        for (index, thread) in self.threads.borrow().iter().enumerate() {
            let due = match &thread.state {
                State::Ready(at_ns) => *at_ns,
                State::Waiting { ready, .. } if ready() => now,
                State::Waiting { until_ns: Some(at_ns), .. } => *at_ns,
                State::Waiting { until_ns: None, .. } => continue,
            };
            let due = due.max(now).max(processes[thread.process.0].paused_until_ns);
            alike = if best.is_some_and(|(_, at_ns)| at_ns == due) { alike + 1 } else { 1 };
            let better = best.is_none_or(|(_, at_ns)| due < at_ns);
            if better {
                alike = 1;
            }
            // Each of those due at the same moment is as likely.
            if better || (best.is_some_and(|(_, at_ns)| due == at_ns) && dice.once_in(alike)) {
                best = Some((index, due));
            }
        }
        best
    }

    fn run(&self, index: usize) {
        let (process, coroutine) = {
            let thread = &mut self.threads.borrow_mut()[index];
            (thread.process, thread.coroutine.take())
        };
        let Some(mut coroutine) = coroutine else { return };
        self.note(self.now_ns.get() ^ (index as u64) << 48 ^ (process.0 as u64) << 32);
        self.running.set(Some(process));
        let paused = {
            let _entered = self.own.upgrade().map(|own| host::enter(own));
            coroutine.resume(Wake::Go)
        };
        self.running.set(None);
        let state = match paused {
            Pause::Step => State::Ready(self.now_ns.get() + self.step_time(process)),
            Pause::Wait(until, ready) => {
                let until_ns = until.map(|at| at.saturating_duration_since(self.start).as_nanos() as u64);
                State::Waiting { until_ns, ready }
            }
            Pause::Ended => return self.thread_ended(index),
        };
        let thread = &mut self.threads.borrow_mut()[index];
        (thread.coroutine, thread.state) = (Some(coroutine), state);
    }

    fn thread_ended(&self, index: usize) {
        let thread = self.threads.borrow_mut().remove(index);
        let outcome = thread.result.take().unwrap_or(Outcome::Killed);
        if thread.is_main || matches!(outcome, Outcome::Panicked(_)) {
            self.end(thread.process, outcome);
        }
    }

    fn end(&self, process: ProcessId, outcome: Outcome) {
        self.note(self.now_ns.get() ^ (process.0 as u64) << 8);
        self.processes.borrow_mut()[process.0].outcome = Some(outcome);
        self.ended.borrow_mut().push(process);
        let _entered = self.own.upgrade().map(|own| host::enter(own));
        let mut threads = Vec::new();
        self.threads.borrow_mut().retain_mut(|thread| {
            let ends = thread.process == process;
            threads.extend(thread.coroutine.take_if(|_| ends));
            !ends
        });
        for mut coroutine in threads {
            // It unwinds, and stops nowhere on the way.
            let _ = coroutine.resume(Wake::Die);
        }
        self.wires.borrow_mut().endpoint_died(process.0, self.now_ns.get());
    }
}

fn number_of(file: BorrowedFd<'_>) -> Option<u64> {
    rustix::fs::fstat(file).ok().map(|stat| stat.st_ino)
}

fn text_of(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

impl Virtual for World {
    fn now(&self) -> Instant {
        self.start + Duration::from_nanos(self.now_ns.get())
    }

    fn fill(&self, bytes: &mut [u8]) {
        let mut dice = self.randomness.borrow_mut();
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&dice.number().to_le_bytes()[..chunk.len()]);
        }
    }

    fn step(&self) {
        pause(Pause::Step);
    }

    fn wait(&self, until: Option<Instant>, ready: Box<dyn Fn() -> bool>) {
        pause(Pause::Wait(until, ready));
    }

    fn ring(&self, wake_fd: BorrowedFd<'_>) {
        let endpoint = number_of(wake_fd).and_then(|number| self.doorbells.borrow().get(&number).copied());
        if let Some(endpoint) = endpoint {
            self.wires.borrow_mut().ring(endpoint);
        }
    }

    fn spawn(&self, body: Box<dyn FnOnce()>) {
        if let Some(process) = self.running.get() {
            let main = Box::new(move || {
                body();
                0
            });
            self.add_thread(process, false, main);
        }
    }

    fn post(&self, what: Vec<u32>) {
        if let Some(process) = self.running.get() {
            self.wires.borrow_mut().endpoints[process.0].posted = what;
        }
    }

    fn posted(&self, conn: ConnId) -> Option<Vec<u32>> {
        self.wires.borrow().posted(conn.0 as usize)
    }

    fn reactor(&self) -> Box<dyn Reactor> {
        let endpoint = self.running.get().map_or(0, |process| process.0);
        // Whoever is handed a copy of this file knows its number, and nobody else's file has the same while one is open.
        let doorbell = rustix::fs::memfd_create("doorbell", MemfdFlags::CLOEXEC).ok();
        if let Some(number) = doorbell.as_ref().and_then(|file| number_of(file.as_fd())) {
            self.doorbells.borrow_mut().insert(number, endpoint);
        }
        let has_news = self.wires.borrow().endpoints[endpoint].has_news.clone();
        Box::new(WireReactor::new(self.own.clone(), endpoint, doorbell, has_news))
    }
}
