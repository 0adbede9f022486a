//! The library's public API, without any process of its own: tuples, keys, groupings, the emitter and the builder.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod acks;
mod builder;
mod collectors;
mod emitter;
mod keys;
mod kit;
mod local;
mod losses;
mod trees;
mod tuples;
