//! Benchmarks of Egret.
//!
//! `cargo run --release -p egret-benches --bin cost` prints the CPU time that a tuple costs end to end, measured from
//! outside: the user and system time of every process of the topology, as the kernel accounts it.

pub mod run;
