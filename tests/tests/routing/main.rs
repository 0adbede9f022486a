//! What the groupings promise, from one end of a running topology to the other.
//!
//! Each case runs in one container and in three unless it says otherwise, some over epoll too, and is compared exactly.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cases;
mod keys;
mod run;
mod silence;
