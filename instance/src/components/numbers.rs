//! The numbers that a task of a spout emits: new ones when they are due, and those that failed before them.

use super::args::Args;
use super::pace::{Pace, Turn};
use super::progress::{Progress, Start};
use crate::collector::{Acked, Payload, SpoutEmission};
use crate::{Context, Next, Result};
use egret_dataplane::host;

/// How many numbers there are for all tasks, and how fast.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Range {
    /// Without it they never end.
    pub(super) count: Option<u64>,
    /// Per second; without it as fast as possible.
    pub(super) rate: Option<f64>,
}

/// A task's numbers.
pub(super) struct Numbers {
    pace: Pace,
    progress: Progress<u64>,
}

/// What a task does now.
pub(super) enum Step {
    /// Emits this number.
    Emit(u64),
    /// Nothing.
    Rest(Next),
}

impl Range {
    /// From the arguments `count` and `rate`.
    pub(super) fn from_args(args: &Args) -> Self {
        Self { count: args.number("count"), rate: args.rate("rate") }
    }
}

impl Numbers {
    /// The share of a task. `kind` says what the numbers are for, so that a successor goes on with the same.
    pub(super) fn open(context: &Context, kind: &str, range: Range) -> Result<Self> {
        let (index, tasks) = (context.index(), context.parallelism());
        let kind = format!("{kind}, {:?} numbers, task {index} of {tasks}", range.count);
        let (progress, start) = Progress::open(context, &kind, 0, || Ok(Vec::new()))?;
        let Start { place, resumed, .. } = start;
        if resumed {
            tracing::info!("going on with number {place}");
        }
        Ok(Self { pace: Pace::new(range, index, tasks).starting_at(place), progress })
    }

    #[inline(always)]
    pub(super) fn next(&mut self) -> Result<Step> {
        if let Some(number) = self.progress.next_failed() {
            return Ok(Step::Emit(number));
        }
        match self.pace.turn(host::now) {
            Turn::Number(number) => {
                self.progress.begin(number)?;
                Ok(Step::Emit(number))
            }
            Turn::Wait(time) => {
                self.progress.rest(self.pace.next(), false);
                Ok(Step::Rest(Next::Wait(time)))
            }
            Turn::Done => {
                self.progress.rest(self.pace.next(), true);
                Ok(Step::Rest(Next::Exhausted))
            }
        }
    }

    /// Emits what was made of a number.
    #[inline]
    pub(super) fn emit(
        &mut self,
        emission: SpoutEmission<'_, u64, impl Payload>,
        number: u64,
    ) -> Result<Next> {
        self.progress.emit(emission, number)?;
        Ok(Next::Emitted)
    }

    pub(super) fn ack(&mut self, id: u64) {
        self.progress.ack(id);
    }

    #[inline]
    pub(super) fn ack_all(&mut self, ids: &mut Acked<'_, u64>) {
        self.progress.ack_all(ids);
    }

    pub(super) fn fail(&mut self, id: u64) {
        self.progress.fail(id);
    }

    pub(super) fn close(&mut self) {
        self.progress.close(self.pace.next());
    }
}
