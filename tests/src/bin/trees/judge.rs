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
    /// Failed when this number comes.
    FailWith(u64),
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
    due: Due,
    item: Item,
    held: Held,
}

/// When a tuple that is kept is settled.
#[derive(Clone, Copy)]
enum Due {
    /// Acked at this time.
    Ack(u64),
    /// Failed with this number.
    Fail(u64),
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

    fn keep(&mut self, item: Item, due: Due, input: &Input<'_>) -> Result<()> {
        self.later.push(Later { due, item, held: input.hold() });
        self.most = self.most.max(self.later.len());
        Ok(())
    }

    /// Acks or fails what is due.
    fn settle(&mut self, is_due: impl Fn(Due) -> bool, out: &mut BoltCollector) -> Result<()> {
        for later in self.later.extract_if(.., |later| is_due(later.due)).collect::<Vec<_>>() {
            self.note(format_args!("late {} {}", later.item.n, now_us() - later.item.at_us))?;
            match later.due {
                Due::Ack(_) => out.ack(&later.held)?,
                Due::Fail(_) => out.fail(&later.held)?,
            }
        }
        Ok(())
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
        self.settle(|due| matches!(due, Due::Fail(with) if with == item.n), out)?;
        match (self.fate)(item.n, times) {
            Fate::Ack => out.ack(input),
            Fate::AckAndMore => out.ack(input).and_then(|()| out.ack(input)).and_then(|()| out.fail(input)),
            Fate::Fail => out.fail(input),
            Fate::FailAndMore => out.fail(input).and_then(|()| out.fail(input)).and_then(|()| out.ack(input)),
            Fate::AckAfter(us) => self.keep(item, Due::Ack(item.at_us + us), input),
            Fate::FailWith(n) => self.keep(item, Due::Fail(n), input),
            Fate::Never => Ok(()),
            Fate::Error => Err(std::io::Error::other(format!("item {} is refused", item.n)).into()),
            Fate::Panic => panic!("item {} is too much", item.n),
        }
    }

    fn tick(&mut self, out: &mut BoltCollector) -> Result<()> {
        let now = now_us();
        self.settle(|due| matches!(due, Due::Ack(at_us) if at_us <= now), out)
    }

    fn finish(&mut self, _: &mut BoltCollector) -> Result<()> {
        let most = self.most;
        self.note(format_args!("held {most}"))
    }
}
