//! The `file-sink` bolt: tuples into a file.

use super::args::{ArgKind, ArgProblem, ArgSpec, Args, At};
use super::files::STANDARD;
use super::schema::no_stream;
use super::types::ComponentType;
use crate::topology::Factory;
use crate::{Bolt, BoltCollector, Context, Held, Input, Result, Row, Value};
use egret_dataplane::plan::{Role, config};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The type `file-sink`.
pub(super) static TYPE: ComponentType = ComponentType {
    name: "file-sink",
    role: Role::Bolt,
    help: "writes each tuple as a line of a file",
    args: &[
        ArgSpec::required(
            "path",
            ArgKind::Path,
            "the file; several tasks write PATH.TASK; `-` for standard output",
        ),
        ArgSpec::optional(
            "format",
            ArgKind::Choice(&["tsv", "json"]),
            "`tsv` (default): the fields joined by a tab; `json`: an object per line",
        ),
    ],
    outputs: no_stream,
    check,
    make: |args| Factory::bolt(move || FileSink::from_args(&args)),
};

fn check(args: &Args, parallelism: u32) -> Result<(), ArgProblem> {
    if args.text("path") == Some("-") && parallelism > 1 {
        let message = "`path` is standard output `-`, which one task writes; set `parallelism: 1`";
        return Err(ArgProblem { at: At::Value("path".to_owned()), message: message.to_owned() });
    }
    Ok(())
}

/// Bytes that are gathered before they are written.
const BUFFER_BYTES: usize = 64 << 10;

/// Writes each tuple as a line: its fields joined by tabs, or a JSON object.
///
/// Fields are written as they are, numbers in decimal and bytes in hexadecimal. So a line that came from a file is the
/// same line again; a field that itself has a tab or a line end in it cannot be told apart: use JSON then.
///
/// One task writes the path itself, each of several `PATH.TASK` with its task's number. The file is truncated when the
/// topology starts; the successor of a process that died appends instead, after a line that was left unfinished is
/// removed. The path `-` is the process's standard output: that of `egret run`, or the task's log once submitted.
///
/// What is gathered is written when 64 KiB are full, when no tuple is at hand, with ticks and at the end. Only then is it
/// acked, so what is acked survives this process. When it cannot be written, all of it fails, and the file is cut back to
/// the last whole line.
pub struct FileSink {
    path: PathBuf,
    json: bool,
    out: Option<Out>,
    buffer: Vec<u8>,
    /// The inputs whose lines are in the buffer.
    held: Vec<Held>,
    /// What fails comes again: the spouts replay it.
    replayed: bool,
}

struct Out {
    file: File,
    /// What is written, in bytes, of a file that can be cut.
    written: Option<u64>,
}

/// A file cannot be written.
#[derive(thiserror::Error, Debug)]
#[error("cannot write {}", if path.as_os_str() == STANDARD { "standard output".to_owned() } else { format!("`{}`", path.display()) })]
pub struct SinkError {
    /// The file.
    pub path: PathBuf,
    /// What the system says.
    pub source: io::Error,
}

impl FileSink {
    /// Writes this file, with the fields joined by tabs.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            json: false,
            out: None,
            buffer: Vec::new(),
            held: Vec::new(),
            replayed: false,
        }
    }

    /// Writes JSON objects instead, one per line.
    #[must_use]
    pub fn json(mut self) -> Self {
        self.json = true;
        self
    }

    pub(super) fn from_args(args: &Args) -> Self {
        let sink = Self::new(args.text("path").unwrap_or_default());
        if args.text("format") == Some("json") { sink.json() } else { sink }
    }

    fn failed(&self, source: io::Error) -> SinkError {
        SinkError { path: self.path.clone(), source }
    }

    /// Writes what is gathered, and acks it. When that is not possible it fails, to be replayed; where nothing is
    /// replayed it is kept for the next time, so that a disk that is full for a while costs nothing.
    fn write_out(&mut self, collector: &mut BoltCollector) -> Result<()> {
        let written = self.write();
        if written.is_ok() || self.replayed {
            self.buffer.clear();
            for input in self.held.drain(..) {
                if written.is_ok() { collector.ack(&input)? } else { collector.fail(&input)? }
            }
        }
        Ok(written?)
    }

    /// Writes what is gathered; after an error the buffer begins with what is not written.
    fn write(&mut self) -> Result<(), SinkError> {
        let Some(out) = &mut self.out else { return Ok(()) };
        let (done, outcome) = out.write(&self.buffer);
        self.buffer.drain(..done);
        outcome.map_err(|error| self.failed(error))
    }
}

