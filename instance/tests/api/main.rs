//! The library's public API, without any process: tuples, keys, groupings, the emitter and the builder.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod acks;
mod builder;
mod collectors;
mod emitter;
mod keys;
mod kit;
mod trees;
mod tuples;
