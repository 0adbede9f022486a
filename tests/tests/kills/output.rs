//! Reading along with what the sink writes.

use egret_tests::try_for;
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

const PIECE: usize = 1 << 20;

/// The lines `0..count`, as they arrive.
pub(crate) struct Output {
    path: PathBuf,
    /// Up to where it is read: the end of a line. What follows the last line end may be cut off again.
    read: u64,
    times: Vec<u8>,
    /// All below this have arrived.
    complete: u64,
    newest: u64,
    repeated: u64,
}

impl Output {
    pub(crate) fn new(path: PathBuf, count: u64) -> Self {
        let times = vec![0; usize::try_from(count).unwrap()];
        Self { path, read: 0, times, complete: 0, newest: 0, repeated: 0 }
    }

    /// The highest line that has arrived.
    pub(crate) fn newest(&self) -> u64 {
        self.newest
    }

    /// How many arrivals were not the first of their line.
    pub(crate) fn repeated(&self) -> u64 {
        self.repeated
    }

    /// The lines that have not arrived.
    pub(crate) fn missing(&self) -> Vec<usize> {
        self.times.iter().enumerate().filter(|(_, times)| **times == 0).map(|(n, _)| n).collect()
    }

    /// Reads what is there.
    pub(crate) fn read_on(&mut self) {
        let Ok(mut file) = File::open(&self.path) else { return };
        let mut buffer = vec![0; PIECE];
        loop {
            file.seek(SeekFrom::Start(self.read)).unwrap();
            let mut len = 0;
            while len < PIECE {
                match file.read(&mut buffer[len..]).unwrap() {
                    0 => break,
                    more => len += more,
                }
            }
            let Some(end) = buffer[..len].iter().rposition(|byte| *byte == b'\n') else { return };
            self.read += end as u64 + 1;
            std::str::from_utf8(&buffer[..end]).unwrap().split('\n').for_each(|line| self.arrived(line));
        }
    }

    fn arrived(&mut self, line: &str) {
        let n: usize = line.parse().unwrap_or_else(|_| panic!("{line:?} is no line of the input"));
        let times = self.times.get_mut(n).unwrap_or_else(|| panic!("{n} is no line of the input"));
        self.repeated += u64::from(*times > 0);
        *times = times.saturating_add(1);
        self.newest = self.newest.max(n as u64);
        while self.times.get(self.complete as usize).is_some_and(|times| *times > 0) {
            self.complete += 1;
        }
    }

    /// Reads along for this long.
    pub(crate) fn watch_for(&mut self, time: Duration, alive: &impl Fn()) {
        let _ = self.wait_for(u64::MAX, time, alive);
    }

    /// Reads along until all lines below `target` have arrived; `false` when they have not in time.
    pub(crate) fn wait_for(&mut self, target: u64, deadline: Duration, alive: &impl Fn()) -> bool {
        let complete = || {
            alive();
            self.read_on();
            (self.complete >= target).then_some(())
        };
        try_for(deadline, complete).is_some()
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { complete, newest, repeated, .. } = self;
        write!(f, "complete up to {complete}, newest {newest}, {repeated} repeated")
    }
}