impl Out {
    /// Says how much is written for good, and what stood in the way of the rest.
    fn write(&mut self, bytes: &[u8]) -> (usize, io::Result<()>) {
        let mut done = 0;
        while done < bytes.len() {
            match self.file.write(&bytes[done..]) {
                Ok(0) => return self.stuck(done, io::ErrorKind::WriteZero.into()),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.stuck(done, error),
            }
        }
        if let Some(written) = &mut self.written {
            *written += bytes.len() as u64;
        }
        (done, Ok(()))
    }

    fn stuck(&mut self, done: usize, error: io::Error) -> (usize, io::Result<()>) {
        match self.written {
            // No half line, which the next one would be stuck to.
            Some(written) => (0, cut(&mut self.file, written).and(Err(error))),
            None => (done, Err(error)),
        }
    }
}

impl Bolt for FileSink {
    fn prepare(&mut self, context: &Context) -> Result<()> {
        if context.parallelism() > 1 && self.path.as_os_str() != STANDARD {
            self.path.as_mut_os_string().push(format!(".{}", context.task()));
        }
        // Not the incarnation alone: nothing that was written may be truncated by whoever counts those anew.
        let begun = context.container_dir().join(format!("task-{}.sink", context.task()));
        let out = open(&self.path, context.incarnation().0 > 1 || begun.exists());
        self.out = Some(out.map_err(|error| self.failed(error))?);
        File::create(begun)?;
        self.replayed = !context.config().is(config::RELIABILITY_MODE, "ATMOST_ONCE");
        Ok(())
    }

    fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> Result<()> {
        // What could not be written and is kept must not grow: this tuple is not taken in, and fails alone.
        if self.buffer.len() >= BUFFER_BYTES {
            self.write_out(out)?;
        }
        let before = self.buffer.len();
        let row = input.row()?;
        let written =
            if self.json { write_json(&row, &mut self.buffer) } else { write_tsv(&row, &mut self.buffer) };
        if let Err(error) = written {
            // No half line of a tuple that fails.
            self.buffer.truncate(before);
            return Err(error);
        }
        self.held.push(input.hold());
        if self.buffer.len() < BUFFER_BYTES {
            return Ok(());
        }
        match self.write_out(out) {
            // Kept, and told when the next one comes or at the end.
            Err(_) if !self.replayed => Ok(()),
            written => written,
        }
    }

    fn tick(&mut self, out: &mut BoltCollector) -> Result<()> {
        self.write_out(out)
    }

    fn idle(&mut self, out: &mut BoltCollector) -> Result<()> {
        self.write_out(out)
    }

    fn finish(&mut self, out: &mut BoltCollector) -> Result<()> {
        self.write_out(out)
    }

    /// Too late to ack; what was not acked comes again.
    fn cleanup(&mut self) {
        if let Err(error) = self.write() {
            tracing::error!("{}", crate::Error::from(error));
        }
    }
}

fn open(path: &Path, go_on: bool) -> io::Result<Out> {
    if path.as_os_str() == STANDARD {
        return Ok(Out { file: rustix::io::dup(rustix::stdio::stdout())?.into(), written: None });
    }
    let mut file = if go_on {
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?
    } else {
        File::create(path)?
    };
    if !file.metadata()?.is_file() {
        return Ok(Out { file, written: None });
    }
    let len = if go_on { whole_lines(&mut file)? } else { 0 };
    cut(&mut file, len)?;
    Ok(Out { file, written: Some(len) })
}

