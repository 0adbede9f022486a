//! What a process has of its host: a clock, randomness, sleep, threads and a network.
//!
//! A process asks the operating system for them. On a thread that has [entered](enter) a [`Virtual`] host it asks that
//! one, so that whole topologies run in one thread under a virtual clock, with code that is otherwise the same: see
//! [`simulation`](crate::simulation). Whoever waits, looks at a clock or draws a random number outside the pure cores
//! does it through here.

use crate::net::reactor::{ConnId, Reactor};
use std::cell::{Cell, RefCell};
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A host that is no machine.
pub trait Virtual {
    /// The time.
    fn now(&self) -> Instant;

    /// Fills `bytes` with random ones.
    fn fill(&self, bytes: &mut [u8]);

    /// Others may run before this returns, and some time passes: the caller has done a step of its work.
    fn step(&self);

    /// Others run until it is `until`, or what one of them did has made `ready` true. It is asked often, and must not wait.
    fn wait(&self, until: Option<Instant>, ready: Box<dyn Fn() -> bool>);

    /// Wakes the reactor whose [`wake_fd`](Reactor::wake_fd) this is.
    fn ring(&self, wake_fd: BorrowedFd<'_>);

    /// Starts a thread of the present process.
    fn spawn(&self, body: Box<dyn FnOnce()>);

    /// A reactor for the present process.
    fn reactor(&self) -> Box<dyn Reactor>;

    /// Leaves what the present process goes by, in numbers, for others to check what they believe of it. Nothing else sees it.
    fn post(&self, what: Vec<u32>);

    /// What the process at the other end of this connection posted last; `None` while something is under way on it, either
    /// way: then one of them may not know yet what the other goes by.
    fn posted(&self, conn: ConnId) -> Option<Vec<u32>>;
}

thread_local! {
    static IS_VIRTUAL: Cell<bool> = const { Cell::new(false) };
    static HOST: RefCell<Option<Rc<dyn Virtual>>> = const { RefCell::new(None) };
}

/// What unwinds a virtual process that is killed. Who catches panics lets it pass, with
/// [`resume_unwind`](std::panic::resume_unwind).
#[derive(Debug)]
pub struct Killed;

/// Leaves the virtual host when it is dropped.
#[must_use = "the host is left when this is dropped"]
pub struct Entered(Option<Rc<dyn Virtual>>);

impl Drop for Entered {
    fn drop(&mut self) {
        let before = self.0.take();
        IS_VIRTUAL.set(before.is_some());
        HOST.set(before);
    }
}

/// Everything on this thread is on this host from now on.
pub fn enter(host: Rc<dyn Virtual>) -> Entered {
    IS_VIRTUAL.set(true);
    Entered(HOST.replace(Some(host)))
}

/// Whether this thread is on a virtual host.
#[inline]
#[must_use]
pub fn is_virtual() -> bool {
    IS_VIRTUAL.get()
}

/// The virtual host that this thread is on.
#[must_use]
pub fn current() -> Option<Rc<dyn Virtual>> {
    if is_virtual() { HOST.with_borrow(Clone::clone) } else { None }
}

/// The time.
#[inline]
#[must_use]
pub fn now() -> Instant {
    if is_virtual() { virtual_now() } else { Instant::now() }
}

#[cold]
fn virtual_now() -> Instant {
    current().map_or_else(Instant::now, |host| host.now())
}

/// Fills `bytes` with randomness that nobody can guess.
///
/// # Errors
/// When there is none to be had.
pub fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    match current() {
        Some(host) => {
            host.fill(bytes);
            Ok(())
        }
        None => getrandom::fill(bytes).map_err(io::Error::other),
    }
}

/// A place where a thread may be held up between two things that others see. Nothing on a real host, which needs no
/// leave for that.
#[inline]
pub fn step() {
    if is_virtual() {
        virtual_step();
    }
}

#[cold]
fn virtual_step() {
    if let Some(host) = current() {
        host.step();
    }
}

/// Waits until `ready`, or until then. Only on a virtual host.
pub(crate) fn wait(until: Option<Instant>, ready: impl Fn() -> bool + 'static) {
    if let Some(host) = current() {
        host.wait(until, Box::new(ready));
    }
}

/// Sleeps.
pub fn sleep(time: Duration) {
    let Some(host) = current() else { return std::thread::sleep(time) };
    let until = host.now() + time;
    while host.now() < until {
        host.wait(Some(until), Box::new(|| false));
    }
}

/// Lets waits of this thread end so much later than they were asked to at most, as far as the kernel groups timers (50 µs
/// unless told otherwise). Nothing on a virtual host, whose timers are exact.
pub fn set_timer_slack(slack: Duration) {
    let nanos = NonZeroU64::new(slack.as_nanos() as u64);
    if !is_virtual() && nanos.is_some() {
        // A kernel without it leaves things as they are.
        let _ = rustix::thread::set_current_timer_slack(nanos);
    }
}

/// Wakes the reactor whose [`wake_fd`](Reactor::wake_fd) this is.
pub fn ring(wake_fd: &impl AsFd) {
    match current() {
        Some(host) => host.ring(wake_fd.as_fd()),
        // Fails only when the counter is at its limit, and then its reader is awake.
        None => drop(rustix::io::write(wake_fd, &1u64.to_ne_bytes())),
    }
}

/// Starts a thread of this process.
///
/// # Errors
/// When the system has none left.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    match current() {
        Some(host) => host.spawn(Box::new(body)),
        None => drop(std::thread::Builder::new().name(name.to_owned()).spawn(body)?),
    }
    Ok(())
}
