//! The inputs that a bolt keeps beyond the block they came in: whether it still has some.
//!
//! Once their block is given back, nobody but the bolt's process could name them.

/// Counts over the life of the process. An input whose [`Held`](super::Held) was dropped is kept for ever: it is as if
/// the bolt still meant to ack it.
#[derive(Debug, Default)]
pub(super) struct Kept {
    taken: u64,
    /// Of these, the acked and failed ones.
    settled: u64,
    /// Of these, the ones whose ack or fail is pushed.
    told: u64,
}

impl Kept {
    /// So many more are kept.
    pub(super) fn take(&mut self, count: u32) {
        self.taken += u64::from(count);
    }

    /// One is acked or failed.
    #[inline]
    pub(super) fn settle(&mut self) {
        self.settled += 1;
    }

    /// All acks and fails are pushed.
    #[inline]
    pub(super) fn all_told(&mut self) {
        self.told = self.settled;
    }

    /// Whether there are any whose ack or fail is not pushed.
    #[inline]
    pub(super) fn is_some(&self) -> bool {
        self.taken != self.told
    }
}
