//! The bolt that decides what becomes of each tuple.

use crate::Item;
use egret::{Bolt, BoltCollector, Context, Held, Input, Result, TaskId};
use egret_tests::clock::now_us;
use egret_tests::records::Recorder;
use std::collections::HashMap;
use std::path::PathBuf;

/// What is done with a tuple. Times are from its emission, in microseconds.
#[derive(Clone, Copy)]
pub(crate) enum Fate {
    Ack,
    /// Acked, acked again, and failed.
    AckAndMore,
    Fail,
    /// Failed, failed again, and acked.
    FailAndMore,
    AckAfter(u64),
    FailAfter(u64),
    Never,
    /// The call gives an error.
    Error,
    /// The call panics.
    Panic,
}

/// Does with each tuple what `fate` says of its number and of how often it came.
///
/// It writes `got NUMBER` for each tuple, `late NUMBER ELAPSED_US` for each that it settled later, and at its end
/// `held MOST` with how many it had kept at once.
pub(crate) struct Judge {
    folder: Option<PathBuf>,
    record: Option<Recorder>,
    fate: fn(u64, u32) -> Fate,
    /// How often each came, by spout task and number.
    seen: HashMap<(TaskId, u64), u32>,
    later: Vec<Later>,
    most: usize,
}

struct Later {
    due_us: u64,
    item: Item,
    held: Held,
    fails: bool,
}

impl Judge {
    pub(crate) fn new(folder: PathBuf, fate: fn(u64, u32) -> Fate) -> Self {
        Self { folder: Some(folder), record: None, fate, seen: HashMap::new(), later: Vec::new(), most: 0 }
    }

    /// One that remembers and writes down nothing: every tuple comes the first time.
    pub(crate) fn forgetful(fate: fn(u64, u32) -> Fate) -> Self {
        Self { folder: None, record: None, fate, seen: HashMap::new(), later: Vec::new(), most: 0 }
    }

    fn note(&mut self, line: impl std::fmt::Display) -> Result<()> {
        self.record.as_mut().map_or(Ok(()), |record| Ok(record.write(line)?))
    }

    /// How often it has come now.
    fn count(&mut self, from: TaskId, n: u64) -> u32 {
        if self.folder.is_none() {
            return 1;
        }
        let times = self.seen.entry((from, n)).or_default();
        *times += 1;
        *times
    }

    fn keep(&mut self, item: Item, after_us: u64, fails: bool, input: &Input<'_>) {
        self.later.push(Later { due_us: item.at_us + after_us, item, held: input.hold(), fails });
        self.most = self.most.max(self.later.len());
    }
}

impl Bolt for Judge {
    fn prepare(&mut self, context: &Context) -> Result<()> {
        self.record = self.folder.as_ref().map(|folder| crate::recorder(folder, context)).transpose()?;
        Ok(())
    }

    fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> Result<()> {
        let item = input.get::<Item>()?;
        let times = self.count(input.source().1, item.n);
        self.note(format_args!("got {}", item.n))?;
        match (self.fate)(item.n, times) {
            Fate::Ack => out.ack(input),
            Fate::AckAndMore => out.ack(input).and_then(|()| out.ack(input)).and_then(|()| out.fail(input)),
            Fate::Fail => out.fail(input),
            Fate::FailAndMore => out.fail(input).and_then(|()| out.fail(input)).and_then(|()| out.ack(input)),
            Fate::AckAfter(us) => {
                self.keep(item, us, false, input);
                Ok(())
            }
            Fate::FailAfter(us) => {
                self.keep(item, us, true, input);
                Ok(())
            }
            Fate::Never => Ok(()),
            Fate::Error => Err(std::io::Error::other(format!("item {} is refused", item.n)).into()),
            Fate::Panic => panic!("item {} is too much", item.n),
        }
    }

    fn tick(&mut self, out: &mut BoltCollector) -> Result<()> {
        let now = now_us();
        for later in self.later.extract_if(.., |later| later.due_us <= now).collect::<Vec<_>>() {
            self.note(format_args!("late {} {}", later.item.n, now_us() - later.item.at_us))?;
            if later.fails { out.fail(&later.held)? } else { out.ack(&later.held)? }
        }
        Ok(())
    }

    fn finish(&mut self, _: &mut BoltCollector) -> Result<()> {
        let most = self.most;
        self.note(format_args!("held {most}"))
    }
}
