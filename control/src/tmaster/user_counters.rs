//! What user code counts, over all the processes that ever ran a task.

use egret_dataplane::ids::{Incarnation, TaskId};
use egret_dataplane::message::UserCounters;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// See the module.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub(crate) struct UserTotals {
    tasks: BTreeMap<TaskId, Seen>,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default)]
struct Seen {
    /// What ended processes counted.
    before: BTreeMap<String, u64>,
    incarnation: Incarnation,
    now: BTreeMap<String, u64>,
}

impl UserTotals {
    /// Takes in what a process says. The late words of one whose successor was faster are left out: they hold all that it
    /// said before, and that was kept.
    pub(crate) fn update(&mut self, said: UserCounters) {
        let seen = self.tasks.entry(said.task).or_default();
        if said.incarnation < seen.incarnation {
            return;
        }
        if said.incarnation > seen.incarnation {
            seen.before = seen.sum();
            seen.incarnation = said.incarnation;
        }
        seen.now = said.counters.into_iter().collect();
    }

    /// The counters of a task, by name.
    pub(crate) fn of(&self, task: TaskId) -> Vec<(String, u64)> {
        self.tasks.get(&task).map(|seen| seen.sum().into_iter().collect()).unwrap_or_default()
    }
}

impl Seen {
    fn sum(&self) -> BTreeMap<String, u64> {
        let mut sum = self.before.clone();
        for (name, count) in &self.now {
            *sum.entry(name.clone()).or_default() += count;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_words_of_each_process_count_and_its_successor_adds_to_them() {
        let mut totals = UserTotals::default();
        for (incarnation, count, total) in [(1, 2, 2), (1, 5, 5), (2, 1, 6), (1, 9, 6), (2, 4, 9)] {
            let counters = vec![("parsed".to_owned(), count)];
            totals.update(UserCounters { task: TaskId(3), incarnation: Incarnation(incarnation), counters });
            assert_eq!(totals.of(TaskId(3)), [("parsed".to_owned(), total)]);
        }
        assert_eq!(totals.of(TaskId(4)), []);
    }
}
