//! Word count with the Rust API: a spout of the library, two bolts of our own, and a built-in sink.
//!
//! ```text
//! lines ──shuffle──► split x2 ──fields(word)──► count x2 ──global──► top ──global──► out
//! ```
//!
//! Run it from the repository's folder; the twenty most frequent words are then in `word-count.tsv` in the folder for
//! temporary files:
//!
//! ```console
//! $ cargo build --release -p egret --example word_count
//! $ cargo run --release -- run target/release/examples/word_count
//! ```

use egret::components::{FileLines, FileSink, Line, Top};
use egret::{Bolt, BoltCollector, Context, Counter, Input, Result, TopologyBuilder, Tuple};
use std::collections::HashMap;
use std::process::ExitCode;

/// The documents of this repository.
const DOCUMENTS: [&str; 2] =
    [concat!(env!("CARGO_MANIFEST_DIR"), "/../*.md"), concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/*.md")];

/// A tuple type is a struct. It may borrow: the text is written straight into shared memory, and read there.
#[derive(Tuple)]
struct Word<'a> {
    word: &'a str,
}

#[derive(Tuple)]
struct WordCount<'a> {
    word: &'a str,
    count: u64,
}

/// Splits lines into words of letters, in lower case.
#[derive(Default)]
struct Split {
    words: Counter,
    word: String,
}

impl Bolt for Split {
    fn prepare(&mut self, context: &Context) -> Result<()> {
        self.words = context.counter("words");
        Ok(())
    }

    fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> Result<()> {
        let line = input.get::<Line<'_>>()?.line;
        for text in line.split(|c: char| !c.is_alphabetic()).filter(|text| !text.is_empty()) {
            self.word.clear();
            self.word.extend(text.chars().flat_map(char::to_lowercase));
            out.emit(&Word { word: &self.word }).anchor(input)?;
            self.words.increment();
        }
        out.ack(input)
    }
}

/// Counts words, and emits the counts once the input has ended.
#[derive(Default)]
struct Count {
    counts: HashMap<String, u64>,
}

impl Bolt for Count {
    fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> Result<()> {
        let word = input.get::<Word<'_>>()?.word;
        match self.counts.get_mut(word) {
            Some(count) => *count += 1,
            None => _ = self.counts.insert(word.to_owned(), 1),
        }
        out.ack(input)
    }

    fn finish(&mut self, out: &mut BoltCollector) -> Result<()> {
        for (word, &count) in &self.counts {
            out.emit(&WordCount { word, count }).unanchored()?;
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    let mut t = TopologyBuilder::new("word-count-rust");
    t.config("topology.containers", 2);
    t.spout("lines", 1, || FileLines::new(DOCUMENTS)).emits::<Line<'_>>();
    t.bolt("split", 2, Split::default).shuffle("lines").emits::<Word<'_>>();
    t.bolt("count", 2, Count::default).fields("split", ["word"]).emits::<WordCount<'_>>();
    t.bolt("top", 1, || Top::by("count").keep(20)).global("count").emits::<WordCount<'_>>();
    t.bolt("out", 1, || FileSink::new(std::env::temp_dir().join("word-count.tsv"))).global("top");
    egret::main(t)
}
