//! Where in the container's pool a payload lies: seen by its emitter and by the bolt that reads it.

use crate::tuples::Blob;
use egret::{BasicBolt, BasicCollector, Context, Input, Next, Result, Spout, SpoutCollector};
use egret_tests::records::Recorder;
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;

const POOL: &str = "/memfd:egret-pool";
const MARK: usize = 32;

/// A payload of `len` bytes whose first [`MARK`] bytes stand nowhere else.
fn payload(len: usize) -> Vec<u8> {
    let mark = format!("the mark of a payload of {len:07}");
    mark.bytes().cycle().take(MARK).chain(std::iter::repeat(b'.')).take(len).collect()
}

/// Every place in this process's pool where `mark` stands.
fn places_of(mark: &[u8]) -> Result<Vec<usize>> {
    let mut pool = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let path = entry?.path();
        if fs::read_link(&path).is_ok_and(|target| target.to_string_lossy().starts_with(POOL)) {
            File::open(&path)?.read_to_end(&mut pool)?;
            break;
        }
    }
    let starts = (0..pool.len().saturating_sub(mark.len())).step_by(4);
    Ok(starts.filter(|&start| pool[start..].starts_with(mark)).collect())
}

/// The place in the pool of something that lies in this process's mapping of it.
fn place_of(bytes: &[u8]) -> Result<Option<usize>> {
    let address = bytes.as_ptr().addr();
    for line in fs::read_to_string("/proc/self/maps")?.lines().filter(|line| line.contains(POOL)) {
        let mut words = line.split_whitespace();
        let (range, file_offset) = (words.next().unwrap_or_default(), words.nth(1).unwrap_or_default());
        let (start, end) = range.split_once('-').unwrap_or_default();
        let hex = |digits| usize::from_str_radix(digits, 16);
        if (hex(start)?..hex(end)?).contains(&address) {
            return Ok(Some(address - hex(start)? + hex(file_offset)?));
        }
    }
    Ok(None)
}

/// Emits payloads that fit each size of block, and writes down where they lie.
pub(crate) struct Marking {
    pub(crate) folder: PathBuf,
    pub(crate) record: Option<Recorder>,
    pub(crate) left: Vec<usize>,
}

impl Spout for Marking {
    type Id = usize;

    fn open(&mut self, context: &Context) -> Result<()> {
        self.record = Some(crate::recorder(&self.folder, context)?);
        self.left = vec![64, 5_000, 100_000, 900_000];
        Ok(())
    }

    fn next_tuple(&mut self, out: &mut SpoutCollector<usize>) -> Result<Next> {
        let Some(len) = self.left.pop() else { return Ok(Next::Exhausted) };
        let bytes = payload(len);
        out.emit(&Blob { bytes: &bytes }).id(len)?;
        crate::note(&mut self.record, format!("{len} at {:?}", places_of(&bytes[..MARK])?))?;
        Ok(Next::Emitted)
    }
}

/// Writes down where each payload is read, and every place where it stands.
pub(crate) struct Locating {
    pub(crate) folder: PathBuf,
    pub(crate) record: Option<Recorder>,
}

impl BasicBolt for Locating {
    fn prepare(&mut self, context: &Context) -> Result<()> {
        self.record = Some(crate::recorder(&self.folder, context)?);
        Ok(())
    }

    fn execute(&mut self, input: &Input<'_>, _: &mut BasicCollector<'_>) -> Result<()> {
        let bytes = input.get::<Blob<'_>>()?.bytes;
        let all = places_of(&bytes[..MARK])?;
        let read = place_of(bytes)?.into_iter().collect::<Vec<_>>();
        crate::note(&mut self.record, format!("{} at {read:?}", bytes.len()))?;
        crate::note(&mut self.record, format!("{} only at {all:?}", bytes.len()))
    }
}
