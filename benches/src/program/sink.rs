//! The bolt.

use super::Item;
use crate::clock::now_ns;
use crate::floors::xor_of;
use crate::latency::Recorder;
use egret::{Bolt, BoltCollector, Error, Input, Result};
use std::path::PathBuf;

/// Reads every byte of each tuple, or logs what each tuple took.
pub(super) struct Sink {
    read: u64,
    log: Option<(PathBuf, Recorder)>,
}

impl Sink {
    pub(super) fn new(latencies: Option<PathBuf>) -> Self {
        Self { read: 0, log: latencies.map(|path| (path, Recorder::new())) }
    }
}

impl Bolt for Sink {
    #[inline]
    fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> Result<()> {
        let item = input.get::<Item<'_>>()?;
        match &mut self.log {
            None => self.read ^= item.n ^ xor_of(item.payload),
            Some((_, recorder)) => recorder.record(item.n, now_ns()),
        }
        out.ack(input)
    }

    fn finish(&mut self, _: &mut BoltCollector) -> Result<()> {
        // What was read must not be worked out for nothing, or the compiler would leave it out.
        std::hint::black_box(self.read);
        match &self.log {
            Some((path, recorder)) => recorder
                .write(path)
                .map_err(|error| Error::msg(format!("cannot write {}: {error}", path.display()))),
            None => Ok(()),
        }
    }
}
