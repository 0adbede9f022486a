//! A host that is no machine: whole topologies in one thread, under a seeded clock, scheduler and network.
//!
//! Processes run their own code on it, unchanged, as they do on a machine: [`World::start`] is given what `main` would
//! call. Each of their threads is a coroutine, which runs until it waits or until it has done a step of its work
//! that others can see; then the [`World`] chooses who goes on. A [reactor](crate::net::reactor) of it sends bytes over
//! wires with delays, cuts and resets, and in pieces of any size.
//!
//! Everything is drawn from one seed and nothing from the machine, so a run repeats exactly: [`World::trace`] says so.
//!
//! * `world`: processes and threads, time, and who is next; `coroutine`: one thread.
//! * `wires`: connections and what is on them; `flow`: how it moves; `reactor`: a process's view of it.

mod coroutine;
mod dice;
mod flow;
mod reactor;
mod wires;
mod world;

pub use dice::Dice;
pub use wires::{HostId, Weather};
pub use world::{Outcome, ProcessId, Ran, World};
