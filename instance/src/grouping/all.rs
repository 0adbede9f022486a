//! `ALL`: every task gets the tuple. One block serves them all, so there is nothing to choose, only to count.

pub(crate) struct All {
    count: usize,
}

impl All {
    pub(crate) fn new(count: usize) -> Self {
        Self { count }
    }

    /// How many tasks get each tuple.
    #[inline]
    pub(crate) fn copies(&self) -> u64 {
        self.count as u64
    }
}
