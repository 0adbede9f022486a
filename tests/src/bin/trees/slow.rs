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

/// Takes a millisecond for each tuple, and writes `NOW_US EXECUTED DISTINCT WORKED_US` from time to time: the last is how
/// long it was executing, and not waiting for the next one.
pub(crate) struct Slow {
    folder: PathBuf,
    record: Option<Recorder>,
    executed: u64,
    distinct: HashSet<u64>,
    worked_us: u64,
    due_us: u64,
}

impl Slow {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, record: None, executed: 0, distinct: HashSet::new(), worked_us: 0, due_us: 0 }
    }
}

impl Bolt for Slow {
    fn prepare(&mut self, context: &Context) -> Result<()> {
        self.record = Some(crate::recorder(&self.folder, context)?);
        Ok(())
    }

    fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> Result<()> {
        let begun_us = now_us();
        egret_tests::let_time_pass(EACH);
        self.executed += 1;
        self.distinct.insert(input.get::<Item>()?.n);
        let now = now_us();
        self.worked_us += now - begun_us;
        if now >= self.due_us
            && let Some(record) = &mut self.record
        {
            let (executed, distinct, worked_us) = (self.executed, self.distinct.len(), self.worked_us);
            record.write(format_args!("{now} {executed} {distinct} {worked_us}"))?;
            self.due_us = now + EVERY_US;
        }
        out.ack(input)
    }
}
