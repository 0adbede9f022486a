//! The stable key hash and the task it names: BR-022, BR-025 and hazard 2 of the public reports.
//!
//! `tests/golden/key-hashes.tsv` holds 10,000 keys with their hashes. The hash must never change: a topology that
//! restarts, or a peer of another build, would send a key to another task. To make the file anew after a change
//! that is meant (and is then a change of protocol version), run
//!
//! ```sh
//! EGRET_GOLDEN=write cargo test -p egret --test api keys
//! ```

use egret::Value;
use egret::tuple::{KeyHasher, task_index};
use std::fmt::Write;
use std::path::PathBuf;

/// A value that owns what it refers to, as the golden file spells it.
#[derive(Clone, Debug)]
enum Key {
    Bool(bool),
    U8(u8),
    U64(u64),
    I32(i32),
    I64(i64),
    F32(f32),
    F64(f64),
    Str(String),
    Bytes(Vec<u8>),
}

impl Key {
    fn value(&self) -> Value<'_> {
        match self {
            Self::Bool(v) => Value::Bool(*v),
            Self::U8(v) => Value::U8(*v),
            Self::U64(v) => Value::U64(*v),
            Self::I32(v) => Value::I32(*v),
            Self::I64(v) => Value::I64(*v),
            Self::F32(v) => Value::F32(*v),
            Self::F64(v) => Value::F64(*v),
            Self::Str(v) => Value::Str(v),
            Self::Bytes(v) => Value::Bytes(v),
        }
    }

    /// `kind:value`; floats by their bits, strings and bytes in hexadecimal.
    fn spell(&self) -> String {
        let hex = |bytes: &[u8]| Value::Bytes(bytes).to_string();
        match self {
            Self::Bool(v) => format!("bool:{v}"),
            Self::U8(v) => format!("u8:{v}"),
            Self::U64(v) => format!("u64:{v}"),
            Self::I32(v) => format!("i32:{v}"),
            Self::I64(v) => format!("i64:{v}"),
            Self::F32(v) => format!("f32:{:08x}", v.to_bits()),
            Self::F64(v) => format!("f64:{:016x}", v.to_bits()),
            Self::Str(v) => format!("str:{}", hex(v.as_bytes())),
            Self::Bytes(v) => format!("bytes:{}", hex(v)),
        }
    }

    fn parse(text: &str) -> Self {
        let (kind, value) = text.split_once(':').unwrap();
        let unhex =
            || (0..value.len() / 2).map(|i| u8::from_str_radix(&value[2 * i..2 * i + 2], 16).unwrap());
        match kind {
            "bool" => Self::Bool(value.parse().unwrap()),
            "u8" => Self::U8(value.parse().unwrap()),
            "u64" => Self::U64(value.parse().unwrap()),
            "i32" => Self::I32(value.parse().unwrap()),
            "i64" => Self::I64(value.parse().unwrap()),
            "f32" => Self::F32(f32::from_bits(u32::from_str_radix(value, 16).unwrap())),
            "f64" => Self::F64(f64::from_bits(u64::from_str_radix(value, 16).unwrap())),
            "str" => Self::Str(String::from_utf8(unhex().collect()).unwrap()),
            "bytes" => Self::Bytes(unhex().collect()),
            other => panic!("unknown kind {other}"),
        }
    }
}

fn hash(keys: &[Key]) -> u64 {
    let mut hasher = KeyHasher::new();
    keys.iter().for_each(|key| hasher.update(key.value()));
    hasher.finish()
}

/// 10,000 keys: the awkward ones first, then a mixture that a plain generator makes.
fn golden_keys() -> Vec<Vec<Key>> {
    let mut keys: Vec<Vec<Key>> = vec![
        vec![Key::Str(String::new())],
        vec![Key::I64(i64::MIN)],
        vec![Key::I64(-1)],
        vec![Key::U64(u64::MAX)],
        vec![Key::F64(0.0)],
        vec![Key::F64(-0.0)],
        vec![Key::F64(f64::NAN)],
        vec![Key::F32(f32::from_bits(0xffc0_0001))],
        vec![Key::F64(f64::NEG_INFINITY)],
        vec![Key::Bool(false)],
        vec![Key::Bytes(Vec::new())],
        vec![Key::Str("a".into()), Key::Str("b".into())],
        vec![Key::Str("b".into()), Key::Str("a".into())],
        vec![Key::Str("héron 🐦".into()), Key::I32(i32::MIN), Key::U8(255)],
    ];
    let mut state = 0x0123_4567_89ab_cdef_u64;
    let mut next = move || {
        // SplitMix64, so that the file does not hang on a generator of some library.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    while keys.len() < 10_000 {
        let n = next();
        keys.push(match keys.len() % 6 {
            0 => vec![Key::Str(format!("word-{}", n % 1_000_000))],
            1 => vec![Key::Str("x".repeat((n % 40) as usize))],
            2 => vec![Key::I64(n.cast_signed())],
            3 => vec![Key::F64(f64::from_bits(n))],
            4 => vec![Key::Bytes(n.to_be_bytes()[..(n % 9) as usize].to_vec())],
            _ => vec![Key::Str(format!("{:x}", n >> 40)), Key::U64(n & 0xff)],
        });
    }
    keys
}

