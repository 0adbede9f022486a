//! Tuples of every size up to the greatest allowed one, and beyond.

use crate::tuples::Blob;
use egret::{BasicBolt, BasicCollector, Context, Input, Next, Record as _, Result, Spout, SpoutCollector};
use egret_tests::records::Recorder;
use std::path::PathBuf;

/// A byte that tells its place and its tuple's length.
fn byte(len: usize, index: usize) -> u8 {
    (index.wrapping_mul(31) ^ index >> 8 ^ len) as u8
}

fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|index| byte(len, index)).collect()
}

/// Emits payloads of these sizes in turn, several rounds, and writes down what is refused.
pub(crate) struct LargeSpout {
    pub(crate) folder: PathBuf,
    pub(crate) record: Option<Recorder>,
    pub(crate) left: Vec<usize>,
}

const ROUNDS: usize = 3;

impl Spout for LargeSpout {
    type Id = usize;

    fn open(&mut self, context: &Context) -> Result<()> {
        let greatest = context.config().number("egret.tuple.max.bytes") as usize;
        // The archive of a byte field is the bytes and a fixed root; the search finds how large the payload may be.
        let fits = |len: &usize| Blob { bytes: &vec![0; *len] }.encoded_len() <= greatest;
        let exact = (greatest - 64..=greatest).rev().find(fits).unwrap_or_default();
        let round = [1, 64 << 10, 1 << 20, exact, exact + 1, 100 << 20, 0];
        self.left = round.into_iter().cycle().take(round.len() * ROUNDS).collect();
        let mut record = crate::recorder(&self.folder, context)?;
        record.write(format!("exact {exact} encoded {}", Blob { bytes: &vec![0; exact] }.encoded_len()))?;
        self.record = Some(record);
        Ok(())
    }

    fn next_tuple(&mut self, out: &mut SpoutCollector<usize>) -> Result<Next> {
        let Some(len) = self.left.pop() else { return Ok(Next::Exhausted) };
        let sent = out.emit(&Blob { bytes: &payload(len) }).id(len);
        if let (Err(error), Some(record)) = (sent, &mut self.record) {
            record.write(format!("refused {len}: {error}"))?;
        }
        Ok(Next::Emitted)
    }
}

/// Writes down the length of each payload and whether every byte is right.
pub(crate) struct CheckBytes {
    pub(crate) folder: PathBuf,
    pub(crate) record: Option<Recorder>,
}

impl BasicBolt for CheckBytes {
    fn prepare(&mut self, context: &Context) -> Result<()> {
        self.record = Some(crate::recorder(&self.folder, context)?);
        Ok(())
    }

    fn execute(&mut self, input: &Input<'_>, _: &mut BasicCollector<'_>) -> Result<()> {
        let bytes = input.get::<Blob<'_>>()?.bytes;
        let wrong = (0..bytes.len()).find(|&index| bytes[index] != byte(bytes.len(), index));
        let verdict = wrong.map_or("exact".to_owned(), |index| format!("wrong at {index}"));
        crate::note(&mut self.record, format!("{} {verdict}", bytes.len()))
    }
}
