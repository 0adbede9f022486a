//! A hash table from keys (short byte strings) to counts, built for counting words: a step per tuple, little memory.
//!
//! ```text
//! slot, 24 bytes:  word 0          word 1                        count
//!   free           0               0                             0
//!   key <= 15 B    bytes 0..8      bytes 8..15 | (len+1) << 56   u64
//!   longer key     its hash        offset in arena | 0xff << 56  u64
//! arena: len u32, bytes; one after the other
//! ```
//! A short key is compared by its two words without following a pointer. Open addressing with linear probing, at most
//! three quarters full. The hash is seeded per process, so nobody can prepare keys that collide.

use foldhash::fast::RandomState;
use std::hash::{BuildHasher, Hasher};

const INLINE: usize = 15;
const LONG: u64 = 0xff << 56;
const OFFSET: u64 = (1 << 56) - 1;
const FIRST_CAPACITY: usize = 1 << 10;
/// As many cache misses at a time as a processor has under way.
const NOTES: usize = 16;

#[derive(Clone, Copy, Default)]
struct Slot {
    key: [u64; 2],
    count: u64,
}

/// Counts by key.
pub(super) struct KeyTable {
    slots: Vec<Slot>,
    used: usize,
    arena: Vec<u8>,
    hashing: RandomState,
    /// Short keys that are [noted](Self::note), with their hashes.
    noted: [([u64; 2], u64); NOTES],
    /// How many.
    notes: usize,
}

impl Default for KeyTable {
    fn default() -> Self {
        let slots = vec![Slot::default(); FIRST_CAPACITY];
        let hashing = RandomState::default();
        Self { slots, used: 0, arena: Vec::new(), hashing, noted: [([0; 2], 0); NOTES], notes: 0 }
    }
}

impl KeyTable {
    /// Adds one to the count of `key` and returns it; not to be mixed with [`note`](Self::note).
    pub(super) fn increment(&mut self, key: &[u8]) -> u64 {
        debug_assert_eq!(self.notes, 0, "their counts are not the table's yet");
        if key.len() > INLINE {
            return self.increment_long(key);
        }
        let key = pack(key);
        self.increment_short(key, self.hash_short(key))
    }

    /// Adds one to the count of `key`, which may be done later: together with others it takes half as long where the table
    /// is larger than the processor's caches.
    #[inline]
    pub(super) fn note(&mut self, key: &[u8]) {
        if key.len() > INLINE {
            self.increment_long(key);
            return;
        }
        let key = pack(key);
        self.noted[self.notes] = (key, self.hash_short(key));
        self.notes += 1;
        if self.notes == NOTES {
            self.count_noted();
        }
    }

    #[inline(never)]
    fn count_noted(&mut self) {
        let (noted, notes) = (self.noted, std::mem::take(&mut self.notes));
        let noted = noted.iter().take(notes);
        // Each slot is asked for before any is looked at, so that one cache miss does not wait for the one before. Its two ends
        // may be in two cache lines.
        let asked = noted.clone().fold(0, |all, (_, hash)| {
            let slot = &self.slots[*hash as usize & self.mask()];
            all ^ slot.key[0] ^ slot.count
        });
        std::hint::black_box(asked);
        for &(key, hash) in noted {
            self.increment_short(key, hash);
        }
    }

    /// Calls `visit` with each key and its count, in no particular order, until it fails.
    pub(super) fn try_for_each<E>(
        &mut self,
        mut visit: impl FnMut(&[u8], u64) -> Result<(), E>,
    ) -> Result<(), E> {
        self.count_noted();
        for slot in self.slots.iter().filter(|slot| slot.count > 0) {
            if slot.key[1] & LONG == LONG {
                visit(arena_key(&self.arena, slot.key[1]), slot.count)?;
            } else {
                let mut bytes = [0; 16];
                bytes[..8].copy_from_slice(&slot.key[0].to_le_bytes());
                bytes[8..].copy_from_slice(&slot.key[1].to_le_bytes());
                let len = usize::from(bytes[INLINE]) - 1;
                visit(&bytes[..len], slot.count)?;
            }
        }
        Ok(())
    }

    fn increment_short(&mut self, key: [u64; 2], hash: u64) -> u64 {
        let mut at = hash as usize & self.mask();
        loop {
            let slot = &mut self.slots[at];
            if slot.key == key {
                slot.count += 1;
                return slot.count;
            }
            if slot.count == 0 {
                return self.insert(at, key);
            }
            at = (at + 1) & self.mask();
        }
    }

    fn increment_long(&mut self, key: &[u8]) -> u64 {
        let mut hasher = self.hashing.build_hasher();
        hasher.write(key);
        let hash = hasher.finish();
        let mut at = hash as usize & self.mask();
        loop {
            let slot = &mut self.slots[at];
            let same_hash = slot.key[0] == hash && slot.key[1] & LONG == LONG;
            if same_hash && arena_key(&self.arena, slot.key[1]) == key {
                slot.count += 1;
                return slot.count;
            }
            if slot.count == 0 {
                let offset = self.arena.len() as u64;
                self.arena.extend_from_slice(&(key.len() as u32).to_le_bytes());
                self.arena.extend_from_slice(key);
                return self.insert(at, [hash, offset | LONG]);
            }
            at = (at + 1) & self.mask();
        }
    }

