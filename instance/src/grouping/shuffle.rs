//! `SHUFFLE`: round robin, from a task that is different for each emitter.

use crate::tuple::task_index;
use xxhash_rust::xxh3::xxh3_64;

/// A round robin over all tasks, or over the listed ones.
pub(crate) struct Shuffle {
    next: usize,
    count: usize,
    only: Option<Vec<usize>>,
}

impl Shuffle {
    /// Over `count` tasks; the seed says which is first.
    pub(crate) fn new(count: usize, seed: u64) -> Self {
        Self { next: task_index(xxh3_64(&seed.to_le_bytes()), count), count, only: None }
    }

    /// Over these tasks.
    pub(super) fn among(only: Vec<usize>, seed: u64) -> Self {
        Self { only: Some(only.clone()), ..Self::new(only.len(), seed) }
    }

    #[inline]
    pub(crate) fn choose(&mut self) -> usize {
        let turn = self.next;
        self.next = if turn + 1 >= self.count { 0 } else { turn + 1 };
        match &self.only {
            None => turn,
            Some(only) => only[turn],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_tuples_spread_three_three_four() {
        let mut shuffle = Shuffle::new(3, 42);
        let mut got = [0; 3];
        (0..10).for_each(|_| got[shuffle.choose()] += 1);
        got.sort_unstable();
        assert_eq!(got, [3, 3, 4]);
    }

    /// Hazard 5 of the public reports: every process began at the same task.
    #[test]
    fn emitters_start_at_different_tasks() {
        let mut first = [0; 8];
        (0..800).for_each(|seed| first[Shuffle::new(8, seed).choose()] += 1);
        assert!(first.iter().all(|&n| n > 50), "{first:?}");
    }
}
