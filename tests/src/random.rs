//! Random numbers that a seed repeats.

/// SplitMix64: small, and good enough to choose moments and victims.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The seed in `EGRET_TEST_SEED`, or a new one.
    ///
    /// # Panics
    /// When the variable holds anything but a number.
    #[must_use]
    pub fn seed() -> u64 {
        use std::hash::BuildHasher;
        let given = std::env::var("EGRET_TEST_SEED");
        given.map_or_else(
            |_| std::hash::RandomState::new().hash_one(0u8),
            |seed| seed.parse().expect("EGRET_TEST_SEED is a number"),
        )
    }

    /// A number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which must not be 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.number() % end as u64) as usize
    }

    /// One of these, which must be some.
    pub fn choose<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// Puts them into random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}
