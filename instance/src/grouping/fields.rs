//! `FIELDS`: equal keys go to the same task, by the stable hash of [`KeyHasher`].

use crate::tuple::{KeyHasher, Record, TupleError, task_index};

pub(crate) struct Fields {
    positions: Vec<usize>,
    count: usize,
}

impl Fields {
    pub(crate) fn new(positions: Vec<usize>, count: usize) -> Self {
        Self { positions, count }
    }

    #[inline]
    pub(crate) fn choose(&self, record: &impl Record) -> Result<usize, TupleError> {
        Ok(task_index(key_hash(&self.positions, record)?, self.count))
    }
}

/// The hash of a tuple's key: the fields at these positions, in this order.
#[inline]
pub(super) fn key_hash(positions: &[usize], record: &impl Record) -> Result<u64, TupleError> {
    let mut hasher = KeyHasher::new();
    for &position in positions {
        hasher.update(record.value(position)?);
    }
    Ok(hasher.finish())
}
