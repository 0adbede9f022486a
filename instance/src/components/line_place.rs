//! Where a line stands, and reading it once more from there.

use super::files::{LinesError, Stretch, open_unchanged};
use super::progress::Place;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Where a line begins: which time its file is read, which stretch of the task's, which byte of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LinePlace {
    pub(super) pass: u64,
    pub(super) stretch: u32,
    pub(super) at: u64,
}

impl Place for LinePlace {
    fn words(self) -> [u64; 3] {
        [self.pass, self.stretch.into(), self.at]
    }

    fn of_words([pass, stretch, at]: [u64; 3]) -> Self {
        Self { pass, stretch: u32::try_from(stretch).unwrap_or(u32::MAX), at }
    }

    /// Counts bytes: lines that begin in them are before that place. It need not be the beginning of a line.
    fn ahead(self, count: u64) -> Self {
        Self { at: self.at.saturating_add(count), ..self }
    }
}

const READ_BYTES: usize = 4 << 10;

/// Reads single lines of a task's stretches again.
#[derive(Default)]
pub(super) struct Rereader {
    /// The file that was read last, and the stretch it belongs to.
    open: Option<(u32, File)>,
    buffer: Vec<u8>,
}

impl Rereader {
    /// The line at a place where one was read before, as it was then. Its file must not have changed.
    pub(super) fn line(&mut self, stretches: &[Stretch], place: LinePlace) -> Result<&[u8], LinesError> {
        let Some(stretch) = stretches.get(place.stretch as usize) else { return Ok(&[]) };
        let file = match &mut self.open {
            Some((open, file)) if *open == place.stretch => file,
            other => &mut other.insert((place.stretch, open_unchanged(stretch)?)).1,
        };
        self.buffer.clear();
        let len = loop {
            let from = self.buffer.len();
            self.buffer.resize(from + READ_BYTES, 0);
            let count = read_at(file, &mut self.buffer[from..], place.at + from as u64)
                .map_err(|source| LinesError::Read { path: stretch.path.clone(), source })?;
            self.buffer.truncate(from + count);
            match memchr::memchr(b'\n', &self.buffer[from..]) {
                Some(found) => break without_return(&self.buffer[..from + found]).len(),
                None if count == 0 => break self.buffer.len(),
                None => {}
            }
        };
        Ok(&self.buffer[..len])
    }
}

/// A line that ended with `\n`, without the `\r` before that.
pub(super) fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    loop {
        match file.read_at(buffer, at) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}
