//! The `sequence` spout: the numbers from 0.

use super::args::{ArgKind, ArgProblem, ArgSpec, Args};
use super::numbers::{Numbers, Range, Step};
use super::pace;
use super::schema::{InputSchema, default_stream};
use super::types::ComponentType;
use crate::topology::Factory;
use crate::{Acked, Context, Next, Result, Spout, SpoutCollector, Tuple};
use egret_dataplane::plan::{FieldKind, Role, Stream};

/// The type `sequence`.
pub(super) static TYPE: ComponentType = ComponentType {
    name: "sequence",
    role: Role::Spout,
    help: "emits the numbers from 0",
    args: &[
        pace::COUNT,
        pace::RATE,
        ArgSpec::optional("bytes", ArgKind::Number(0, 64 << 20), "adds a field `payload` of that many bytes"),
    ],
    outputs,
    check: |_, _| Ok(()),
    make: |args| Factory::spout(move || Sequence::from_args(&args)),
};

fn outputs(args: &Args, _: &[InputSchema<'_>]) -> Result<Vec<Stream>, ArgProblem> {
    let fields = [("n", FieldKind::U64), ("payload", FieldKind::Bytes)];
    let used = if args.number("bytes").is_some() { 2 } else { 1 };
    Ok(default_stream(&fields[..used]))
}

/// What [`Sequence`] emits when it has no payload.
#[derive(Tuple, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// The number.
    pub n: u64,
}

/// What [`Sequence`] emits when it has a payload.
#[derive(Tuple, Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberAndPayload<'a> {
    /// The number.
    pub n: u64,
    /// As many bytes as were asked for: 0, 1, 2 and so on, from 255 again to 0.
    pub payload: &'a [u8],
}

/// Emits the numbers from 0, which its tasks share without overlap: task `i` of `k` emits `i`, `i + k`, `i + 2k`, ...
///
/// With a rate, number `n` is emitted `n / rate` seconds after the start, or as soon after that as the topology takes
/// it: late numbers do not delay the later ones.
///
/// In `ATLEAST_ONCE` a number that fails is emitted again, before new ones. A task whose process died goes on: in
/// `ATLEAST_ONCE` with what was not acked, otherwise behind everything that may have been emitted.
#[derive(Default)]
pub struct Sequence {
    range: Range,
    payload: Option<Vec<u8>>,
    numbers: Option<Numbers>,
}

impl Sequence {
    /// All numbers, without end, as fast as possible.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends before this number.
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

    /// Adds a payload of so many bytes: emits [`NumberAndPayload`].
    #[must_use]
    pub fn bytes(mut self, bytes: usize) -> Self {
        self.payload = Some((0..bytes).map(|i| i as u8).collect());
        self
    }

    pub(super) fn from_args(args: &Args) -> Self {
        let sequence = Self { range: Range::from_args(args), ..Self::default() };
        match args.number("bytes") {
            Some(bytes) => sequence.bytes(bytes as usize),
            None => sequence,
        }
    }
}

impl Spout for Sequence {
    type Id = u64;

    fn open(&mut self, context: &Context) -> Result<()> {
        let kind = format!("sequence of {:?} bytes", self.payload.as_ref().map(Vec::len));
        self.numbers = Some(Numbers::open(context, &kind, self.range)?);
        Ok(())
    }

