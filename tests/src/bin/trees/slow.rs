//! A sink that is slower than its source.

use crate::Item;
use egret::{Bolt, BoltCollector, Context, Input, Result};
use egret_tests::clock::now_us;
use egret_tests::records::Recorder;
use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

const EACH: Duration = Duration::from_millis(1);
const EVERY_US: u64 = 250_000;

/// Takes a millisecond for each tuple, and writes `NOW_US EXECUTED DISTINCT` from time to time.
pub(crate) struct Slow {
    folder: PathBuf,
    record: Option<Recorder>,
    executed: u64,
    distinct: HashSet<u64>,
    due_us: u64,
}

impl Slow {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, record: None, executed: 0, distinct: HashSet::new(), due_us: 0 }
    }
}

impl Bolt for Slow {
    fn prepare(&mut self, context: &Context) -> Result<()> {
        self.record = Some(crate::recorder(&self.folder, context)?);
        Ok(())
    }

    fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> Result<()> {
        egret_tests::let_time_pass(EACH);
        self.executed += 1;
        self.distinct.insert(input.get::<Item>()?.n);
        let now = now_us();
        if now >= self.due_us
            && let Some(record) = &mut self.record
        {
            record.write(format_args!("{now} {} {}", self.executed, self.distinct.len()))?;
            self.due_us = now + EVERY_US;
        }
        out.ack(input)
    }
}
