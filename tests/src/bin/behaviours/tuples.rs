//! The tuple types of all cases.

use egret::Tuple;

/// A word.
#[derive(Tuple)]
pub(crate) struct Word<'a> {
    pub(crate) word: &'a str,
}

/// A word and how often it was there.
#[derive(Tuple)]
pub(crate) struct WordCount<'a> {
    pub(crate) word: &'a str,
    pub(crate) count: u64,
}

/// A number.
#[derive(Tuple)]
pub(crate) struct Number {
    pub(crate) n: u64,
}

/// Two numbers that belong together.
#[derive(Tuple)]
pub(crate) struct Pair {
    pub(crate) left: u64,
    pub(crate) right: u64,
}

/// A number under a key.
#[derive(Tuple)]
pub(crate) struct Keyed {
    pub(crate) key: u64,
    pub(crate) n: u64,
}

/// Bytes.
#[derive(Tuple)]
pub(crate) struct Blob<'a> {
    pub(crate) bytes: &'a [u8],
}

/// Something to group by, in three types, and a name for what should count as one key.
#[derive(Tuple, Clone, Copy)]
pub(crate) struct Key<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
    pub(crate) whole: i64,
    pub(crate) float: f64,
}