/// Drops everything behind the first `len` bytes and goes on writing there.
fn cut(file: &mut File, len: u64) -> io::Result<()> {
    file.set_len(len)?;
    file.seek(SeekFrom::Start(len))?;
    Ok(())
}

/// The length of a file up to its last line end.
fn whole_lines(file: &mut File) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    let mut buffer = vec![0; BUFFER_BYTES];
    while end > 0 {
        let from = end.saturating_sub(BUFFER_BYTES as u64);
        let part = &mut buffer[..(end - from) as usize];
        file.seek(SeekFrom::Start(from))?;
        file.read_exact(part)?;
        if let Some(found) = memchr::memrchr(b'\n', part) {
            return Ok(from + found as u64 + 1);
        }
        end = from;
    }
    Ok(0)
}

fn write_tsv(row: &Row<'_>, line: &mut Vec<u8>) -> Result<()> {
    for index in 0..row.len() {
        if index > 0 {
            line.push(b'\t');
        }
        match row.get(index)? {
            Value::Str(text) => line.extend_from_slice(text.as_bytes()),
            other => write!(line, "{other}")?,
        }
    }
    line.push(b'\n');
    Ok(())
}

fn write_json(row: &Row<'_>, line: &mut Vec<u8>) -> Result<()> {
    line.push(b'{');
    for (index, (name, value)) in row.fields().enumerate() {
        if index > 0 {
            line.push(b',');
        }
        serde_json::to_writer(&mut *line, name)?;
        line.push(b':');
        match value? {
            Value::Str(text) => serde_json::to_writer(&mut *line, text)?,
            // What is no number has no form in JSON but `null`.
            Value::F32(v) => serde_json::to_writer(&mut *line, &v)?,
            Value::F64(v) => serde_json::to_writer(&mut *line, &v)?,
            bytes @ Value::Bytes(_) => write!(line, "\"{bytes}\"")?,
            plain => write!(line, "{plain}")?,
        }
    }
    line.extend_from_slice(b"}\n");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use crate::Value;
    use egret_dataplane::plan::{FieldKind, config};
    use serde_json::json;
    use std::fs;
    use std::path::Path;

    const WORD: &[(&str, FieldKind)] = &[("w", FieldKind::Str)];

    fn sink(path: &Path) -> Bench {
        Bench::bolt("file-sink", json!({"path": path}), WORD)
    }

    #[test]
    fn tsv_joins_the_fields_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.tsv");
        fs::write(&path, "old").unwrap();
        let fields = [("s", FieldKind::Str), ("n", FieldKind::I32), ("b", FieldKind::Bytes)];
        let mut bolt = Bench::bolt("file-sink", json!({"path": path}), &fields).start().unwrap();
        bolt.execute(&[&[Value::Str("a\\b\tc"), Value::I32(-1), Value::Bytes(&[10])]]).unwrap();
        bolt.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a\\b\tc\t-1\t0a\n");
    }

    #[test]
    fn json_lines_can_be_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        let fields =
            [("s\"", FieldKind::Str), ("n", FieldKind::U64), ("f", FieldKind::F64), ("t", FieldKind::Bool)];
        let mut bolt =
            Bench::bolt("file-sink", json!({"path": path, "format": "json"}), &fields).start().unwrap();
        let row = |s, f| [Value::Str(s), Value::U64(u64::MAX), Value::F64(f), Value::Bool(true)];
        bolt.execute(&[&row("a\"\n\tb", 0.5), &row("", f64::NAN)]).unwrap();
        bolt.finish().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let read: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read[0], json!({"s\"": "a\"\n\tb", "n": u64::MAX, "f": 0.5, "t": true}));
        assert_eq!(read[1]["f"], json!(null));
    }

    #[test]
    fn several_tasks_write_a_file_each() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        // The bench's source is task 1, so the sink's second task is task 3.
        let mut bolt = sink(&path).task(1, 2).start().unwrap();
        bolt.execute_texts(&["x"]).unwrap();
        bolt.finish().unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("out.3")).unwrap(), "x\n");
        assert!(!path.exists());
    }

    #[test]
    fn it_writes_when_idle_and_when_much_is_gathered() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut bolt = sink(&path).start().unwrap();
        bolt.execute_texts(&["x"]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
        bolt.idle().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "x\n");
        bolt.execute_texts(&[&"y".repeat(super::BUFFER_BYTES - 100), &"z".repeat(200)]).unwrap();
        assert!(fs::metadata(&path).unwrap().len() > super::BUFFER_BYTES as u64);
    }

    #[test]
    fn it_acks_what_is_written_and_fails_what_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut bolt = sink(&path).start().unwrap();
        bolt.execute_texts(&["x", "y"]).unwrap();
        assert_eq!(bolt.counts(), (0, 0, 0));
        bolt.idle().unwrap();
        assert_eq!(bolt.counts(), (0, 2, 0));
        bolt.execute_texts(&[&"z".repeat(super::BUFFER_BYTES - 8)]).unwrap();
        assert_eq!(bolt.counts(), (0, 2, 0));
        bolt.execute_texts(&["zzzzzzzz"]).unwrap();
        assert_eq!(bolt.counts(), (0, 4, 0));
        let mut full =
            sink(Path::new("/dev/full")).config(config::RELIABILITY_MODE, "ATLEAST_ONCE").start().unwrap();
        full.execute_texts(&["x", "y"]).unwrap();
        full.idle().unwrap_err();
        assert_eq!(full.counts(), (0, 0, 2));
        // Nothing is left that would be written or failed again.
        full.finish().unwrap();
        assert_eq!(full.counts(), (0, 0, 2));
    }

    #[test]
    fn a_write_that_fails_leaves_whole_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut out = super::open(&path, false).unwrap();
        out.write(b"whole\n").1.unwrap();
        // A file that cannot be written, of which half a line came through.
        let readable = fs::File::open(&path).unwrap();
        let mut writable = std::mem::replace(&mut out.file, readable);
        std::io::Write::write_all(&mut writable, b"hal").unwrap();
        assert!(out.write(b"half\n").1.is_err());
        out.file = writable;
        super::cut(&mut out.file, out.written.unwrap()).unwrap();
        out.write(b"next\n").1.unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole\nnext\n");
    }

    #[test]
    fn a_successor_appends_after_the_last_whole_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let cases = [("a\nb\nhal", "a\nb\nx\n"), ("a\n", "a\nx\n"), ("hal", "x\n"), ("", "x\n")];
        for (incarnation, (left, expected)) in (1..).zip(cases) {
            fs::write(&path, left).unwrap();
            if incarnation == 1 {
                fs::write(folder.path().join("task-2.sink"), "").unwrap();
            }
            let mut bolt = sink(&path).process(folder.path(), incarnation).start().unwrap();
            bolt.execute_texts(&["x"]).unwrap();
            bolt.finish().unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), expected);
        }
    }

    #[test]
    fn an_error_names_the_path() {
        let error = sink(Path::new("/nowhere/out.tsv")).start().err().unwrap().to_string();
        assert!(error.starts_with("cannot write `/nowhere/out.tsv`: No such file"), "{error}");
        let mut full = sink(Path::new("/dev/full")).start().unwrap();
        full.execute_texts(&["x"]).unwrap();
        let error = full.finish().unwrap_err().to_string();
        assert!(error.starts_with("cannot write `/dev/full`: No space left"), "{error}");
    }

    #[test]
    fn a_sink_that_could_not_write_before_says_so_at_its_end() {
        let mut full = sink(Path::new("/dev/full")).start().unwrap();
        full.execute_texts(&["x"]).unwrap();
        full.idle().unwrap_err();
        full.finish().unwrap_err();
    }
}
