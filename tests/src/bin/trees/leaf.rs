//! Trees that spread.

use crate::Item;
use egret::{Bolt, BoltCollector, Context, Input, Result};
use egret_tests::clock::now_us;
use egret_tests::records::Recorder;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Emits each tuple many times.
pub(crate) struct FanOut {
    pub(crate) into: u64,
}

impl Bolt for FanOut {
    fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> Result<()> {
        let item = input.get::<Item>()?;
        for _ in 0..self.into {
            out.emit(&item).anchor(input)?;
        }
        out.ack(input)
    }
}

/// Writes, at the end, `NUMBER COUNT LAST_US` for each number: how often it came, and when it did last.
pub(crate) struct Leaf {
    folder: PathBuf,
    record: Option<Recorder>,
    came: BTreeMap<u64, (u64, u64)>,
}

impl Leaf {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, record: None, came: BTreeMap::new() }
    }
}

impl Bolt for Leaf {
    fn prepare(&mut self, context: &Context) -> Result<()> {
        self.record = Some(crate::recorder(&self.folder, context)?);
        Ok(())
    }

    fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> Result<()> {
        let came = self.came.entry(input.get::<Item>()?.n).or_default();
        *came = (came.0 + 1, now_us());
        out.ack(input)
    }

    fn finish(&mut self, _: &mut BoltCollector) -> Result<()> {
        for (n, (count, last_us)) in &self.came {
            if let Some(record) = &mut self.record {
                record.write(format_args!("{n} {count} {last_us}"))?;
            }
        }
        Ok(())
    }
}
