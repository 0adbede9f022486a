//! The file in which a spout's task keeps how far it has come, for the process that follows it.
//!
//! ```text
//!      0 | magic (8) | version u32 | body bytes u32 | checksum of the body u64 | zeros to 4096 |
//!   4096 | slot 0: turn u64 | words u64 | checksum u64 | words x u64 | unused to 8192          |
//!   8192 | slot 1: the same                                          | unused to 12288         |
//!  12288 | body: kind bytes u32 | kind | setup                                                |
//! ```
//! All numbers are little-endian, the checksums xxh3. The body is written once, before the file gets its name. A position
//! goes to the slot that does not hold the latest one, so a process that is killed while it writes leaves the position
//! before that. Nothing is synced to the disk: the file is for processes that die, not for hosts, with which the
//! container's folder goes.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: &[u8; 8] = b"EGRETPOS";
const VERSION: u32 = 1;
const SLOT_BYTES: usize = 4096;
const SLOT_HEADER_BYTES: usize = 24;
const BODY_AT: usize = 3 * SLOT_BYTES;

/// The most numbers a position may have.
pub(super) const MAX_WORDS: usize = (SLOT_BYTES - SLOT_HEADER_BYTES) / 8;

/// An open position file; no other process can open it meanwhile.
#[derive(Debug)]
pub(super) struct PositionFile {
    file: File,
    path: PathBuf,
    /// The number of the latest position; its slot is the one that is even or odd with it.
    turn: u64,
    buffer: Vec<u8>,
}

/// What a position file says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Saved {
    /// What was given when it was created.
    pub(super) setup: Vec<u8>,
    /// The latest position; `None` when there was none yet.
    pub(super) position: Option<Vec<u64>>,
}

/// A task cannot go on from where an earlier process was.
#[derive(thiserror::Error, Debug)]
pub enum PositionError {
    /// The system says no.
    #[error("cannot use the position file `{}`: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It is not what this task wrote.
    #[error("the position file `{}` {what}; without it the task begins anew", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
}

impl PositionFile {
    /// Makes a new file without a position, in place of any that is there. `kind` says whose it is.
    pub(super) fn create(path: &Path, kind: &str, setup: &[u8]) -> Result<Self, PositionError> {
        let failed = |source| PositionError::Io { path: path.to_owned(), source };
        let mut body = (kind.len() as u32).to_le_bytes().to_vec();
        body.extend_from_slice(kind.as_bytes());
        body.extend_from_slice(setup);
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&xxh3_64(&body).to_le_bytes());
        bytes.resize(BODY_AT, 0);
        bytes.extend_from_slice(&body);
        let unfinished = path.with_extension("position.new");
        std::fs::write(&unfinished, bytes).map_err(failed)?;
        std::fs::rename(&unfinished, path).map_err(failed)?;
        let file = lock(path).map_err(failed)?;
        Ok(Self { file, path: path.to_owned(), turn: 0, buffer: Vec::new() })
    }

    /// Opens the file of an earlier process; `None` when there is none.
    pub(super) fn open(path: &Path, kind: &str) -> Result<Option<(Self, Saved)>, PositionError> {
        let failed = |source| PositionError::Io { path: path.to_owned(), source };
        let unusable = |what| PositionError::Unusable { path: path.to_owned(), what };
        let mut file = match lock(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let setup = setup(&bytes, kind).map_err(unusable)?;
        let slots = [slot(&bytes, 0), slot(&bytes, 1)];
        if slots.iter().all(|slot| matches!(slot, Slot::Damaged)) {
            return Err(unusable("is damaged"));
        }
        let mut latest = (0, None);
        for slot in slots {
            if let Slot::Position(turn, words) = slot
                && turn > latest.0
            {
                latest = (turn, Some(words));
            }
        }
        let it = Self { file, path: path.to_owned(), turn: latest.0, buffer: Vec::new() };
        Ok(Some((it, Saved { setup, position: latest.1 })))
    }

    /// Keeps a position of at most [`MAX_WORDS`] numbers.
    pub(super) fn write(&mut self, words: &[u64]) -> Result<(), PositionError> {
        debug_assert!(words.len() <= MAX_WORDS);
        let turn = self.turn + 1;
        self.buffer.clear();
        self.buffer.extend_from_slice(&turn.to_le_bytes());
        self.buffer.extend_from_slice(&(words.len() as u64).to_le_bytes());
        self.buffer.extend_from_slice(&[0; 8]);
        self.buffer.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        let checksum = checksum(&self.buffer);
        self.buffer[16..SLOT_HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
        let written = self.file.write_all_at(&self.buffer, slot_at(turn) as u64);
        written.map_err(|source| PositionError::Io { path: self.path.clone(), source })?;
        self.turn = turn;
        Ok(())
    }
}

/// Opens a file for this process alone.
fn lock(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    file.try_lock().map_err(io::Error::from)?;
    Ok(file)
}

fn slot_at(turn: u64) -> usize {
    SLOT_BYTES * (1 + (turn % 2) as usize)
}

fn setup(bytes: &[u8], kind: &str) -> Result<Vec<u8>, &'static str> {
    if !bytes.starts_with(MAGIC) {
        return Err("is something else");
    }
    let number =
        |at: usize| bytes.get(at..at + 4).and_then(|b| b.first_chunk()).map(|b| u32::from_le_bytes(*b));
    if number(8) != Some(VERSION) {
        return Err("is of another version of Egret");
    }
    let body = bytes
        .get(BODY_AT..)
        .filter(|body| number(12) == Some(body.len() as u32) && bytes[16..24] == xxh3_64(body).to_le_bytes());
    let kind_bytes = number(BODY_AT).map(|bytes| bytes as usize);
    let (Some(body), Some(kind_bytes)) = (body, kind_bytes) else { return Err("is damaged") };
    match body[4..].split_at_checked(kind_bytes) {
        Some((found, setup)) if found == kind.as_bytes() => Ok(setup.to_vec()),
        _ => Err("belongs to a task that does something else"),
    }
}

