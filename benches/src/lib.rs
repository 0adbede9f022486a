//! Benchmarks of Egret: what it costs, beside the least that the same physical work costs on the same machine.
//!
//! * [`floors`]: the least code that does the same work, without Egret.
//! * [`program`]: the topology that most suites run; [`run`]: runs one as a user would, and measures it from outside.
//! * [`suites`]: what is measured, and against what; [`sample`]: several times, in turn with its floor.
//! * [`tree`]: what a running topology uses.
//! * [`report`]: results as a table and as JSON, and two of them compared; [`latency`]: percentiles as files and as a plot.
//! * [`paths`]: the hot paths, each alone in one thread; [`instructions`]: how many instructions they take.
//! * [`cli`]: the command `egret-bench`.
//!
//! See `docs/benchmarks.md`.

pub mod cli;
pub mod clock;
pub mod floors;
pub mod instructions;
pub mod latency;
pub mod paths;
pub mod program;
pub mod report;
pub mod run;
pub mod sample;
pub mod suites;
pub mod tree;
