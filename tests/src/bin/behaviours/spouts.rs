//! The spouts of the cases.

use crate::tuples::{Key, Keyed, Number, Pair, Word};
use egret::{Context, Next, Result, Spout, SpoutCollector, TaskId};
use egret_tests::records::Recorder;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

/// Emits numbers `0..count`, each as `make` says.
pub(crate) struct Counting<F> {
    left: Range<u64>,
    emit: F,
}

impl<F: FnMut(u64, &mut SpoutCollector<u64>) -> Result<()>> Counting<F> {
    pub(crate) fn new(count: u64, emit: F) -> Self {
        Self { left: 0..count, emit }
    }
}

impl<F: FnMut(u64, &mut SpoutCollector<u64>) -> Result<()> + 'static> Spout for Counting<F> {
    type Id = u64;

    fn next_tuple(&mut self, out: &mut SpoutCollector<u64>) -> Result<Next> {
        let Some(n) = self.left.next() else { return Ok(Next::Exhausted) };
        (self.emit)(n, out)?;
        Ok(Next::Emitted)
    }
}

/// `A` and `B` in turn with their numbers: `A_0`, `B_1`, `A_2`, …
pub(crate) fn numbered_words(count: u64) -> impl Spout {
    Counting::new(count, |n, out| {
        let word = format!("{}_{n}", ["A", "B"][n as usize % 2]);
        out.emit(&Word { word: &word }).id(n)
    })
}

/// `A` and `B` in turn.
pub(crate) fn words(count: u64) -> impl Spout {
    Counting::new(count, |n, out| out.emit(&Word { word: ["A", "B"][n as usize % 2] }).id(n))
}

/// `hot` nine times of ten, otherwise one of a hundred cold words.
pub(crate) fn one_hot_word(count: u64) -> impl Spout {
    Counting::new(count, |n, out| match n % 10 {
        0 => out.emit(&Word { word: &format!("cold-{}", n / 10 % 100) }).id(n),
        _ => out.emit(&Word { word: "hot" }).id(n),
    })
}

/// `0..count`.
pub(crate) fn numbers(count: u64) -> impl Spout {
    Counting::new(count, |n, out| out.emit(&Number { n }).id(n))
}

/// `0..count` under 997 keys.
pub(crate) fn keyed(count: u64) -> impl Spout {
    Counting::new(count, |n, out| out.emit(&Keyed { key: n % 997, n }).id(n))
}

/// Each number on three streams, of which each has its own type.
pub(crate) fn on_three_streams(count: u64) -> impl Spout {
    Counting::new(count, |n, out| {
        out.emit(&Word { word: &format!("word-{n}") }).on("words").id(n)?;
        out.emit(&Number { n }).on("numbers").id(n)?;
        out.emit(&Pair { left: n, right: n + 1 }).on("pairs").id(n)
    })
}

/// Sends number `n` to task `n % 3` of `record`, then tries in vain to send to tasks that do not read its stream.
pub(crate) struct Direct {
    pub(crate) left: Range<u64>,
    pub(crate) readers: Vec<TaskId>,
    pub(crate) bad: Vec<(&'static str, Option<TaskId>)>,
    pub(crate) folder: PathBuf,
    pub(crate) record: Option<Recorder>,
}

impl Spout for Direct {
    type Id = u64;

    fn open(&mut self, context: &Context) -> Result<()> {
        self.readers = context.tasks("record").collect();
        let unknown = TaskId(context.topology().task_count() + 1);
        self.bad = vec![
            ("other", context.tasks("other").next()),
            ("itself", Some(context.task())),
            ("unknown", Some(unknown)),
            ("zero", Some(TaskId(0))),
            ("-1", Some(TaskId(u32::MAX))),
            ("nobody", None),
        ];
        self.record = Some(crate::recorder(&self.folder, context)?);
        Ok(())
    }