    #[inline]
    fn next_tuple(&mut self, out: &mut SpoutCollector<u64>) -> Result<Next> {
        let Some(numbers) = &mut self.numbers else { return Ok(Next::Exhausted) };
        let n = match numbers.next()? {
            Step::Emit(n) => n,
            Step::Rest(next) => return Ok(next),
        };
        match &self.payload {
            None => numbers.emit(out.emit(&Number { n }), n),
            Some(payload) => numbers.emit(out.emit(&NumberAndPayload { n, payload }), n),
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
    use super::Sequence;
    use crate::{Next, Spout};
    use serde_json::json;

    #[test]
    fn tasks_share_the_numbers() {
        let share =
            |task| Bench::spout("sequence", json!({"count": 10})).task(task, 3).start().unwrap().drain().0;
        let numbers: Vec<_> = (0..3).flat_map(share).map(|mut tuple| tuple.remove(0)).collect();
        assert_eq!(numbers, ["0", "3", "6", "9", "1", "4", "7", "2", "5", "8"]);
    }

    #[test]
    fn the_payload_has_the_bytes_that_were_asked_for() {
        let (tuples, _) = Bench::spout("sequence", json!({"count": 2, "bytes": 3})).start().unwrap().drain();
        assert_eq!(tuples, [["0", "000102"], ["1", "000102"]]);
        let (tuples, _) = Bench::spout("sequence", json!({"count": 1, "bytes": 0})).start().unwrap().drain();
        assert_eq!(tuples, [["0", ""]]);
    }

    #[test]
    fn a_payload_over_the_limit_is_an_error() {
        let mut spout = Bench::spout("sequence", json!({"count": 1, "bytes": 65536})).start().unwrap();
        let (tuples, errors) = spout.drain();
        assert!(tuples.is_empty());
        assert!(errors[0].contains("egret.tuple.max.bytes"), "{errors:?}");
    }

    #[test]
    fn a_rate_makes_it_wait() {
        let mut spout = Bench::spout("sequence", json!({"rate": 0.001})).start().unwrap();
        assert_eq!(spout.next().unwrap(), Next::Emitted);
        let Next::Wait(time) = spout.next().unwrap() else { panic!("it does not wait") };
        assert!(time.as_secs() > 900, "{time:?}");
    }

    #[test]
    fn failed_numbers_come_again_before_new_ones() {
        let bench = Bench::spout("sequence", json!({"bytes": 3})).task(1, 2);
        let mut it = bench.track(Sequence::new().count(12).bytes(3)).unwrap();
        assert_eq!(it.some(3).0, ["1", "3", "5"]);
        it.spout.fail(1);
        it.spout.ack(0);
        it.spout.fail(2);
        let (numbers, last) = it.all();
        assert_eq!(numbers, ["3", "5", "7", "9", "11"]);
        assert_eq!(last.unwrap(), Next::Exhausted);
        it.spout.fail(3);
        assert_eq!(it.all().0, ["3"]);
    }

    #[test]
    fn a_successor_goes_on_with_what_was_not_acked() {
        let folder = tempfile::tempdir().unwrap();
        let bench = |k| Bench::spout("sequence", json!({})).process(folder.path(), k);
        let mut it = bench(1).track(Sequence::new().count(10)).unwrap();
        assert_eq!(it.some(6).0, ["0", "1", "2", "3", "4", "5"]);
        [0, 1, 3].into_iter().for_each(|id| it.spout.ack(id));
        it.spout.fail(4);
        it.spout.close();
        drop(it);
        let mut it = bench(2).track(Sequence::new().count(10)).unwrap();
        assert_eq!(it.all().0, ["2", "4", "5", "6", "7", "8", "9"]);
        drop(it);
        // Without a close as well: nothing was acked in between.
        let mut it = bench(3).track(Sequence::new().count(10)).unwrap();
        assert_eq!(it.all().0, ["2", "4", "5", "6", "7", "8", "9"]);
    }

    #[test]
    fn at_most_once_a_successor_repeats_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut last = None;
        for incarnation in 1..10 {
            let bench =
                Bench::spout("sequence", json!({"count": 100_000_000})).process(folder.path(), incarnation);
            let mut it = bench.start().unwrap();
            for _ in 0..100 {
                assert_eq!(it.next().unwrap(), Next::Emitted);
            }
            for tuple in it.emitted() {
                let number = tuple[0].parse::<u64>().unwrap();
                assert!(last < Some(number), "{number} comes again");
                last = Some(number);
            }
        }
    }
}
