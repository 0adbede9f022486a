//! Writing a topology: the traits of its components, and the builder that wires them.
//!
//! * [`Spout`], [`Bolt`] and [`BasicBolt`] are what a program implements; [`Context`] is what they learn of
//!   their task;
//! * [`TopologyBuilder`] wires them into a [`Blueprint`]: the plan's [`Topology`](egret_dataplane::plan::Topology)
//!   and a [`Factory`] for each component;
//! * a [`Runner`] is one task's component behind a type-erased face, called once per block.

mod blueprint;
mod bolt;
mod builder;
mod context;
mod handle;
mod metrics;
mod runner;
mod spout;

pub use blueprint::{Blueprint, CustomGrouping, Factory};
pub use bolt::{BasicBolt, Bolt};
pub use builder::TopologyBuilder;
pub use context::Context;
pub use handle::{BoltHandle, SpoutHandle};
pub use metrics::{Counter, Metrics};
pub use runner::{BoltRunner, Runner, SpoutRunner};
pub use spout::{Next, Spout};
