//! The `file-lines` spout: each line of its files once.

use super::args::{ArgKind, ArgProblem, ArgSpec, Args};
use super::files::{self, LinesError, Stretch};
use super::lines::{LineReader, NextLine};
use super::schema::default_stream;
use super::types::ComponentType;
use crate::collector::EmitError;
use crate::topology::Factory;
use crate::{Context, Next, Result, Spout, SpoutCollector, Tuple};
use egret_dataplane::plan::config;
use egret_dataplane::plan::{FieldKind, Role};
use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

/// The type `file-lines`.
pub(super) static TYPE: ComponentType = ComponentType {
    name: "file-lines",
    role: Role::Spout,
    help: "emits each line of its files once",
    args: &[
        ArgSpec::required(
            "path",
            ArgKind::Paths,
            "a file, a pattern with `*` and `?`, `-` for standard input, or a list of them",
        ),
        ArgSpec::optional(
            "repeat",
            ArgKind::Number(1, u64::MAX),
            "how many times the files are read; 1 by default",
        ),
    ],
    outputs: |_, _| Ok(default_stream(&[("line", FieldKind::Str)])),
    check,
    make: |args| Factory::spout(move || FileLines::from_args(&args)),
};

fn check(args: &Args, _: u32) -> Result<(), ArgProblem> {
    let paths = args.texts("path");
    let stdin = paths.iter().filter(|path| **path == "-").count();
    if stdin > 1 {
        return Err(ArgProblem::value("path", "`path` names standard input `-` twice; it can be read once"));
    }
    if stdin == 1 && args.number("repeat").unwrap_or(1) > 1 {
        return Err(ArgProblem::value("repeat", "standard input `-` can be read once; leave `repeat` at 1"));
    }
    Ok(())
}

/// How long nothing is asked of a pipe or terminal that had no line.
const PIPE_DELAY: Duration = Duration::from_millis(5);

/// What [`FileLines`] emits.
#[derive(Tuple, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The line without its end.
    pub line: &'a str,
}

/// Emits each line of its files once; several tasks share the lines without overlap.
///
/// A line ends with `\n` or `\r\n`, which are not part of it; the last line needs no end. Bytes that are no UTF-8 become
/// U+FFFD, with one warning per file in the log, because a job over gigabytes should not die of one bad byte. A line that
/// is longer than a tuple may be (`egret.tuple.max.bytes`) is an error that names its file and number, and is left out.
///
/// One task emits the lines in order. Of several tasks, each reads an equal stretch of the bytes of all files together;
/// what has no size (`-`, pipes) is read whole by one of them, standard input by the first. The files must not change
/// meanwhile.
pub struct FileLines {
    paths: Vec<String>,
    repeat: u64,
    stretches: Vec<Stretch>,
    reader: Option<LineReader>,
    limit: usize,
    /// The last file that had its warning.
    warned: Option<PathBuf>,
}

impl FileLines {
    /// Reads these files in order: paths, patterns with `*`, `?` and `[...]`, or `-` for standard input.
    pub fn new(paths: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let paths = paths.into_iter().map(Into::into).collect();
        Self { paths, repeat: 1, stretches: Vec::new(), reader: None, limit: 0, warned: None }
    }

    /// Reads them all this many times, one time after the other.
    #[must_use]
    pub fn repeat(mut self, times: u64) -> Self {
        self.repeat = times;
        self
    }

    pub(super) fn from_args(args: &Args) -> Self {
        Self::new(args.texts("path")).repeat(args.number("repeat").unwrap_or(1))
    }

    /// Begins to read everything for the next time; `false` when that was the last.
    fn begin(&mut self) -> bool {
        if self.repeat == 0 || self.stretches.is_empty() {
            return false;
        }
        self.repeat -= 1;
        self.reader = Some(LineReader::new(self.stretches.clone(), self.limit));
        true
    }
}

impl Spout for FileLines {
    type Id = ();

    fn open(&mut self, context: &Context) -> Result<()> {
        self.limit = context.config().number(config::TUPLE_MAX_BYTES) as usize;
        let files = files::expand(&self.paths)?;
        self.stretches = files::share(&files, context.index(), context.parallelism())?;
        Ok(())
    }

