//! The built-in `file-lines`, slowed down.

use egret::components::FileLines;
use egret::{Context, Next, Result, Spout, SpoutCollector};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

type Id = <FileLines as Spout>::Id;

/// How often a new share of the rate is given out.
const SHARE: Duration = Duration::from_millis(5);

/// [`FileLines`] of `FOLDER/input` that emits as many lines a second as `FOLDER/rate` says, until there is a file
/// `FOLDER/free`. What it missed while nothing went out it does not make up for.
pub(crate) struct PacedLines {
    lines: FileLines,
    folder: PathBuf,
    share: u64,
    left: u64,
    next: Instant,
    free: bool,
}

impl PacedLines {
    pub(crate) fn new(folder: &Path) -> Self {
        let lines = FileLines::new([folder.join("input").to_string_lossy()]);
        Self { lines, folder: folder.to_owned(), share: 0, left: 0, next: Instant::now(), free: false }
    }

    /// How long until the next line may go out, if not now.
    fn wait(&mut self) -> Option<Duration> {
        if self.left > 0 || self.free {
            self.left = self.left.saturating_sub(1);
            return None;
        }
        let now = Instant::now();
        if now < self.next {
            return Some(self.next - now);
        }
        self.free = self.folder.join("free").exists();
        (self.next, self.left) = (now + SHARE, self.share.max(1) - 1);
        None
    }
}

impl Spout for PacedLines {
    type Id = Id;

    fn open(&mut self, context: &Context) -> Result<()> {
        let rate = std::fs::read_to_string(self.folder.join("rate"))?.trim().parse::<u64>()?;
        self.share = rate * SHARE.as_millis() as u64 / 1000;
        self.lines.open(context)
    }

    fn next_tuple(&mut self, out: &mut SpoutCollector<Id>) -> Result<Next> {
        match self.wait() {
            Some(time) => Ok(Next::Wait(time)),
            None => self.lines.next_tuple(out),
        }
    }

    fn ack(&mut self, id: Id) {
        self.lines.ack(id);
    }

    fn fail(&mut self, id: Id) {
        self.lines.fail(id);
    }

    fn close(&mut self) {
        self.lines.close();
    }
}
