//! Made-up words by number, and numbers drawn at random.

/// Consonant and vowel: what words are made of. All are two letters, so different numbers give different words.
const SYLLABLES: usize = CONSONANTS.len() * VOWELS.len();
const CONSONANTS: &[u8; 18] = b"bcdfghjklmnprstvwz";
const VOWELS: &[u8; 5] = b"aeiou";

/// Enough for any number: 90 to the tenth is above 2 to the 64th.
const LONGEST: usize = 2 * 10;

/// Writes word number `index` into `buffer`: 0 is `ba`, and the first 737,190 words have at most six letters.
pub(super) fn word(index: u64, buffer: &mut WordBuffer) -> &str {
    // `index + 1` is written in bijective base 90, in which no two numbers look alike.
    let mut rest = index;
    let mut at = LONGEST;
    while at >= 2 {
        let syllable = (rest % SYLLABLES as u64) as usize;
        rest /= SYLLABLES as u64;
        at -= 2;
        buffer.0[at] = CONSONANTS[syllable / VOWELS.len()];
        buffer.0[at + 1] = VOWELS[syllable % VOWELS.len()];
        if rest == 0 {
            break;
        }
        rest -= 1;
    }
    std::str::from_utf8(&buffer.0[at..]).unwrap_or_default()
}

/// Room for a word.
#[derive(Debug, Default)]
pub(super) struct WordBuffer([u8; LONGEST]);

/// Draw number `draw` from `0..size`: depends on nothing but `seed` and `draw`, so however many tasks share the draws,
/// together they draw the same. (Splitmix64 by Steele, Lea and Flood, asked out of order.)
pub(super) fn draw(seed: u64, draw: u64, size: u64) -> u64 {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let random = mix(mix(seed ^ GOLDEN).wrapping_add(draw.wrapping_mul(GOLDEN)));
    ((u128::from(random) * u128::from(size)) >> 64) as u64
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn words_are_distinct() {
        let words: HashSet<String> =
            (0..450_000).map(|i| word(i, &mut WordBuffer::default()).to_owned()).collect();
        assert_eq!(words.len(), 450_000);
        assert_eq!(word(0, &mut WordBuffer::default()), "ba");
        assert_eq!(word(90, &mut WordBuffer::default()), "baba");
        assert_eq!(word(737_189, &mut WordBuffer::default()), "zuzuzu");
        assert!(word(u64::MAX, &mut WordBuffer::default()).len() <= LONGEST);
    }

    #[test]
    fn draws_are_reproducible_and_spread() {
        let mut seen = vec![0_u32; 100];
        for i in 0..100_000 {
            assert_eq!(draw(7, i, 100), draw(7, i, 100));
            seen[draw(7, i, 100) as usize] += 1;
        }
        assert!(seen.iter().all(|n| (800..1200).contains(n)), "{seen:?}");
        assert_ne!(
            (0..9).map(|i| draw(1, i, 1 << 40)).collect::<Vec<_>>(),
            (0..9).map(|i| draw(2, i, 1 << 40)).collect::<Vec<_>>()
        );
        assert_eq!(draw(0, 5, 1), 0);
    }
}