fn golden_path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/key-hashes.tsv")
}

#[test]
fn golden_file_holds() {
    if std::env::var("EGRET_GOLDEN").as_deref() == Ok("write") {
        let mut text = String::new();
        for keys in golden_keys() {
            let spelled: Vec<_> = keys.iter().map(Key::spell).collect();
            writeln!(text, "{}\t{:016x}", spelled.join(" "), hash(&keys)).unwrap();
        }
        std::fs::write(golden_path(), text).unwrap();
    }
    let text = std::fs::read_to_string(golden_path()).unwrap();
    let mut lines = 0;
    for line in text.lines() {
        let (keys, expected) = line.split_once('\t').unwrap();
        let keys: Vec<_> = keys.split(' ').map(Key::parse).collect();
        assert_eq!(format!("{:016x}", hash(&keys)), expected, "{line}");
        lines += 1;
    }
    assert_eq!(lines, 10_000);
}

/// BR-022: the index is in range whatever the hash, and each key has one.
#[test]
fn indices_are_always_in_range() {
    for count in [1, 2, 3, 7, 10_000] {
        for hash in [0, 1, u64::MAX, 1 << 63, (1 << 63) - 1] {
            assert!(task_index(hash, count) < count, "{hash:x} of {count}");
        }
        for keys in golden_keys() {
            assert!(task_index(hash(&keys), count) < count);
        }
    }
}

/// BR-022: all zeros are one key, and all NaNs are one key.
#[test]
fn floats_that_are_equal_are_one_key() {
    assert_eq!(hash(&[Key::F64(0.0)]), hash(&[Key::F64(-0.0)]));
    assert_eq!(hash(&[Key::F32(-0.0)]), hash(&[Key::F64(0.0)]));
    let nans = [f64::NAN.to_bits(), f64::NAN.to_bits() | 1 << 63, 0x7ff0_0000_0000_0001, u64::MAX];
    for bits in nans {
        assert_eq!(hash(&[Key::F64(f64::from_bits(bits))]), hash(&[Key::F32(f32::NAN)]));
    }
    assert_ne!(hash(&[Key::F64(f64::NAN)]), hash(&[Key::F64(0.0)]));
}

/// The width of an integer is not part of the key, so streams may differ in it.
#[test]
fn integers_count_by_their_value() {
    assert_eq!(hash(&[Key::U8(200)]), hash(&[Key::I64(200)]));
    assert_eq!(hash(&[Key::I32(-3)]), hash(&[Key::I64(-3)]));
}

/// Hazard 2: the order of fields matters, and neighbours do not run into each other.
#[test]
fn fields_do_not_mix() {
    let key = |parts: &[&str]| hash(&parts.iter().map(|p| Key::Str((*p).to_owned())).collect::<Vec<_>>());
    let all = [key(&["a", "b"]), key(&["b", "a"]), key(&["ab", ""]), key(&["", "ab"]), key(&["ab"])];
    for (i, one) in all.iter().enumerate() {
        assert!(all[i + 1..].iter().all(|other| other != one), "{all:x?}");
    }
    let five: Vec<_> = (0..5).map(|_| Key::I64(i64::MIN)).collect();
    assert!(task_index(hash(&five), 4) < 4);
}

#[test]
fn keys_spread_evenly() {
    let mut counts = [0_u32; 8];
    golden_keys().iter().filter(|k| k.len() == 2).for_each(|k| counts[task_index(hash(k), 8)] += 1);
    let (low, high) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(high - low < high / 2, "{counts:?}");
}
