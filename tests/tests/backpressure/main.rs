//! Backpressure, with real processes: who is held for whom, that nothing else is, and what overload costs.
//!
//! A bolt is slow because its process is stopped (SIGSTOP), or because it sleeps.
//! `EGRET_TEST_OVERLOAD_S=60` overloads for a minute instead of seconds, and stops for 20 s.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod branches;
mod cases;
mod goodput;
mod limits;
mod overload;
mod support;
