//! The `file-lines` spout: each line of its files once.

use super::args::{ArgKind, ArgProblem, ArgSpec, Args};
use super::files::{self, LinesError, Stretch};
use super::line_place::{LinePlace, Rereader};
use super::lines::{LineReader, NextLine};
use super::progress::{Progress, Start, is_tracked};
use super::schema::default_stream;
use super::types::ComponentType;
use crate::collector::EmitError;
use crate::topology::Factory;
use crate::{Acked, Context, Next, Result, Spout, SpoutCollector, Tuple};
use egret_dataplane::plan::config;
use egret_dataplane::plan::{FieldKind, Role};
use std::borrow::Cow;
use std::collections::BTreeMap;
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
/// meanwhile, but for growing; what is added is not read.
///
/// In `ATLEAST_ONCE` a line that fails is emitted again, before new ones. A task whose process died goes on: in
/// `ATLEAST_ONCE` with what was not acked, otherwise behind everything that may have been emitted. If a file has changed
/// by then, that is an error. Of standard input and pipes, what the process had read is lost with it.
pub struct FileLines {
    paths: Vec<String>,
    repeat: u64,
    stretches: Vec<Stretch>,
    reader: Option<LineReader>,
    /// How many times everything was read, or begun to be read.
    passes: u64,
    limit: usize,
    progress: Option<Progress<LinePlace>>,
    rereader: Rereader,
    /// The lines in flight that cannot be read again.
    kept: BTreeMap<LinePlace, Box<[u8]>>,
    /// The last file that had its warning.
    warned: Option<PathBuf>,
}

impl FileLines {
    /// Reads these files in order: paths, patterns with `*`, `?` and `[...]`, or `-` for standard input.
    pub fn new(paths: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            paths: paths.into_iter().map(Into::into).collect(),
            repeat: 1,
            stretches: Vec::new(),
            reader: None,
            passes: 0,
            limit: 0,
            progress: None,
            rereader: Rereader::default(),
            kept: BTreeMap::new(),
            warned: None,
        }
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
        if self.passes >= self.repeat || self.stretches.is_empty() {
            return false;
        }
        self.read_from(LinePlace { pass: self.passes, ..LinePlace::default() });
        true
    }

    fn read_from(&mut self, place: LinePlace) {
        self.passes = place.pass + 1;
        self.reader = Some(LineReader::new(&self.stretches, self.limit, place));
    }

    /// Where the next new line is looked for.
    fn next_place(&self) -> LinePlace {
        let none = LinePlace { pass: self.passes, ..LinePlace::default() };
        self.reader.as_ref().map_or(none, LineReader::next_place)
    }

    /// Goes on from where an earlier process of this task was.
    fn resume(&mut self, place: LinePlace, is_tracked: bool) -> Result<()> {
        let ahead = self.stretches.iter().skip(place.stretch as usize);
        let again = self.stretches.iter().filter(|_| place.pass + 1 < self.repeat);
        if place.pass < self.repeat {
            ahead.clone().chain(again).try_for_each(Stretch::check_unchanged)?;
        }
        if let Some(pipe) = ahead.clone().find(|stretch| !stretch.is_rereadable())
            && is_tracked
        {
            let path = pipe.path.display();
            tracing::warn!(
                "an earlier process of this task died: lines of `{path}` that it had read and that were not processed \
                 are lost, since that cannot be read again"
            );
        }
        tracing::info!("going on with byte {} of file {}, time {}", place.at, place.stretch, place.pass + 1);
        if place.pass < self.repeat {
            self.read_from(place);
        } else {
            self.passes = self.repeat;
        }
        Ok(())
    }

    /// Emits a line again; `false` when it is gone with the process that kept it.
    fn replay(&mut self, out: &mut SpoutCollector<u64>, place: LinePlace) -> Result<bool> {
        let Some(progress) = &mut self.progress else { return Ok(false) };
        let bytes = if is_rereadable(&self.stretches, place) {
            let line = self.rereader.line(&self.stretches, place);
            line.inspect_err(|_| progress.put_back(place))?
        } else if let Some(bytes) = self.kept.get(&place) {
            bytes
        } else {
            progress.leave_out(place);
            return Ok(false);
        };
        let line = String::from_utf8_lossy(bytes);
        let emitted = progress.emit(out.emit(&Line { line: &line }), place);
        drop(line);
        forget_if_given_up(&mut self.kept, place, &emitted);
        emitted.map(|()| true)
    }

    /// Emits the next new line.
    fn read(&mut self, out: &mut SpoutCollector<u64>) -> Result<Read> {
        let (Some(reader), Some(progress)) = (&mut self.reader, &mut self.progress) else {
            return Ok(Read::End);
        };
        let (bytes, place) = match reader.next_line()? {
            NextLine::Line(bytes, place) => (bytes, place),
            NextLine::NotReady => return Ok(Read::NotReady),
            NextLine::End => return Ok(Read::End),
        };
        progress.begin(place)?;
        if progress.replays() && !is_rereadable(&self.stretches, place) {
            self.kept.insert(place, bytes.into());
        }
        let line = String::from_utf8_lossy(bytes);
        let emitted = progress.emit(out.emit(&Line { line: &line }), place);
        forget_if_given_up(&mut self.kept, place, &emitted);
        if matches!(line, Cow::Owned(_)) {
            warn_once(&mut self.warned, reader);
        }
        emitted.map(|()| Read::Emitted).map_err(|error| name_place(error, reader))
    }

    /// Nothing new is at hand, or will ever be.
    fn rest(&mut self, ended: bool) {
        let next = self.next_place();
        if let Some(progress) = &mut self.progress {
            progress.rest(next, ended);
        }
    }
}

