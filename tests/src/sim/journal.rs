//! What happened to the components, and whether it may.

use super::scenario::{Grouping, Mode, Scenario};
use egret::TaskId;
use egret_dataplane::message::{TopologyState, TopologyStatus};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A tuple of the simulator's components, apart from what it carries along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// Which emission of a spout it comes of, over all; 0 when it belongs to none.
    pub(super) root: u64,
    pub(super) key: u64,
    /// Who emitted it, as the how-many-th thing that process emitted.
    pub(super) from: u32,
    pub(super) process: u32,
    pub(super) seq: u64,
}

/// One input of a component.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadBy {
    /// The component, by index.
    reader: usize,
    /// Which of its inputs.
    input: usize,
    how: Grouping,
}

/// How an emission of a spout ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Acked,
    Failed,
}

/// An emission of a spout.
#[derive(Debug)]
struct Root {
    spout: u32,
    process: u32,
    id: u64,
    /// Its id was emitted before.
    is_again: bool,
    /// Copies that exist and were not acked.
    open: i64,
    ending: Option<Ending>,
}

/// What a spout task has to show at the end. It outlives its processes, as a queue outside would.
#[derive(Debug, Default)]
struct SpoutPlace {
    next: u64,
    acked: BTreeSet<u64>,
}

#[derive(Default)]
struct Book {
    mode: Option<Mode>,
    roots: Vec<Root>,
    spouts: BTreeMap<u32, SpoutPlace>,
    /// By receiving task, sending task and its process: the last thing received.
    last: BTreeMap<(u32, u32, u32), u64>,
    /// By reader and key: the only task.
    keys: BTreeMap<(usize, usize, u64), u32>,
    /// By reader, sending task, its process and number: what one of the reader's tasks has executed.
    executed_by: HashSet<(usize, u32, u32, u64)>,
    /// Tasks whose bolt has finished, with the process in which it did.
    finished: BTreeMap<u32, u32>,
    /// By process of a spout task: its emissions of which it has not been told how they ended.
    pending: BTreeMap<(u32, u32), u64>,
    max_pending: u64,
    sent: u64,
    executed: u64,
    violations: Vec<String>,
    trace: u64,
}

/// See the module. Copies are of the same one.
#[derive(Clone, Default)]
pub struct Journal(Arc<Mutex<Book>>);

