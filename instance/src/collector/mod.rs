//! Emitting and taking tuples: what user code calls, down to the blocks.
//!
//! * [`Emitter`] chooses the destinations of a tuple and writes it into the open block of each;
//! * [`SpoutCollector`], [`BoltCollector`] and [`BasicCollector`] are its faces for user code;
//! * [`Input`] is a tuple that a bolt executes; [`InputBlock`] walks a block of them; [`Held`] is one kept for later;
//! * [`Outlet`] is where blocks come from and go to: the runtime's side, or a test's.

mod ack_lanes;
mod acked;
mod anchor;
mod anchored;
mod basic;
mod bolt;
mod emission;
mod emitter;
mod error;
mod input;
mod kept;
mod lanes;
mod payload;
mod spout;
mod stream;
mod wiring;

pub use acked::Acked;
pub use anchor::{Anchor, Held, Tie};
pub use basic::BasicCollector;
pub use bolt::BoltCollector;
pub use emission::{BoltEmission, SpoutEmission};
pub use emitter::{Counters, Emitter};
pub use error::EmitError;
pub use input::{Input, InputBlock, InputError, InputTable};
pub use lanes::Outlet;
pub use payload::{Fields, Payload, Unchanged};
pub use spout::SpoutCollector;
pub use stream::StreamInfo;
pub use wiring::EmitterError;

use egret_dataplane::frame::Root;
use egret_dataplane::ids::TaskId;

/// The roots of a tuple that is emitted. A type for each case, so that it is decided before there is a tuple to write.
pub(crate) trait Rooted: Copy {
    /// All of them, if there is not one.
    fn roots(&self) -> &[Root] {
        &[]
    }

    /// The only one.
    fn only(&self) -> Option<Root> {
        None
    }

    /// The emission may have to wait from here on, and acks may come meanwhile.
    fn before_waiting(&self) {}
}

/// No tree.
#[derive(Clone, Copy)]
pub(crate) struct InNone;

/// One tree.
#[derive(Clone, Copy)]
pub(crate) struct InOne(pub(crate) Root);

/// Several.
#[derive(Clone, Copy)]
pub(crate) struct InAll<'a>(pub(crate) &'a [Root]);

impl Rooted for InNone {}

impl Rooted for InOne {
    #[inline(always)]
    fn only(&self) -> Option<Root> {
        Some(self.0)
    }
}

impl Rooted for InAll<'_> {
    #[inline(always)]
    fn roots(&self) -> &[Root] {
        self.0
    }
}

/// Where an emission goes, besides what the groupings say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Target<'a> {
    /// The stream; the default one when there is none.
    pub(crate) stream: Option<&'a str>,
    /// The task, for direct grouping.
    pub(crate) direct: Option<TaskId>,
}
