//! Benchmarks of Egret.