    fn next_tuple(&mut self, out: &mut SpoutCollector<()>) -> Result<Next> {
        loop {
            if self.reader.is_none() && !self.begin() {
                return Ok(Next::Exhausted);
            }
            let Some(reader) = &mut self.reader else { continue };
            let line = match reader.next_line()? {
                NextLine::Line(bytes) => String::from_utf8_lossy(bytes),
                NextLine::NotReady => return Ok(Next::Wait(PIPE_DELAY)),
                NextLine::End => {
                    self.reader = None;
                    continue;
                }
            };
            let emitted = out.emit(&Line { line: &line }).untracked();
            if matches!(line, Cow::Owned(_)) {
                warn_once(&mut self.warned, reader);
            }
            return emitted.map(|()| Next::Emitted).map_err(|error| place(error, reader));
        }
    }
}

fn warn_once(warned: &mut Option<PathBuf>, reader: &LineReader) {
    let Some(position) = reader.position() else { return };
    if warned.as_deref() != Some(position.path()) {
        let (path, line) = (position.path().display(), position.line());
        tracing::warn!(
            "`{path}`, line {line}: bytes that are no UTF-8 are replaced by U+FFFD, here and further on"
        );
        *warned = Some(position.path().to_owned());
    }
}

/// A line that makes too large a tuple gets its place; any other error stays.
fn place(error: crate::Error, reader: &LineReader) -> crate::Error {
    match (error.downcast_ref(), reader.position()) {
        (Some(EmitError::TooLarge { limit, .. }), Some(at)) => {
            LinesError::TooLong { path: at.path().to_owned(), line: at.line(), limit: *limit }.into()
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use serde_json::json;

    fn lines(tuples: Vec<Vec<String>>) -> Vec<String> {
        tuples.into_iter().map(|mut tuple| tuple.remove(0)).collect()
    }

    #[test]
    fn each_line_once_in_order_and_again_when_repeated() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.txt"), "one\r\n\n two \t\n").unwrap();
        std::fs::write(folder.path().join("b.txt"), "three").unwrap();
        let path = folder.path().join("*.txt");
        let mut spout = Bench::spout("file-lines", json!({"path": [path], "repeat": 2})).start().unwrap();
        let (tuples, errors) = spout.drain();
        assert_eq!(lines(tuples), ["one", "", " two \t", "three", "one", "", " two \t", "three"]);
        assert!(errors.is_empty(), "{errors:?}");
    }

    #[test]
    fn tasks_share_the_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        let text: String = (0..1000).map(|i| format!("{i}\n")).collect();
        std::fs::write(&path, text).unwrap();
        let share = |task| {
            let bench = Bench::spout("file-lines", json!({"path": path})).task(task, 3);
            lines(bench.start().unwrap().drain().0)
        };
        let shares: Vec<_> = (0..3).map(share).collect();
        assert!(shares.iter().all(|share| share.len() > 250), "{shares:?}");
        let expected: Vec<_> = (0..1000).map(|i| i.to_string()).collect();
        assert_eq!(shares.concat(), expected);
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("latin1.txt");
        std::fs::write(&path, b"caf\xe9\nok\n").unwrap();
        let (tuples, _) = Bench::spout("file-lines", json!({"path": path})).start().unwrap().drain();
        assert_eq!(lines(tuples), ["caf\u{fffd}", "ok"]);
    }

    #[test]
    fn a_line_over_the_limit_is_an_error_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long.txt");
        // The bench's limit is 64 KiB for the tuple, of which 8 bytes are not the line's.
        let text = ["x".repeat((64 << 10) - 8), "y".repeat((64 << 10) - 7), "z".to_owned()].join("\n");
        std::fs::write(&path, text).unwrap();
        let (tuples, errors) = Bench::spout("file-lines", json!({"path": path})).start().unwrap().drain();
        assert_eq!(tuples.len(), 2);
        assert_eq!(errors.len(), 1);
        assert!(errors[0].contains("long.txt`, line 2: the line is longer than 65536 bytes"), "{errors:?}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let bench = Bench::spout("file-lines", json!({"path": "/nowhere/book.txt"}));
        let error = bench.start().err().unwrap().to_string();
        assert!(error.starts_with("cannot read `/nowhere/book.txt`: No such file"), "{error}");
    }
}
