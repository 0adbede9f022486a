//! The `random-words` spout: words drawn at random.

use super::args::{ArgKind, ArgSpec, Args};
use super::dictionary::{WordBuffer, draw, word};
use super::numbers::{Numbers, Range, Step};
use super::pace;
use super::schema::default_stream;
use super::split_words::Word;
use super::types::ComponentType;
use crate::topology::Factory;
use crate::{Acked, Context, Next, Result, Spout, SpoutCollector};
use egret_dataplane::plan::{FieldKind, Role};

/// The type `random-words`.
pub(super) static TYPE: ComponentType = ComponentType {
    name: "random-words",
    role: Role::Spout,
    help: "emits words drawn at random from a made-up dictionary",
    args: &[
        ArgSpec::optional(
            "dictionary",
            ArgKind::Number(1, 100_000_000),
            "how many distinct words there are; 450000 by default",
        ),
        pace::COUNT,
        pace::RATE,
        ArgSpec::optional(
            "seed",
            ArgKind::Number(0, u64::MAX),
            "another seed gives another draw; 0 by default",
        ),
    ],
    outputs: |_, _| Ok(default_stream(&[("word", FieldKind::Str)])),
    check: |_, _| Ok(()),
    make: |args| Factory::spout(move || RandomWords::from_args(&args)),
};

/// How many distinct words there are unless the user says otherwise.
pub(super) const DICTIONARY: u64 = 450_000;

/// Emits [`Word`]s drawn at random, each equally often in the long run, from a dictionary of made-up words.
///
/// The same seed, dictionary and count give the same words, however many tasks share the work: each draw has a number,
/// and task `i` of `k` makes the draws `i`, `i + k`, `i + 2k`, ... A rate paces them, failed ones are emitted again and a
/// successor goes on as in [`Sequence`](super::Sequence).
pub struct RandomWords {
    dictionary: u64,
    range: Range,
    seed: u64,
    numbers: Option<Numbers>,
    buffer: WordBuffer,
}

impl Default for RandomWords {
    fn default() -> Self {
        let buffer = WordBuffer::default();
        Self { dictionary: DICTIONARY, range: Range::default(), seed: 0, numbers: None, buffer }
    }
}

impl RandomWords {
    /// Words of a dictionary of 450,000, without end, as fast as possible.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Draws from this many distinct words; at least 1.
    #[must_use]
    pub fn dictionary(mut self, words: u64) -> Self {
        self.dictionary = words.max(1);
        self
    }

    /// Ends after this many words, over all tasks.
    #[must_use]
    pub fn count(mut self, count: u64) -> Self {
        self.range.count = Some(count);
        self
    }

    /// Emits so many per second, over all tasks.
    #[must_use]
    pub fn rate(mut self, per_second: f64) -> Self {
        self.range.rate = Some(per_second);
        self
    }

    /// Another seed gives another draw.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    pub(super) fn from_args(args: &Args) -> Self {
        let words = Self::new()
            .dictionary(args.number("dictionary").unwrap_or(DICTIONARY))
            .seed(args.number("seed").unwrap_or(0));
        Self { range: Range::from_args(args), ..words }
    }
}

impl Spout for RandomWords {
    type Id = u64;

    fn open(&mut self, context: &Context) -> Result<()> {
        let kind = format!("random words of {}, seed {}", self.dictionary, self.seed);
        self.numbers = Some(Numbers::open(context, &kind, self.range)?);
        Ok(())
    }

    fn next_tuple(&mut self, out: &mut SpoutCollector<u64>) -> Result<Next> {
        let Some(numbers) = &mut self.numbers else { return Ok(Next::Exhausted) };
        match numbers.next()? {
            Step::Emit(number) => {
                let word = word(draw(self.seed, number, self.dictionary), &mut self.buffer);
                numbers.emit(out.emit(&Word { word }), number)
            }
            Step::Rest(next) => Ok(next),
        }
    }

    fn ack(&mut self, id: u64) {
        if let Some(numbers) = &mut self.numbers {
            numbers.ack(id);
        }
    }

    #[inline]
    fn ack_all(&mut self, ids: &mut Acked<'_, u64>) {
        if let Some(numbers) = &mut self.numbers {
            numbers.ack_all(ids);
        }
    }

    fn fail(&mut self, id: u64) {
        if let Some(numbers) = &mut self.numbers {
            numbers.fail(id);
        }
    }

    fn close(&mut self) {
        if let Some(numbers) = &mut self.numbers {
            numbers.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::RandomWords;
    use crate::Spout;
    use serde_json::json;
    use std::collections::HashSet;

    fn words(args: serde_json::Value, tasks: u32) -> Vec<String> {
        let share =
            |task| Bench::spout("random-words", args.clone()).task(task, tasks).start().unwrap().drain().0;
        (0..tasks).flat_map(share).map(|mut tuple| tuple.remove(0)).collect()
    }

    #[test]
    fn the_same_words_whatever_the_parallelism() {
        let args = json!({"count": 1000, "dictionary": 50, "seed": 3});
        let (mut one, mut three) = (words(args.clone(), 1), words(args, 3));
        let distinct: HashSet<_> = one.iter().cloned().collect();
        assert_eq!((one.len(), distinct.len()), (1000, 50));
        one.sort();
        three.sort();
        assert_eq!(one, three);
        assert_ne!(words(json!({"count": 9}), 1), words(json!({"count": 9, "seed": 1}), 1));
    }

    #[test]
    fn a_failed_draw_gives_the_same_word() {
        let mut it =
            Bench::spout("random-words", json!({})).track(RandomWords::new().count(5).seed(7)).unwrap();
        let words = it.all().0;
        assert_eq!(words.len(), 5);
        it.spout.fail(3);
        it.spout.fail(0);
        assert_eq!(it.all().0, [words[3].clone(), words[0].clone()]);
    }
}
