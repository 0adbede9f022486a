//! Reads the lines of several files through one buffer, without a copy per line.
//!
//! A pipe or terminal that has nothing to read yet says so instead of waiting inside.

use super::files::{LinesError, Stretch, lines_before, open_unchanged};
use super::line_place::{LinePlace, without_return};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

const FIRST_BUFFER_BYTES: usize = 256 << 10;

/// Reads the lines of stretches, one after the other.
pub(super) struct LineReader {
    /// In reverse, so that the next one is the last.
    todo: Vec<Stretch>,
    open: Option<Open>,
    /// How many times everything was read before.
    pass: u64,
    /// The number of the stretch after the open one.
    next_stretch: u32,
    /// Longest line in bytes.
    limit: usize,
    buffer: Vec<u8>,
    /// What of `buffer` is read but not used.
    from: usize,
    filled: usize,
}

/// What [`LineReader::next_line`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextLine<'a> {
    /// A line without its end, and where it begins.
    Line(&'a [u8], LinePlace),
    /// Nothing yet: the pipe or terminal has to be asked again later.
    NotReady,
    /// That was the last.
    End,
}

/// The same, with a line's bounds in the buffer.
enum Found {
    Line(usize, usize, LinePlace),
    NotReady,
    End,
}

struct Open {
    input: File,
    /// Whether reading may wait, as from a pipe.
    waits: bool,
    stretch: Stretch,
    /// The position in the file of the next line's first byte.
    at: u64,
    /// Lines used up so far, in this stretch.
    lines: u64,
    ended: bool,
}

/// Where the line that was read last stands.
#[derive(Debug)]
pub(super) struct Position<'a> {
    stretch: &'a Stretch,
    lines: u64,
}

impl Position<'_> {
    pub(super) fn path(&self) -> &Path {
        &self.stretch.path
    }

    /// The line's number from 1. What is before the stretch is counted only here, since hardly anybody asks.
    pub(super) fn line(&self) -> u64 {
        self.lines + lines_before(self.stretch).unwrap_or(0)
    }
}

impl LineReader {
    /// Reads the lines of `stretches` from this place on: those of the stretch it names that do not begin before it, and
    /// the stretches after that.
    pub(super) fn new(stretches: &[Stretch], limit: usize, from: LinePlace) -> Self {
        let first = stretches.len().min(from.stretch as usize);
        let mut todo: Vec<Stretch> = stretches[first..].iter().rev().cloned().collect();
        if let Some(first) = todo.last_mut() {
            first.from = first.from.max(from.at);
        }
        let (pass, next_stretch) = (from.pass, from.stretch);
        let buffer = vec![0; FIRST_BUFFER_BYTES];
        Self { todo, open: None, pass, next_stretch, limit, buffer, from: 0, filled: 0 }
    }