impl Journal {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let (mode, max_pending) = (Some(scenario.mode), scenario.max_pending);
        Self(Arc::new(Mutex::new(Book { mode, max_pending, ..Book::default() })))
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What may not have happened.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        self.book().violations.clone()
    }

    pub(super) fn violation(&self, what: String) {
        self.book().violate(what);
    }

    /// A number that is the same after runs in which the same happened.
    #[must_use]
    pub fn trace(&self) -> u64 {
        self.book().trace
    }

    /// How many copies were executed.
    #[must_use]
    pub fn executed(&self) -> u64 {
        self.book().executed
    }

    /// How far everyone has come, for people.
    pub(super) fn progress(&self) -> String {
        let book = self.book();
        let spout = |(task, place): (&u32, &SpoutPlace)| {
            format!("spout task {task} has emitted {} ids, {} are acked", place.next, place.acked.len())
        };
        let spouts: Vec<String> = book.spouts.iter().map(spout).collect();
        let finished: Vec<&u32> = book.finished.keys().collect();
        format!("{}; bolt tasks that have finished: {finished:?}", spouts.join("; "))
    }

    /// The ids that a process of a spout task still has to emit, and the first that was never emitted.
    pub(super) fn to_emit(&self, task: TaskId, mode: Mode) -> (Vec<u64>, u64) {
        let mut book = self.book();
        let place = book.spouts.entry(task.0).or_default();
        let again = if mode == Mode::AtLeastOnce {
            (0..place.next).filter(|id| !place.acked.contains(id)).collect()
        } else {
            Vec::new()
        };
        (again, place.next)
    }

    /// A spout emits; the number of the root.
    pub(super) fn begin(&self, task: TaskId, process: u32, id: u64, copies: u64) -> u64 {
        let mut book = self.book();
        let place = book.spouts.entry(task.0).or_default();
        let is_again = id < place.next;
        place.next = place.next.max(id + 1);
        book.sent += copies;
        book.roots.push(Root { spout: task.0, process, id, is_again, open: copies as i64, ending: None });
        book.wait_for(task.0, process);
        book.roots.len() as u64
    }

    /// Whether a bolt may fail a root on purpose. Only once for an id: a large tree would hardly ever be done otherwise.
    pub(super) fn may_fail(&self, root: u64) -> bool {
        let mut book = self.book();
        book.mode == Some(Mode::AtLeastOnce) && book.root(root).is_some_and(|root| !root.is_again)
    }

    /// The emission did not come about.
    pub(super) fn abandon(&self, root: u64, copies: u64) {
        let mut book = self.book();
        book.sent -= copies;
        if let Some(root) = book.root(root) {
            root.ending = Some(Ending::Failed);
            let whose = (root.spout, root.process);
            *book.pending.entry(whose).or_default() -= 1;
        }
    }

    /// The spout is told how it ended.
    pub(super) fn ended(&self, task: TaskId, process: u32, root: u64, is_acked: bool) {
        let mut book = self.book();
        book.note(root << 1 | u64::from(is_acked));
        let tracks = book.mode == Some(Mode::AtLeastOnce);
        let Some(known) = book.root(root) else {
            return book.violate(format!("task {task} was told of a root {root} that nobody emitted"));
        };
        let (id, open, before) = (known.id, known.open, known.ending);
        let whose = (known.spout, known.process);
        let pending = book.pending.entry(whose).or_default();
        *pending = pending.saturating_sub(1);
        let Some(known) = book.root(root) else { return };
        known.ending = Some(if is_acked { Ending::Acked } else { Ending::Failed });
        if whose != (task.0, process) {
            book.violate(format!("process {process} of task {task} was told of root {root} of {whose:?}"));
        }
        if let Some(before) = before {
            book.violate(format!(
                "root {root} of task {task} had {before:?}, and ends again (acked: {is_acked})"
            ));
        }
        if is_acked && tracks && open > 0 {
            book.violate(format!("root {root} of task {task} was done while {open} copies were not"));
        }
        if is_acked {
            book.spouts.entry(task.0).or_default().acked.insert(id);
        }
    }

    /// A bolt executes an item.
    pub(super) fn execute(&self, task: TaskId, process: u32, item: Item, input: &ReadBy) {
        let mut book = self.book();
        book.executed += 1;
        book.note(item.seq << 24 ^ u64::from(task.0) << 8 ^ u64::from(item.from));
        let last = book.last.insert((task.0, item.from, item.process), item.seq);
        if let Some(last) = last.filter(|last| *last >= item.seq) {
            let (from, seq) = (item.from, item.seq);
            book.violate(format!("task {task} got number {seq} of task {from} after its number {last}"));
        }
        let ReadBy { reader, input, how } = *input;
        if how == Grouping::Fields {
            let only = *book.keys.entry((reader, input, item.key)).or_insert(task.0);
            if only != task.0 {
                let key = item.key;
                book.violate(format!("key {key} came to task {task}, and to task {only} before"));
            }
        }
        if how != Grouping::All && !book.executed_by.insert((reader, item.from, item.process, item.seq)) {
            let (from, seq) = (item.from, item.seq);
            book.violate(format!(
                "number {seq} of task {from} came to task {task}, and to one of its component before"
            ));
        }
        if book.finished.get(&task.0) == Some(&process) {
            book.violate(format!("task {task} executed something after its inputs had ended"));
        }
    }

    /// A bolt is about to emit so many copies as part of a root.
    pub(super) fn grow(&self, root: u64, copies: u64) {
        let mut book = self.book();
        book.sent += copies;
        if let Some(root) = book.root(root) {
            root.open += copies as i64;
        }
    }

    /// A bolt acks a copy.
    pub(super) fn shrink(&self, root: u64) {
        let mut book = self.book();
        let Some(known) = book.root(root) else { return };
        known.open -= 1;
        if known.open < 0 {
            book.violate(format!("more copies of root {root} were acked than there were"));
        }
    }

    /// A bolt has finished.
    pub(super) fn finish(&self, task: TaskId, process: u32) {
        let before = self.book().finished.insert(task.0, process);
        if before == Some(process) {
            self.violation(format!("task {task} finished twice"));
        }
    }

    /// The topology has completed: what must hold in the end. `was_whole`: nothing had gone wrong. `told`: what the tmaster
    /// says of it.
    pub(super) fn conclude(&self, scenario: &Scenario, was_whole: bool, told: Option<&TopologyStatus>) {
        let mut book = self.book();
        match told {
            Some(status) if status.state == TopologyState::Completed => {}
            told => book.violate(format!("it has not completed, but ended as {:?}", told.map(|s| s.state))),
        }
        let mut first = 1;
        for part in &scenario.parts {
            for task in first..first + part.parallelism {
                if part.count > 0 {
                    book.conclude_spout(task, part.count, scenario.mode);
                }
            }
            first += part.parallelism;
        }
        if let Some(told) = told.filter(|_| was_whole) {
            let (sent, executed) = (book.sent, book.executed);
            let dropped: u64 = told.dropped.iter().map(|(_, count)| count).sum();
            if !scenario.drops && dropped > 0 || sent != executed + dropped {
                book.violate(format!(
                    "{sent} copies were sent, {executed} executed and {dropped} dropped, though nothing went wrong"
                ));
            }
            let counted: u64 = told.components.iter().map(|component| component.executed).sum();
            if (counted, told.lost) != (executed, dropped) {
                let lost = told.lost;
                book.violate(format!(
                    "{executed} were executed and {dropped} dropped, it says {counted}, and {lost} lost"
                ));
            }
        }
    }

    /// By what a component reads another.
    pub(super) fn read_by(scenario: &Scenario, reader: usize, source: &str) -> ReadBy {
        let inputs = scenario.parts[reader].inputs.iter().enumerate();
        let mut of_it = inputs.filter(|(_, (from, _))| Scenario::id(*from) == source);
        let (input, (_, how)) = of_it.next().unwrap_or_else(|| panic!("{reader} does not read {source}"));
        ReadBy { reader, input, how: *how }
    }
}