/// A line that cannot be emitted does not come again.
fn forget_if_given_up(kept: &mut BTreeMap<LinePlace, Box<[u8]>>, place: LinePlace, emitted: &Result<()>) {
    if emitted.as_ref().is_err_and(|error| !error.is_stopped()) {
        kept.remove(&place);
    }
}

/// What reading came to.
enum Read {
    Emitted,
    NotReady,
    End,
}

impl Spout for FileLines {
    type Id = u64;

    fn open(&mut self, context: &Context) -> Result<()> {
        self.limit = context.config().number(config::TUPLE_MAX_BYTES) as usize;
        let (index, tasks) = (context.index(), context.parallelism());
        let kind = format!("lines of {:?}, {} times, task {index} of {tasks}", self.paths, self.repeat);
        let setup = || {
            let files = files::expand(&self.paths)?;
            Ok(serde_json::to_vec(&files::share(&files, index, tasks)?)?)
        };
        let (progress, start) = Progress::open(context, &kind, LinePlace::default(), setup)?;
        let Start { place, setup, resumed } = start;
        self.stretches = serde_json::from_slice(&setup)?;
        self.progress = Some(progress);
        if resumed { self.resume(place, is_tracked(context)) } else { Ok(()) }
    }

    fn next_tuple(&mut self, out: &mut SpoutCollector<u64>) -> Result<Next> {
        while let Some(place) = self.progress.as_mut().and_then(Progress::next_failed) {
            if self.replay(out, place)? {
                return Ok(Next::Emitted);
            }
        }
        loop {
            if self.reader.is_none() && !self.begin() {
                self.rest(true);
                return Ok(Next::Exhausted);
            }
            match self.read(out)? {
                Read::Emitted => return Ok(Next::Emitted),
                Read::NotReady => {
                    self.rest(false);
                    return Ok(Next::Wait(PIPE_DELAY));
                }
                Read::End => self.reader = None,
            }
        }
    }

    fn ack_all(&mut self, ids: &mut Acked<'_, u64>) {
        match &mut self.progress {
            Some(progress) if self.kept.is_empty() => progress.ack_all(ids),
            _ => ids.for_each(|id| self.ack(id)),
        }
    }

    fn ack(&mut self, id: u64) {
        let place = self.progress.as_mut().and_then(|progress| progress.ack(id));
        if let Some(place) = place
            && !self.kept.is_empty()
        {
            self.kept.remove(&place);
        }
    }

    fn fail(&mut self, id: u64) {
        if let Some(progress) = &mut self.progress {
            progress.fail(id);
        }
    }

    fn close(&mut self) {
        let next = self.next_place();
        if let Some(progress) = &mut self.progress {
            progress.close(next);
        }
    }
}

fn is_rereadable(stretches: &[Stretch], place: LinePlace) -> bool {
    stretches.get(place.stretch as usize).is_some_and(Stretch::is_rereadable)
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
fn name_place(error: crate::Error, reader: &LineReader) -> crate::Error {
    match (error.downcast_ref(), reader.position()) {
        (Some(EmitError::TooLarge { limit, .. }), Some(at)) => {
            LinesError::TooLong { path: at.path().to_owned(), line: at.line(), limit: *limit }.into()
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests;
