//! `DIRECT`: the emitter names the task.

use egret_dataplane::ids::TaskId;

pub(crate) struct Direct {
    /// Ids of a component's tasks are consecutive.
    first: u32,
    count: u32,
}

impl Direct {
    pub(crate) fn new(tasks: &[TaskId]) -> Self {
        Self { first: tasks.first().map_or(0, |t| t.0), count: tasks.len() as u32 }
    }

    /// The index of `task`, or `None` when it is not one of this reader.
    #[inline]
    pub(crate) fn choose(&self, task: TaskId) -> Option<usize> {
        let index = task.0.checked_sub(self.first)?;
        (index < self.count).then_some(index as usize)
    }

    /// The targets, in words.
    pub(crate) fn describe(&self) -> String {
        match self.count {
            1 => format!("task {}", self.first),
            _ => format!("tasks {} to {}", self.first, self.first + self.count.saturating_sub(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_readers_own_tasks_are_targets() {
        let direct = Direct::new(&[TaskId(4), TaskId(5)]);
        assert_eq!(direct.choose(TaskId(5)), Some(1));
        for foreign in [0, 3, 6, u32::MAX] {
            assert_eq!(direct.choose(TaskId(foreign)), None);
        }
    }
}
