//! `NONE`: the user does not care, so it is done as `SHUFFLE`.

use super::Shuffle;

pub(super) fn none(count: usize, seed: u64) -> Shuffle {
    Shuffle::new(count, seed)
}