    /// The next line without its end, which is `\n` or `\r\n` as for [`BufRead::lines`](std::io::BufRead::lines). After
    /// [`LinesError::TooLong`] reading goes on with the line after it.
    pub(super) fn next_line(&mut self) -> Result<NextLine<'_>, LinesError> {
        loop {
            if self.open.is_none() {
                let Some(stretch) = self.todo.last().cloned() else { return Ok(NextLine::End) };
                if let Err(error) = self.begin(stretch) {
                    // With the next call it is tried again.
                    self.open = None;
                    return Err(error);
                }
                self.todo.pop();
                self.next_stretch += 1;
            }
            match self.find()? {
                Found::Line(from, to, at) => return Ok(NextLine::Line(&self.buffer[from..to], at)),
                Found::NotReady => return Ok(NextLine::NotReady),
                Found::End => self.open = None,
            }
        }
    }

    /// Where the last line stands, or `None` before the first and after the last.
    pub(super) fn position(&self) -> Option<Position<'_>> {
        self.open.as_ref().map(|open| Position { stretch: &open.stretch, lines: open.lines })
    }

    /// Where the next line is looked for.
    pub(super) fn next_place(&self) -> LinePlace {
        let (next, at) = (self.next_stretch, 0);
        let place = LinePlace { pass: self.pass, stretch: next, at };
        match &self.open {
            Some(open) => LinePlace { stretch: next - 1, at: open.at, ..place },
            None => place,
        }
    }

    fn begin(&mut self, stretch: Stretch) -> Result<(), LinesError> {
        let failed = |source| LinesError::Read { path: stretch.path.clone(), source };
        (self.from, self.filled) = (0, 0);
        let mut input = open_unchanged(&stretch)?;
        let waits = !input.metadata().map_err(failed)?.is_file();
        // Whoever read a pipe before has taken away what he read.
        let skip = stretch.from > 0 && !waits;
        let at = stretch.from - u64::from(skip);
        if skip {
            input.seek(SeekFrom::Start(at)).map_err(failed)?;
        }
        self.open = Some(Open { input, waits, stretch, at, lines: 0, ended: false });
        if skip {
            // The byte before the stretch tells whether a line begins with it; if not, the first line is another task's.
            self.skip_line()?;
            if let Some(open) = &mut self.open {
                open.lines = 0;
            }
        }
        Ok(())
    }

    /// The next line of the open stretch.
    fn find(&mut self) -> Result<Found, LinesError> {
        let mut searched = 0;
        loop {
            let Some(open) = &mut self.open else { return Ok(Found::End) };
            if open.at >= open.stretch.to {
                return Ok(Found::End);
            }
            let rest = &self.buffer[self.from..self.filled];
            if let Some(len) = memchr::memchr(b'\n', &rest[searched..]).map(|found| searched + found) {
                return self.take(len, 1);
            }
            searched = rest.len();
            if open.ended {
                return if searched == 0 { Ok(Found::End) } else { self.take(searched, 0) };
            }
            if searched > self.limit + 1 {
                let line = self.next_number();
                let path = self.path();
                self.skip_line()?;
                return Err(LinesError::TooLong { path, line, limit: self.limit });
            }
            if open.waits && !is_ready(&open.input) {
                return Ok(Found::NotReady);
            }
            self.fill()?;
        }
    }

    /// Uses up a line of `len` bytes and its end of `end` bytes.
    fn take(&mut self, len: usize, end: usize) -> Result<Found, LinesError> {
        let (from, place) = (self.from, self.next_place());
        self.consume(len + end);
        let line = &self.buffer[from..from + len];
        let len = if end > 0 { without_return(line).len() } else { len };
        if len <= self.limit {
            return Ok(Found::Line(from, from + len, place));
        }
        let line = self.position().map_or(0, |position| position.line());
        Err(LinesError::TooLong { path: self.path(), line, limit: self.limit })
    }

    fn consume(&mut self, bytes: usize) {
        self.from += bytes;
        if let Some(open) = &mut self.open {
            open.at += bytes as u64;
            open.lines += 1;
        }
    }

    /// Goes behind the next line end, however far it is.
    fn skip_line(&mut self) -> Result<(), LinesError> {
        loop {
            let rest = &self.buffer[self.from..self.filled];
            let found = memchr::memchr(b'\n', rest);
            let len = rest.len();
            if let Some(found) = found {
                self.consume(found + 1);
                return Ok(());
            }
            let Some(open) = &mut self.open else { return Ok(()) };
            open.at += len as u64;
            (self.from, self.filled) = (0, 0);
            if open.ended {
                open.lines += 1;
                return Ok(());
            }
            self.fill()?;
        }
    }

    /// Reads more, behind what is in the buffer, which grows when it is full.
    fn fill(&mut self) -> Result<(), LinesError> {
        self.buffer.copy_within(self.from..self.filled, 0);
        (self.from, self.filled) = (0, self.filled - self.from);
        if self.filled == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        loop {
            match open.input.read(&mut self.buffer[self.filled..]) {
                Ok(count) => {
                    open.ended = count == 0;
                    self.filled += count;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(LinesError::Read { path: self.path(), source }),
            }
        }
    }

    fn next_number(&self) -> u64 {
        self.position().map_or(0, |position| position.line() + 1)
    }

    fn path(&self) -> PathBuf {
        self.open.as_ref().map(|open| open.stretch.path.clone()).unwrap_or_default()
    }
}

