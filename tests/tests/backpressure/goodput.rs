//! How much of what a bolt can take it gets: the part of its time in which it does not wait for tuples.
//!
//! A bolt that sleeps for each tuple is in one system call while it works, and in another while it waits. How fast it is
//! depends on what else the machine does; that it never waits does not.

use egret_tests::Process;
use std::collections::BTreeMap;
use std::fs;

/// `clock_nanosleep` and `futex`, as `/proc/PID/task/TID/syscall` numbers them on x86-64.
const SLEEPS: &str = "230 ";
const WAITS: &str = "202 ";

/// What a thread does at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Sleeps,
    Waits,
    Else,
}

/// What the task thread of each process of a cluster was seen doing.
#[derive(Debug, Default)]
pub(crate) struct Goodput(BTreeMap<u32, Vec<Doing>>);

impl Goodput {
    /// Looks at all of them now.
    pub(crate) fn look(&mut self, processes: &[Process]) {
        for process in processes {
            if let Some(doing) = task_thread_of(process.pid) {
                self.0.entry(process.pid).or_default().push(doing);
            }
        }
    }

    /// Of the one bolt that sleeps: the part of the looks at which it did not wait, from the first at which it slept to the
    /// last.
    #[track_caller]
    pub(crate) fn of_sleeper(&self) -> f64 {
        let sleepers: Vec<_> = self.0.values().filter(|looks| looks.contains(&Doing::Sleeps)).collect();
        assert_eq!(sleepers.len(), 1, "one task sleeps: {self:?}");
        let looks = sleepers[0];
        let sleeps = |doing: &Doing| *doing == Doing::Sleeps;
        let (first, last) = (looks.iter().position(sleeps), looks.iter().rposition(sleeps));
        let looks = &looks[first.unwrap()..=last.unwrap()];
        assert!(looks.len() >= 50, "it was looked at {} times", looks.len());
        let waits = looks.iter().filter(|doing| **doing == Doing::Waits).count();
        1.0 - waits as f64 / looks.len() as f64
    }
}

fn task_thread_of(pid: u32) -> Option<Doing> {
    let mut threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten().map(|thread| thread.path());
    let task =
        threads.find(|path| fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "task"));
    let call = fs::read_to_string(task?.join("syscall")).ok()?;
    Some(match () {
        () if call.starts_with(SLEEPS) => Doing::Sleeps,
        () if call.starts_with(WAITS) => Doing::Waits,
        () => Doing::Else,
    })
}