impl Book {
    fn root(&mut self, number: u64) -> Option<&mut Root> {
        self.roots.get_mut((number as usize).checked_sub(1)?)
    }

    /// A process has one more emission in flight, if trees are tracked.
    fn wait_for(&mut self, task: u32, process: u32) {
        let pending = self.pending.entry((task, process)).or_default();
        *pending += 1;
        let pending = *pending;
        if self.mode == Some(Mode::AtLeastOnce) && pending > self.max_pending {
            let most = self.max_pending;
            self.violate(format!("spout task {task} has {pending} trees in flight, and may have {most}"));
        }
    }

    fn violate(&mut self, what: String) {
        // The first ones tell; the others follow from them.
        if self.violations.len() < 5 {
            self.violations.push(what);
        }
    }

    fn note(&mut self, what: u64) {
        self.trace = (self.trace ^ what).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(13);
    }

    fn conclude_spout(&mut self, task: u32, count: u64, mode: Mode) {
        let place = self.spouts.entry(task).or_default();
        let (emitted, acked) = (place.next, place.acked.len() as u64);
        if emitted != count {
            self.violate(format!("spout task {task} emitted {emitted} of {count} ids"));
        }
        if mode == Mode::AtLeastOnce && acked != count {
            self.violate(format!("of {count} ids of spout task {task} {acked} were acked"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executed(tasks: [u32; 2], how: Grouping) -> Vec<String> {
        let journal = Journal::default();
        let item = Item { root: 0, key: 1, from: 1, process: 1, seq: 1 };
        for task in tasks {
            journal.execute(TaskId(task), 1, item, &ReadBy { reader: 1, input: 0, how });
        }
        journal.violations()
    }

    #[test]
    fn what_two_tasks_of_a_component_execute_was_meant_for_all() {
        assert_eq!(executed([2, 3], Grouping::All), [""; 0]);
        let found = executed([2, 3], Grouping::Shuffle);
        assert!(found[0].contains("number 1 of task 1 came to task 3, and to one"), "{found:?}");
        let found = executed([2, 2], Grouping::All);
        assert!(found[0].contains("after its number 1"), "{found:?}");
    }
}