/// Whether reading would not wait. An error counts as ready: reading reports it.
fn is_ready(input: &File) -> bool {
    let mut fds = [PollFd::new(input, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).map_or(true, |ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::super::files::share;
    use super::super::line_place::Rereader;
    use super::super::progress::Place;
    use super::*;
    use proptest::prelude::*;

    fn all(stretches: &[Stretch], limit: usize) -> LineReader {
        LineReader::new(stretches, limit, LinePlace::default())
    }

    fn read_all(stretches: Vec<Stretch>, limit: usize) -> (Vec<Vec<u8>>, Vec<String>) {
        let mut reader = all(&stretches, limit);
        let (mut lines, mut errors) = (Vec::new(), Vec::new());
        loop {
            match reader.next_line() {
                Ok(NextLine::Line(line, _)) => lines.push(line.to_vec()),
                Ok(NextLine::NotReady) => panic!("files are always ready"),
                Ok(NextLine::End) => return (lines, errors),
                Err(error) => errors.push(error.to_string()),
            }
        }
    }

    fn write(folder: &tempfile::TempDir, texts: &[Vec<u8>]) -> Vec<PathBuf> {
        let write = |(i, text): (usize, &Vec<u8>)| {
            let path = folder.path().join(format!("{i}.txt"));
            std::fs::write(&path, text).unwrap();
            path
        };
        texts.iter().enumerate().map(write).collect()
    }

    proptest! {
        /// Oracle: `BufRead::lines` over every file.
        #[test]
        fn every_line_has_one_owner(
            texts in prop::collection::vec(prop::collection::vec(prop::sample::select(b"ab\r\n\n".to_vec()), 0..60), 1..4),
            tasks in 1_u32..6,
        ) {
            use std::io::BufRead;
            let folder = tempfile::tempdir().unwrap();
            let files = write(&folder, &texts);
            let expected: Vec<Vec<u8>> =
                texts.iter().flat_map(|t| t.lines().map(|l| l.unwrap().into_bytes())).collect();
            let shares: Vec<_> = (0..tasks).map(|i| share(&files, i, tasks).unwrap()).collect();
            let mut found: Vec<Vec<u8>> = shares.into_iter().flat_map(|s| read_all(s, 100).0).collect();
            if tasks > 1 {
                found.sort();
            }
            let mut expected = expected;
            if tasks > 1 {
                expected.sort();
            }
            prop_assert_eq!(found, expected);
        }
    }

    proptest! {
        /// Every line is found again by its place, and reading from any byte on gives the lines that begin there or later.
        #[test]
        fn places_lead_back(
            texts in prop::collection::vec(prop::collection::vec(prop::sample::select(b"ab\r\n\n".to_vec()), 1..40), 1..4),
            tasks in 1_u32..4,
            extra in 0_u64..12,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let files = write(&folder, &texts);
            for task in 0..tasks {
                let stretches = share(&files, task, tasks).unwrap();
                let mut reader = all(&stretches, 100);
                let mut found = Vec::new();
                while let NextLine::Line(line, place) = reader.next_line().unwrap() {
                    found.push((line.to_vec(), place));
                }
                let mut again = Rereader::default();
                for (i, (line, place)) in found.iter().enumerate() {
                    prop_assert_eq!(again.line(&stretches, *place).unwrap(), line);
                    let from = place.ahead(extra);
                    let mut rest = LineReader::new(&stretches, 100, from);
                    for expected in found[i..].iter().filter(|(_, place)| *place >= from) {
                        prop_assert_eq!(rest.next_line().unwrap(), NextLine::Line(&expected.0, expected.1));
                    }
                    prop_assert_eq!(rest.next_line().unwrap(), NextLine::End);
                }
            }
        }
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_tried_again_and_not_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let files = write(&folder, &[b"a\n".to_vec(), b"b\n".to_vec()]);
        let mut reader = all(&share(&files, 0, 1).unwrap(), 100);
        let away = folder.path().join("away");
        std::fs::rename(&files[0], &away).unwrap();
        for _ in 0..3 {
            assert!(reader.next_line().unwrap_err().to_string().contains("No such file"));
        }
        std::fs::rename(&away, &files[0]).unwrap();
        for (line, stretch) in [(b"a", 0), (b"b", 1)] {
            let place = LinePlace { stretch, ..LinePlace::default() };
            assert_eq!(reader.next_line().unwrap(), NextLine::Line(line, place));
        }
        assert_eq!(reader.next_line().unwrap(), NextLine::End);
        // One that was replaced is not read as if it were the same.
        let mut reader = all(&share(&files, 0, 1).unwrap(), 100);
        std::fs::write(&away, "c\n").unwrap();
        std::fs::rename(&away, &files[0]).unwrap();
        assert!(reader.next_line().unwrap_err().to_string().contains("has been replaced"));
    }

    #[test]
    fn a_line_longer_than_the_buffer_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let long = vec![b'x'; 3 * FIRST_BUFFER_BYTES];
        let text = [&long[..], b"\r\nshort\n"].concat();
        let files = write(&folder, &[text]);
        let (lines, errors) = read_all(share(&files, 0, 1).unwrap(), long.len());
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(lines, [long, b"short".to_vec()]);
    }

    #[test]
    fn a_line_over_the_limit_names_file_and_line_and_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let long = vec![b'x'; FIRST_BUFFER_BYTES + 7];
        let files = write(&folder, &[[b"a\nbcdef\ng\n", &long[..], b"\nhi\nlast!"].concat()]);
        let (lines, errors) = read_all(share(&files, 0, 1).unwrap(), 4);
        assert_eq!(lines, [b"a".to_vec(), b"g".to_vec(), b"hi".to_vec()]);
        for (error, line) in errors.iter().zip([2, 4, 6]) {
            assert!(
                error.contains(&format!("0.txt`, line {line}: the line is longer than 4 bytes")),
                "{error}"
            );
        }
        assert_eq!(errors.len(), 3);
    }

    #[test]
    fn a_line_in_a_later_stretch_has_its_number_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let text: String = (1..=100).map(|i| format!("{i}\n")).collect();
        let files = write(&folder, &[text.into_bytes()]);
        for task in 0..7 {
            let mut reader = all(&share(&files, task, 7).unwrap(), 10);
            while let NextLine::Line(line, _) = reader.next_line().unwrap() {
                let number: u64 = std::str::from_utf8(line).unwrap().parse().unwrap();
                assert_eq!(reader.position().unwrap().line(), number);
            }
        }
    }

    #[test]
    fn a_pipe_without_a_line_is_not_ready() {
        use std::io::Write;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
            .unwrap();
        // Opened for both, so that opening does not wait for the other end.
        let mut writer = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mut reader = all(&share(&[path], 0, 1).unwrap(), 100);
        assert_eq!(reader.next_line().unwrap(), NextLine::NotReady);
        writer.write_all(b"one\ntw").unwrap();
        assert!(matches!(reader.next_line().unwrap(), NextLine::Line(b"one", _)));
        assert_eq!(reader.next_line().unwrap(), NextLine::NotReady);
        writer.write_all(b"o\n").unwrap();
        assert!(matches!(reader.next_line().unwrap(), NextLine::Line(b"two", LinePlace { at: 4, .. })));
        drop(writer);
        assert_eq!(reader.next_line().unwrap(), NextLine::End);
    }
}
