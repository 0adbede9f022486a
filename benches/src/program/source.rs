//! The spout.

use super::{Item, Load};
use crate::clock::now_ns;
use egret::{Context, Next, Result, Spout, SpoutCollector};
use egret_dataplane::plan::config;
use std::time::Duration;

/// Emits its share of the load.
pub(super) struct Source {
    load: Load,
    payload: Vec<u8>,
    /// Tuples emitted by this task, and how many it is to emit.
    emitted: u64,
    share: u64,
    /// Nanoseconds between two tuples of this task, and the time of the first.
    interval_ns: f64,
    start_ns: u64,
    /// Tuples of this task that were due when the clock was last read.
    due: u64,
    tracked: bool,
}

impl Source {
    pub(super) fn new(load: Load, payload_bytes: usize) -> Self {
        let payload = (0..payload_bytes).map(|i| i as u8).collect();
        Self { load, payload, emitted: 0, share: 0, interval_ns: 0.0, start_ns: 0, due: 0, tracked: false }
    }

    /// The number of the next tuple or the time that it is due at, or what to answer while there is none.
    #[inline]
    fn number(&mut self) -> Result<u64, Next> {
        match self.load {
            Load::Count(_) if self.emitted < self.share => Ok(self.emitted),
            Load::Paced(..) if self.emitted < self.share => self.paced(),
            Load::Idle(seconds) if now_ns() - self.start_ns < (seconds * 1e9) as u64 => Err(Next::Idle),
            _ => Err(Next::Exhausted),
        }
    }

    /// A tuple that is late keeps the time it was due at, so a stall counts for all that should have been emitted
    /// meanwhile.
    fn paced(&mut self) -> Result<u64, Next> {
        let at = |k: u64| self.start_ns + (k as f64 * self.interval_ns) as u64;
        let intended = at(self.emitted);
        if self.emitted >= self.due {
            let now = now_ns();
            if intended > now {
                return Err(Next::Wait(Duration::from_nanos(intended - now)));
            }
            self.due = ((now - self.start_ns) as f64 / self.interval_ns) as u64;
        }
        Ok(intended)
    }
}

impl Spout for Source {
    type Id = u64;

    fn open(&mut self, context: &Context) -> Result<()> {
        let tasks = u64::from(context.parallelism());
        let share = |all: u64| all / tasks + u64::from(all % tasks > u64::from(context.index()));
        match self.load {
            Load::Count(all) => self.share = share(all),
            Load::Paced(all, rate) => {
                self.share = share(all);
                self.interval_ns = 1e9 / rate * tasks as f64;
            }
            Load::Idle(_) => {}
        }
        self.tracked = context.config().is(config::RELIABILITY_MODE, "ATLEAST_ONCE");
        Ok(())
    }

    fn activate(&mut self) {
        self.start_ns = now_ns();
    }

    #[inline]
    fn next_tuple(&mut self, out: &mut SpoutCollector<u64>) -> Result<Next> {
        let n = match self.number() {
            Ok(n) => n,
            Err(next) => return Ok(next),
        };
        self.emitted += 1;
        let item = Item { n, payload: &self.payload };
        if self.tracked {
            out.emit(&item).id(n)?
        } else {
            out.emit(&item).untracked()?
        };
        Ok(Next::Emitted)
    }
}
