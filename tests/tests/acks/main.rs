//! At-least-once: what becomes of every tuple tree, as its spout sees it.
//!
//! Each case runs in one container and in three unless it says otherwise. Times are those that the spout itself measures.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod account;
mod overload;
mod pending;
mod replay;
mod restart;
mod routing;
mod times;
mod trees;
