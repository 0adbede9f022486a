//! `PARTIAL_KEY`: two tasks for each key, the less loaded gets the tuple (Nasir et al., "The Power of Both Choices",
//! ICDE 2015). Load is what this emitter has sent to each.

use super::fields::key_hash;
use crate::tuple::{Record, TupleError, task_index};
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub(crate) struct PartialKey {
    positions: Vec<usize>,
    sent: Vec<u64>,
}

/// Tells the second hash of a key from the first.
const SECOND: u64 = 0x9e37_79b9_7f4a_7c15;

impl PartialKey {
    pub(crate) fn new(positions: Vec<usize>, count: usize) -> Self {
        Self { positions, sent: vec![0; count] }
    }

    #[inline]
    pub(crate) fn choose(&mut self, record: &impl Record) -> Result<usize, TupleError> {
        let (first, second) = candidates(key_hash(&self.positions, record)?, self.sent.len());
        let chosen = if self.sent[second] < self.sent[first] { second } else { first };
        self.sent[chosen] += 1;
        Ok(chosen)
    }
}

/// The two tasks of a key; different ones whenever there are two.
#[inline]
fn candidates(hash: u64, count: usize) -> (usize, usize) {
    let first = task_index(hash, count);
    if count < 2 {
        return (first, first);
    }
    let other = task_index(xxh3_64_with_seed(&hash.to_le_bytes(), SECOND), count - 1);
    (first, if other >= first { other + 1 } else { other })
}