enum Slot {
    Empty,
    Position(u64, Vec<u64>),
    Damaged,
}

fn slot(bytes: &[u8], parity: u64) -> Slot {
    let at = slot_at(parity);
    let Some(slot) = bytes.get(at..at + SLOT_BYTES) else { return Slot::Damaged };
    let word = |at: usize| slot[at..].first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
    let (turn, count) = (word(0), word(8));
    if slot.iter().all(|byte| *byte == 0) {
        return Slot::Empty;
    }
    if turn % 2 != parity || count > MAX_WORDS as u64 {
        return Slot::Damaged;
    }
    let used = &slot[..SLOT_HEADER_BYTES + 8 * count as usize];
    if checksum(used) != word(16) {
        return Slot::Damaged;
    }
    Slot::Position(turn, (0..count as usize).map(|i| word(SLOT_HEADER_BYTES + 8 * i)).collect())
}

/// Over a slot's bytes, but for the checksum itself.
fn checksum(slot: &[u8]) -> u64 {
    xxh3_64(&slot[SLOT_HEADER_BYTES..]) ^ xxh3_64(&slot[..16]).rotate_left(32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reopen(path: &Path) -> Result<Saved, String> {
        PositionFile::open(path, "kind").map(|found| found.unwrap().1).map_err(|error| error.to_string())
    }

    fn damage(path: &Path, at: u64) {
        let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
    }

    #[test]
    fn the_latest_position_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("task-1.position");
        assert!(PositionFile::open(&path, "kind").unwrap().is_none());
        let mut file = PositionFile::create(&path, "kind", b"setup").unwrap();
        let twice = PositionFile::open(&path, "kind").unwrap_err().to_string();
        assert!(twice.contains("task-1.position"), "{twice}");
        drop(file);
        assert_eq!(reopen(&path), Ok(Saved { setup: b"setup".to_vec(), position: None }));
        for last in [1, 2, 7] {
            file = PositionFile::open(&path, "kind").unwrap().unwrap().0;
            (0..=last).for_each(|i| file.write(&vec![i; i as usize]).unwrap());
            drop(file);
            assert_eq!(reopen(&path).unwrap().position, Some(vec![last; last as usize]));
        }
        let mut file = PositionFile::open(&path, "kind").unwrap().unwrap().0;
        file.write(&[u64::MAX; MAX_WORDS]).unwrap();
        drop(file);
        assert_eq!(reopen(&path).unwrap().position, Some(vec![u64::MAX; MAX_WORDS]));
    }

    #[test]
    fn a_torn_write_leaves_the_position_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("task-1.position");
        let mut file = PositionFile::create(&path, "kind", b"").unwrap();
        file.write(&[1, 1]).unwrap();
        file.write(&[2, 2]).unwrap();
        drop(file);
        // Any bit of the second slot that means something; it has an even number.
        for at in [0, 1, 8, 16, 24, 39] {
            damage(&path, SLOT_BYTES as u64 + at);
            assert_eq!(reopen(&path).unwrap().position, Some(vec![1, 1]), "at {at}");
            damage(&path, SLOT_BYTES as u64 + at);
        }
        damage(&path, SLOT_BYTES as u64 + 30);
        damage(&path, 2 * SLOT_BYTES as u64 + 30);
        let error = reopen(&path).unwrap_err();
        assert!(error.contains("task-1.position` is damaged; without it"), "{error}");
    }

    #[test]
    fn a_foreign_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("task-1.position");
        std::fs::write(&path, "hello").unwrap();
        assert!(reopen(&path).unwrap_err().contains("task-1.position` is something else"));
        drop(PositionFile::create(&path, "other", b"").unwrap());
        assert!(reopen(&path).unwrap_err().contains("does something else"));
        drop(PositionFile::create(&path, "kind", b"setup").unwrap());
        damage(&path, 8);
        assert!(reopen(&path).unwrap_err().contains("another version"));
        damage(&path, 8);
        damage(&path, BODY_AT as u64 + 9);
        assert!(reopen(&path).unwrap_err().contains("is damaged"));
        std::fs::write(&path, MAGIC).unwrap();
        assert!(reopen(&path).is_err());
    }
}
