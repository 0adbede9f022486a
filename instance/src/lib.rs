//! Write spouts and bolts, wire them into a topology, and run it on Egret.
//!
//! A tuple type is a struct with `#[derive(Tuple)]`. A [`Spout`] brings tuples in, a [`Bolt`] or [`BasicBolt`]
//! executes them and emits others, and a [`TopologyBuilder`] says who reads whom and how the tuples are
//! spread.
//!
//! Rooms: [`mod@tuple`] writes and reads tuples; [`grouping`] chooses who gets one; [`collector`] takes it from there
//! into blocks; [`ledger`] tracks the trees of a spout; [`topology`] holds the traits and the builder; [`runtime`] is the process that runs a task;
//! [`components`] holds the built-in ones; [`yaml`] reads topologies from files.
//!
//! Nothing here packs, schedules or starts processes: that is the control plane's.

// So that code made by `#[derive(Tuple)]`, which names `::egret`, also works inside this crate.
extern crate self as egret;

pub mod collector;
pub mod components;
mod error;
pub mod grouping;
pub mod ledger;
pub mod local;
mod numbered;
pub mod runtime;
pub mod topology;
pub mod tuple;
pub mod yaml;

pub use collector::{Acked, Anchor, BasicCollector, BoltCollector, EmitError, Held, Input, SpoutCollector};
pub use egret_dataplane::ids::TaskId;
pub use egret_derive::Tuple;
pub use error::{Error, Result};
pub use grouping::Targets;
pub use local::LocalCluster;
pub use runtime::main;
pub use topology::{BasicBolt, Blueprint, Bolt, Context, Counter, Next, Spout, TopologyBuilder};
pub use tuple::{Record, Row, Tuple, TupleError, Value};

/// What `#[derive(Tuple)]` names. Not for use by hand.
#[doc(hidden)]
pub mod __private {
    pub use crate::tuple::{
        ArchiveWriter, Field, FieldView, Record, Tuple, TupleError, Value, access, archive_len, no_such_field,
    };
    pub use egret_dataplane::plan::FieldKind;
    pub use rkyv;
}

// The manual's examples are compiled and run with the other documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/topologies.md")]
struct Manual;
