//! A spout task's ledger, with the clock that it has not, and what is received for it.

use crate::ledger::{Ledger, Limits, SharedLedger};
use egret_dataplane::frame::{AckKind, AckReader, BatchReader, Malformed, Owner};
use egret_dataplane::host;
use egret_dataplane::ids::{Incarnation, TaskId};
use egret_dataplane::mutants::{self, Mutant};
use egret_dataplane::plan::{Config, config};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The roots of one process of a spout task.
#[derive(Clone)]
pub(crate) struct Roots {
    owner: Owner,
    pub(crate) ledger: SharedLedger,
    start: Instant,
}

impl Roots {
    pub(crate) fn new(task: TaskId, incarnation: Incarnation, config: &Config) -> Self {
        let limits = Limits {
            max_pending: config.number(config::MAX_SPOUT_PENDING) as u32
                + u32::from(mutants::is(Mutant::PendingIgnored)),
            timeout_us: config.number(config::MESSAGE_TIMEOUT_SECS) * 1_000_000,
        };
        let ledger = Rc::new(RefCell::new(Ledger::new(limits)));
        Self { owner: Owner::new(task, incarnation), ledger, start: host::now() }
    }

    fn us(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.start).as_micros() as u64
    }

    /// A turn is over, or the task is about to wait.
    #[inline]
    pub(crate) fn turn(&self, now: Instant) {
        self.ledger.borrow_mut().turn(self.us(now));
    }

    /// Closes what took too long. To be called when acks that have come are applied: if this task was away for long they have
    /// only waited for it.
    #[inline]
    pub(crate) fn expire(&self, now: Instant) {
        self.ledger.borrow_mut().expire(self.us(now));
    }

    /// How long the task may wait before the next [`turn`](Self::turn).
    pub(crate) fn until_look(&self, now: Instant) -> Option<Duration> {
        let next_us = self.ledger.borrow().next_look_us()?;
        Some(Duration::from_micros(next_us.saturating_sub(self.us(now))))
    }

    /// Applies a block of acks or fails. What is for an earlier process of the task is left out.
    pub(crate) fn apply(&self, bytes: &[u8]) -> Result<(), Malformed> {
        let reader = AckReader::new(bytes)?;
        let header = reader.header();
        if header.owner != self.owner {
            return Ok(());
        }
        let mut ledger = self.ledger.borrow_mut();
        ledger.set_now(self.us(host::now()));
        match header.kind {
            AckKind::Ack => reader.records().for_each(|record| ledger.ack_all(record)),
            AckKind::Fail => {
                assert!(!mutants::is(Mutant::PanicsAtFails), "a planted panic");
                reader.records().for_each(|record| ledger.fail_all_of(record));
            }
        }
        Ok(())
    }

    /// Nobody will execute this block of tuples: fails those of its roots that are this process's.
    pub(crate) fn lost(&self, bytes: &[u8]) -> Result<(), Malformed> {
        let mut ledger = self.ledger.borrow_mut();
        for tuple in BatchReader::new(bytes)?.tuples() {
            for root in tuple?.roots.iter() {
                if root.owner == self.owner {
                    ledger.fail(root.id);
                }
            }
        }
        Ok(())
    }
}
