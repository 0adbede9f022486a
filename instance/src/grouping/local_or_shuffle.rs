//! `LOCAL_OR_SHUFFLE`: round robin over the tasks in the emitter's own container, or over all when there is none.

use super::Shuffle;

pub(super) fn local_or_shuffle(local: &[usize], count: usize, seed: u64) -> Shuffle {
    if local.is_empty() { Shuffle::new(count, seed) } else { Shuffle::among(local.to_vec(), seed) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn chosen(mut shuffle: Shuffle) -> BTreeSet<usize> {
        (0..20).map(|_| shuffle.choose()).collect()
    }

    #[test]
    fn stays_in_the_container_when_it_can() {
        assert_eq!(chosen(local_or_shuffle(&[1, 3], 4, 7)), BTreeSet::from([1, 3]));
        assert_eq!(chosen(local_or_shuffle(&[], 4, 7)), BTreeSet::from([0, 1, 2, 3]));
    }
}
