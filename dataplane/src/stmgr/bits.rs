//! A set of small numbers, one bit each.

/// A fixed-size bit set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// The empty set over `0..len`.
    pub(super) fn new(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(64)] }
    }

    /// Whether `index` is in the set; `false` beyond its length.
    pub(super) fn contains(&self, index: usize) -> bool {
        self.words.get(index / 64).is_some_and(|word| word & (1 << (index % 64)) != 0)
    }

    /// Adds `index`, which must be below the length; says whether it is new.
    pub(super) fn insert(&mut self, index: usize) -> bool {
        let (word, bit) = (&mut self.words[index / 64], 1 << (index % 64));
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Takes `index` out; says whether it was there.
    pub(super) fn remove(&mut self, index: usize) -> bool {
        let Some(word) = self.words.get_mut(index / 64) else { return false };
        let bit = 1 << (index % 64);
        let was = *word & bit != 0;
        *word &= !bit;
        was
    }

    /// The least member that is not below `from`.
    pub(super) fn first_from(&self, from: usize) -> Option<usize> {
        let first = from / 64;
        let masked = |(i, &word): (usize, &u64)| if i == 0 { word & (u64::MAX << (from % 64)) } else { word };
        let words = self.words.get(first..)?.iter().enumerate();
        let (i, word) = words.map(|at| (at.0, masked(at))).find(|&(_, word)| word != 0)?;
        Some((first + i) * 64 + word.trailing_zeros() as usize)
    }

    /// Every member, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(i, &word)| {
            std::iter::successors((word != 0).then_some(word), |w| {
                let rest = w & (w - 1);
                (rest != 0).then_some(rest)
            })
            .map(move |w| i * 64 + w.trailing_zeros() as usize)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_out_in_order_and_once() {
        let mut bits = Bits::new(130);
        for index in [129, 0, 63, 64, 0] {
            bits.insert(index);
        }
        assert!(bits.remove(63) && !bits.remove(63) && !bits.remove(1000));
        assert_eq!(bits.iter().collect::<Vec<_>>(), [0, 64, 129]);
        assert!(bits.contains(64) && !bits.contains(65) && !bits.contains(1000));
        assert_eq!(
            [0, 1, 64, 65, 129, 130, 1000].map(|from| bits.first_from(from)),
            [Some(0), Some(64), Some(64), Some(129), Some(129), None, None]
        );
    }
}
