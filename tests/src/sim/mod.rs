//! The simulator: random topologies with random faults, on a simulated host, and what must hold whatever happens.
//!
//! A seed is a [`Scenario`]: a topology, how fast each process is, and what goes wrong when. [`run`] runs it with the real
//! processes, the tmaster and its state manager included. First comes the time of the faults, then everything is healed, and
//! the topology has to complete. The components write what happens to them into a [`Journal`], which checks it at once and
//! once more at the end.

mod components;
mod control;
mod courses;
mod faults;
mod journal;
mod run;
mod scenario;
mod state;

pub use journal::Journal;
pub use run::{Run, run};
pub use scenario::{Mode, Scenario};

/// Seeds that found something once, one in a line: the seed, its minutes, and what it was.
const REGRESSIONS: &str = include_str!("regressions.txt");

/// The seeds that found something once, each with the minutes of its faults.
#[must_use]
pub fn regression_seeds() -> Vec<(u64, u64)> {
    let lines = REGRESSIONS.lines().filter(|line| !line.starts_with('#'));
    let mut words = lines.map(str::split_whitespace);
    let number = |word: Option<&str>| word?.parse().ok();
    words.by_ref().filter_map(|mut words| Some((number(words.next())?, number(words.next())?))).collect()
}
