//! The word-count loop: draw a word, look it up, count it.

use super::{Stage, run_stages};
use crate::sample::Cost;
use anyhow::Result;
use egret_dataplane::ids::ContainerId;
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::process::Stdio;

/// Distinct words.
pub const DICTIONARY: u64 = 450_000;
/// Slots of the table: a power of two, at most half full.
const SLOTS: usize = 1 << 20;
const CONSONANTS: &[u8; 16] = b"bcdfghjklmnprstv";
const VOWELS: &[u8; 4] = b"aeio";

/// A word of at most 15 bytes and its length, as one number. It is put together in registers: bytes that are written
/// one by one and read back as a whole are not forwarded from the store buffer, so that each word would wait until the
/// count before it is in the table, which is a cache miss.
type Key = u128;

/// How words are looked up.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Lookups {
    /// Each when it is drawn, as the plain loop does.
    Alone,
    /// Several at a time, as the bolt `count` does: each cache miss does not wait for the one before.
    Together,
}

/// Words that are looked up [together](Lookups::Together).
const AT_A_TIME: usize = 16;

/// Runs [`count`] in a process of its own, pinned by `policy`.
///
/// # Errors
/// When it cannot be started or fails.
pub fn measure(words: u64, lookups: Lookups, policy: &str) -> Result<Cost> {
    run_stages(policy, vec![(Stage::Words(words, lookups), ContainerId(1), Stdio::null())])
}

/// Counts `count` words drawn at random out of [`DICTIONARY`], and says how many distinct ones came.
#[must_use]
pub fn count(count: u64, lookups: Lookups) -> usize {
    let mut table: Vec<Slot> = vec![([0; 2], 0); SLOTS];
    let mut draw = Draw { state: 1 };
    match lookups {
        Lookups::Alone => (0..count).for_each(|_| add(&mut table, draw.key())),
        Lookups::Together => {
            let (mut left, mut drawn) = (count, Vec::with_capacity(AT_A_TIME));
            while left > 0 {
                drawn.clear();
                drawn.extend((0..left.min(AT_A_TIME as u64)).map(|_| draw.key()));
                left -= drawn.len() as u64;
                black_box(drawn.iter().fold(0, |all, key| all ^ table[place(*key)].1));
                drawn.iter().for_each(|key| add(&mut table, *key));
            }
        }
    }
    table.iter().filter(|(_, n)| *n > 0).count()
}

/// The halves of a key and how often it came: 24 bytes, of which a u128 would make 32.
type Slot = ([u64; 2], u64);

#[inline]
fn add(table: &mut [Slot], key: Key) {
    let halves = [key as u64, (key >> 64) as u64];
    let mut at = place(key);
    while table[at].0 != halves && table[at].1 != 0 {
        at = (at + 1) & (SLOTS - 1);
    }
    table[at].0 = halves;
    table[at].1 += 1;
}

#[inline]
fn place(key: Key) -> usize {
    hash(key) as usize & (SLOTS - 1)
}

/// Draws words.
struct Draw {
    state: u64,
}

impl Draw {
    #[inline]
    fn key(&mut self) -> Key {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let drawn = (u128::from(self.state ^ self.state >> 33) * u128::from(DICTIONARY)) >> 64;
        word(drawn as u64)
    }
}

/// The word of a number, a consonant and a vowel for each six bits of it, and in the last byte its length.
#[inline]
fn word(mut number: u64) -> Key {
    let (mut key, mut len) = (0, 0);
    loop {
        let consonant = Key::from(CONSONANTS[(number & 15) as usize]);
        let vowel = Key::from(VOWELS[(number >> 4 & 3) as usize]);
        key |= (consonant | vowel << 8) << (8 * len);
        len += 2;
        number >>= 6;
        if number == 0 || len > 13 {
            return key | len << 120;
        }
    }
}

/// One multiplication of the halves, folded (as in wyhash).
#[inline]
fn hash(key: Key) -> u64 {
    let product = u128::from(key as u64 ^ 0x9E37_79B9_7F4A_7C15)
        * u128::from((key >> 64) as u64 ^ 0xBF58_476D_1CE4_E5B9);
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_number_has_a_word_of_its_own() {
        let words: HashSet<_> = (0..DICTIONARY).map(word).collect();
        assert_eq!(words.len() as u64, DICTIONARY);
    }

    #[test]
    fn a_word_is_its_letters_and_its_length() {
        assert_eq!(word(0).to_le_bytes(), *b"ba\0\0\0\0\0\0\0\0\0\0\0\0\0\x02");
        assert_eq!(word(1 << 6 | 0b10_0001).to_le_bytes(), *b"cica\0\0\0\0\0\0\0\0\0\0\0\x04");
    }

    #[test]
    fn nearly_all_words_come_up() {
        let distinct = count(5_000_000, Lookups::Alone);
        assert!((DICTIONARY as usize * 99 / 100..=DICTIONARY as usize).contains(&distinct), "{distinct}");
        assert_eq!(count(5_000_000, Lookups::Together), distinct);
    }
}
