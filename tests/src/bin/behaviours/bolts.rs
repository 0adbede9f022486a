//! The bolts of the cases.

use crate::tuples::{Key, Keyed, Number, Pair, Word, WordCount};
use egret::{BasicBolt, BasicCollector, Bolt, BoltCollector, Context, Counter, Held, Input, Result};
use egret_tests::records::Recorder;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Passes every word on.
pub(crate) struct Identity;

impl BasicBolt for Identity {
    fn execute(&mut self, input: &Input<'_>, out: &mut BasicCollector<'_>) -> Result<()> {
        out.emit(&input.get::<Word<'_>>()?)
    }
}

/// Passes every number on.
pub(crate) struct PassNumbers;

impl BasicBolt for PassNumbers {
    fn execute(&mut self, input: &Input<'_>, out: &mut BasicCollector<'_>) -> Result<()> {
        out.emit(&input.get::<Number>()?)
    }
}

/// Panics at the number 3.
pub(crate) struct Moody;

impl BasicBolt for Moody {
    fn execute(&mut self, input: &Input<'_>, _: &mut BasicCollector<'_>) -> Result<()> {
        assert_ne!(input.get::<Number>()?.n, 3, "this bolt does not like that");
        Ok(())
    }
}

/// Writes down every input, as `show` puts it, and counts them as `recorded`.
pub(crate) struct Recording {
    folder: PathBuf,
    record: Option<Recorder>,
    recorded: Option<Counter>,
    show: fn(&Input<'_>) -> Result<String>,
}

impl Recording {
    pub(crate) fn new(folder: PathBuf, show: fn(&Input<'_>) -> Result<String>) -> Self {
        Self { folder, record: None, recorded: None, show }
    }
}

impl BasicBolt for Recording {
    fn prepare(&mut self, context: &Context) -> Result<()> {
        self.record = Some(crate::recorder(&self.folder, context)?);
        self.recorded = Some(context.counter("recorded"));
        Ok(())
    }

    fn execute(&mut self, input: &Input<'_>, _: &mut BasicCollector<'_>) -> Result<()> {
        crate::note(&mut self.record, (self.show)(input)?)?;
        self.recorded.iter().for_each(Counter::increment);
        Ok(())
    }
}

pub(crate) fn word(input: &Input<'_>) -> Result<String> {
    Ok(input.get::<Word<'_>>()?.word.to_owned())
}

pub(crate) fn number(input: &Input<'_>) -> Result<String> {
    Ok(input.get::<Number>()?.n.to_string())
}

pub(crate) fn pair(input: &Input<'_>) -> Result<String> {
    let Pair { left, right } = input.get::<Pair>()?;
    Ok(format!("{left} {right}"))
}

pub(crate) fn key_name(input: &Input<'_>) -> Result<String> {
    Ok(input.get::<Key<'_>>()?.name.to_owned())
}

pub(crate) fn source_task(input: &Input<'_>) -> Result<String> {
    Ok(format!("from {}", input.source().1))
}

/// Counts words and emits the counts at the end.
#[derive(Default)]
pub(crate) struct CountWords {
    counts: BTreeMap<String, u64>,
}

impl BasicBolt for CountWords {
    fn execute(&mut self, input: &Input<'_>, _: &mut BasicCollector<'_>) -> Result<()> {
        let word = input.get::<Word<'_>>()?.word;
        *self.counts.entry(word.to_owned()).or_default() += 1;
        Ok(())
    }

    fn finish(&mut self, out: &mut BasicCollector<'_>) -> Result<()> {
        self.counts.iter().try_for_each(|(word, &count)| out.emit(&WordCount { word, count }))
    }
}

/// Adds up counts and writes down, at the end, the counts it got and their sum.
pub(crate) struct SumCounts {
    pub(crate) folder: PathBuf,
    pub(crate) record: Option<Recorder>,
    pub(crate) sum: u64,
}

impl BasicBolt for SumCounts {
    fn prepare(&mut self, context: &Context) -> Result<()> {
        self.record = Some(crate::recorder(&self.folder, context)?);
        Ok(())
    }

    fn execute(&mut self, input: &Input<'_>, _: &mut BasicCollector<'_>) -> Result<()> {
        let WordCount { word, count } = input.get::<WordCount<'_>>()?;
        self.sum += count;
        crate::note(&mut self.record, format!("{word} {count}"))
    }

    fn finish(&mut self, _: &mut BasicCollector<'_>) -> Result<()> {
        crate::note(&mut self.record, format!("total {}", self.sum))
    }
}

/// Writes down, at the end, how many numbers it got under each key and their sum.
pub(crate) struct Tally {
    pub(crate) folder: PathBuf,
    pub(crate) record: Option<Recorder>,
    pub(crate) keys: BTreeMap<u64, (u64, u64)>,
}

impl BasicBolt for Tally {
    fn prepare(&mut self, context: &Context) -> Result<()> {
        self.record = Some(crate::recorder(&self.folder, context)?);
        Ok(())
    }

    fn execute(&mut self, input: &Input<'_>, _: &mut BasicCollector<'_>) -> Result<()> {
        let Keyed { key, n } = input.get::<Keyed>()?;
        let (count, sum) = self.keys.entry(key).or_default();
        (*count, *sum) = (*count + 1, *sum + n);
        Ok(())
    }

    fn finish(&mut self, _: &mut BasicCollector<'_>) -> Result<()> {
        for (key, (count, sum)) in &self.keys {
            crate::note(&mut self.record, format!("{key} {count} {sum}"))?;
        }
        Ok(())
    }
}

/// Writes down every number that does not follow its predecessor, and at the end how many there were.
pub(crate) struct CheckOrder {
    pub(crate) folder: PathBuf,
    pub(crate) record: Option<Recorder>,
    pub(crate) expected: u64,
}

impl BasicBolt for CheckOrder {
    fn prepare(&mut self, context: &Context) -> Result<()> {
        self.record = Some(crate::recorder(&self.folder, context)?);
        Ok(())
    }

    fn execute(&mut self, input: &Input<'_>, _: &mut BasicCollector<'_>) -> Result<()> {
        let n = input.get::<Number>()?.n;
        if n != self.expected {
            crate::note(&mut self.record, format!("{n} instead of {}", self.expected))?;
        }
        self.expected = n + 1;
        Ok(())
    }

    fn finish(&mut self, _: &mut BasicCollector<'_>) -> Result<()> {
        crate::note(&mut self.record, format!("all {}", self.expected))
    }
}

/// Waits for a number from both `left` and `right`, and emits one tuple for both.
#[derive(Default)]
pub(crate) struct Join {
    waiting: BTreeMap<(bool, u64), Held>,
}

impl Bolt for Join {
    fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> Result<()> {
        let n = input.get::<Number>()?.n;
        let is_left = input.is_from("left");
        let Some(other) = self.waiting.remove(&(!is_left, n)) else {
            self.waiting.insert((is_left, n), input.hold());
            return Ok(());
        };
        out.emit(&Pair { left: n, right: n }).anchors(&[&other, input])?;
        out.ack(&other)?;
        out.ack(input)
    }
}

/// Emits one number at its first tick, and nothing ever after.
#[derive(Default)]
pub(crate) struct EmitAtTick {
    emitted: bool,
}

impl Bolt for EmitAtTick {
    fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> Result<()> {
        out.ack(input)
    }

    fn tick(&mut self, out: &mut BoltCollector) -> Result<()> {
        if std::mem::replace(&mut self.emitted, true) {
            return Ok(());
        }
        out.emit(&Number { n: 8 }).unanchored()
    }
}