    fn insert(&mut self, at: usize, key: [u64; 2]) -> u64 {
        self.slots[at] = Slot { key, count: 1 };
        self.used += 1;
        if self.used * 4 > self.slots.len() * 3 {
            self.grow();
        }
        1
    }

    fn grow(&mut self) {
        let bigger = vec![Slot::default(); self.slots.len() * 2];
        let old = std::mem::replace(&mut self.slots, bigger);
        for slot in old.into_iter().filter(|slot| slot.count > 0) {
            let hash = if slot.key[1] & LONG == LONG { slot.key[0] } else { self.hash_short(slot.key) };
            let mut at = hash as usize & self.mask();
            while self.slots[at].count > 0 {
                at = (at + 1) & self.mask();
            }
            self.slots[at] = slot;
        }
    }

    fn hash_short(&self, key: [u64; 2]) -> u64 {
        let mut hasher = self.hashing.build_hasher();
        hasher.write_u64(key[0]);
        hasher.write_u64(key[1]);
        hasher.finish()
    }

    fn mask(&self) -> usize {
        self.slots.len() - 1
    }
}

fn arena_key(arena: &[u8], word: u64) -> &[u8] {
    let at = (word & OFFSET) as usize;
    let len = word_at::<4>(arena, at) as usize;
    &arena[at + 4..at + 4 + len]
}

/// A key of at most 15 bytes as two words, read with as few loads as its length allows.
fn pack(key: &[u8]) -> [u64; 2] {
    let len = key.len();
    let (low, high) = match len {
        0 => (0, 0),
        1..4 => {
            let byte = |at: usize| u64::from(key[at]) << (8 * at);
            (byte(0) | byte(len / 2) | byte(len - 1), 0)
        }
        4..8 => (word_at::<4>(key, 0) | word_at::<4>(key, len - 4) << (8 * (len - 4)), 0),
        8 => (word_at::<8>(key, 0), 0),
        _ => (word_at::<8>(key, 0), word_at::<8>(key, len - 8) >> (8 * (16 - len))),
    };
    [low, high | (len as u64 + 1) << 56]
}

/// `N` bytes from `at`, little endian.
fn word_at<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word[..N].copy_from_slice(&bytes[at..at + N]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn contents(table: &mut KeyTable) -> HashMap<Vec<u8>, u64> {
        let mut found = HashMap::new();
        let visited: Result<(), ()> = table.try_for_each(|key, count| {
            assert!(found.insert(key.to_vec(), count).is_none(), "a key came twice");
            Ok(())
        });
        visited.unwrap();
        found
    }

    proptest! {
        #[test]
        fn counts_as_a_plain_map_does(keys in prop::collection::vec(prop::collection::vec(0_u8..3, 0..20), 0..3000)) {
            let mut table = KeyTable::default();
            let mut oracle = HashMap::new();
            for key in &keys {
                let expected = oracle.entry(key.clone()).or_insert(0);
                *expected += 1;
                prop_assert_eq!(table.increment(key), *expected);
            }

            prop_assert_eq!(contents(&mut table), oracle);
        }
    }

    proptest! {
        #[test]
        fn what_is_noted_is_counted(keys in prop::collection::vec(prop::collection::vec(0_u8..3, 0..20), 0..3000)) {
            let mut table = KeyTable::default();
            let mut oracle = HashMap::new();
            for key in &keys {
                *oracle.entry(key.clone()).or_insert(0) += 1;
                table.note(key);
            }
            prop_assert_eq!(contents(&mut table), oracle);
        }
    }

    #[test]
    fn keys_of_every_length_differ_and_come_back() {
        let mut table = KeyTable::default();
        let keys: Vec<Vec<u8>> = (0..40).map(|len| (0..len).map(|i| i as u8 ^ 0xa5).collect()).collect();
        for key in &keys {
            assert_eq!(table.increment(key), 1);
        }
        // Zeroes at the end are part of the key.
        assert_eq!((table.increment(&[0]), table.increment(&[0, 0]), table.increment(&[0; 15])), (1, 1, 1));
        let found = contents(&mut table);
        assert!(keys.iter().all(|key| found[key] == 1));
    }

    #[test]
    fn it_grows() {
        let mut table = KeyTable::default();
        for round in 1..=2 {
            for i in 0..20_000_u64 {
                assert_eq!(table.increment(&i.to_le_bytes()), round);
            }
        }
        assert_eq!(contents(&mut table).len(), 20_000);
    }

    #[test]
    fn a_failing_visitor_stops() {
        let mut table = KeyTable::default();
        table.increment(b"a");
        table.increment(b"b");
        let mut seen = 0;
        assert_eq!(
            table.try_for_each(|_, _| {
                seen += 1;
                Err("stop")
            }),
            Err("stop")
        );
        assert_eq!(seen, 1);
    }
}