    fn next_tuple(&mut self, out: &mut SpoutCollector<u64>) -> Result<Next> {
        if let Some(n) = self.left.next() {
            let reader = self.readers[n as usize % self.readers.len()];
            out.emit(&Number { n }).direct(reader).id(n)?;
            return Ok(Next::Emitted);
        }
        for (name, task) in &self.bad {
            let emission = out.emit(&Number { n: 1_000_000 });
            let emission = match task {
                Some(task) => emission.direct(*task),
                None => emission,
            };
            let outcome = emission.id(0).map_or_else(|error| error.to_string(), |()| "sent".to_owned());
            crate::note(&mut self.record, format!("{name}: {outcome}"))?;
        }
        Ok(Next::Exhausted)
    }
}

/// Emits numbers, some hundred a second, until a file is there.
pub(crate) struct UntilTold {
    enough: PathBuf,
    next: u64,
}

impl UntilTold {
    pub(crate) fn new(enough: PathBuf) -> Self {
        Self { enough, next: 0 }
    }
}

impl Spout for UntilTold {
    type Id = u64;

    fn next_tuple(&mut self, out: &mut SpoutCollector<u64>) -> Result<Next> {
        if self.enough.exists() {
            return Ok(Next::Exhausted);
        }
        out.emit(&Number { n: self.next }).id(self.next)?;
        self.next += 1;
        Ok(Next::Wait(Duration::from_millis(1)))
    }
}

/// Never has anything.
pub(crate) struct Silent;

impl Spout for Silent {
    type Id = u64;

    fn next_tuple(&mut self, _: &mut SpoutCollector<u64>) -> Result<Next> {
        Ok(Next::Idle)
    }
}

/// Emits one number and then stays idle.
#[derive(Default)]
pub(crate) struct OneThenSilence {
    emitted: bool,
}

impl Spout for OneThenSilence {
    type Id = u64;

    fn next_tuple(&mut self, out: &mut SpoutCollector<u64>) -> Result<Next> {
        if std::mem::replace(&mut self.emitted, true) {
            return Ok(Next::Idle);
        }
        out.emit(&Number { n: 7 }).id(7)?;
        Ok(Next::Emitted)
    }
}

/// Emits every awkward key on the streams `text`, `whole` and `float`, and then stays idle.
#[derive(Default)]
pub(crate) struct AwkwardKeys {
    emitted: bool,
}

impl AwkwardKeys {
    fn emit(out: &mut SpoutCollector<u64>) -> Result<()> {
        let key = Key { name: "", text: "", whole: 0, float: 0.0 };
        let texts = (0..50).map(|n| format!("key-{n}")).chain(["", "\u{10ffff}", "\0"].map(str::to_owned));
        for text in texts.collect::<Vec<_>>() {
            let name = format!("text {}", text.escape_unicode());
            out.emit(&Key { name: &name, text: &text, ..key }).on("text").id(0)?;
        }
        for whole in [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX].into_iter().chain(100..150) {
            out.emit(&Key { name: &format!("whole {whole}"), whole, ..key }).on("whole").id(0)?;
        }
        let other_nan = f64::from_bits(f64::NAN.to_bits() | 1 << 63 | 5);
        let special = [0.0, -0.0, f64::NAN, -f64::NAN, other_nan, f64::INFINITY, f64::MIN, f64::MIN_POSITIVE];
        for float in special.into_iter().chain((0..50).map(|n| f64::from(n) / 7.0)) {
            let same = if float.is_nan() { f64::NAN } else { float + 0.0 };
            out.emit(&Key { name: &format!("float {same:e}"), float, ..key }).on("float").id(0)?;
        }
        Ok(())
    }
}

impl Spout for AwkwardKeys {
    type Id = u64;

    fn next_tuple(&mut self, out: &mut SpoutCollector<u64>) -> Result<Next> {
        if std::mem::replace(&mut self.emitted, true) {
            return Ok(Next::Idle);
        }
        Self::emit(out)?;
        Ok(Next::Emitted)
    }
}
