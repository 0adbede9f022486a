//! The stable hash of a key, and the task it belongs to. The one place where both are computed.
//!
//! Each field is brought into a canonical form of bytes and hashed by xxh3 with the hash of the fields before it as
//! seed, so the order of the fields matters and no two neighbours run into each other:
//!
//! * integers and `bool` count by their value, whatever their width: 8 bytes, two's complement, little-endian;
//! * floats count as `f64`, little-endian, where -0.0 is 0.0 and every NaN is the same quiet NaN;
//! * strings and bytes are their bytes.
//!
//! The result depends on nothing else: not on the process, the container, the build or the processor. The golden
//! file `instance/tests/golden/key-hashes.tsv` holds 10,000 keys to it.

use super::Value;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Hashes the fields of a key one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyHasher {
    state: u64,
}

impl KeyHasher {
    /// The hasher before the first field.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next field.
    #[inline]
    pub fn update(&mut self, value: Value<'_>) {
        self.state = match value {
            Value::Str(text) => xxh3_64_with_seed(text.as_bytes(), self.state),
            Value::Bytes(bytes) => xxh3_64_with_seed(bytes, self.state),
            Value::Bool(n) => self.number(n.into()),
            Value::U8(n) => self.number(n.into()),
            Value::U16(n) => self.number(n.into()),
            Value::U32(n) => self.number(n.into()),
            Value::U64(n) => self.number(n),
            Value::I8(n) => self.number(i64::from(n).cast_unsigned()),
            Value::I16(n) => self.number(i64::from(n).cast_unsigned()),
            Value::I32(n) => self.number(i64::from(n).cast_unsigned()),
            Value::I64(n) => self.number(n.cast_unsigned()),
            Value::F32(x) => self.number(canonical_bits(x.into())),
            Value::F64(x) => self.number(canonical_bits(x)),
        };
    }

    #[inline]
    fn number(self, n: u64) -> u64 {
        xxh3_64_with_seed(&n.to_le_bytes(), self.state)
    }

    /// The hash of the fields so far.
    #[inline]
    #[must_use]
    pub fn finish(self) -> u64 {
        self.state
    }
}

fn canonical_bits(x: f64) -> u64 {
    if x.is_nan() {
        0x7ff8_0000_0000_0000
    } else if x == 0.0 {
        0
    } else {
        x.to_bits()
    }
}

/// Maps a hash to one of `count` tasks: the high half of the product, which uses the hash's high bits and is always
/// less than `count`. For `count` 0 it is 0.
#[inline]
#[must_use]
pub fn task_index(hash: u64, count: usize) -> usize {
    ((u128::from(hash) * count as u128) >> 64) as usize
}
