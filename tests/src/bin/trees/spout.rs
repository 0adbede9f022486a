//! The spout of nearly all cases, which keeps its own account of what becomes of its tuples.

use crate::Item;
use crate::script::Script;
use egret::{Context, Next, Result, Spout, SpoutCollector};
use egret_tests::clock::{Metronome, cpu_us, now_us};
use egret_tests::records::Recorder;
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

/// The longest that it waits at once.
const NAP_US: u64 = 10_000;

/// Plays a [`Script`]. The id of a tuple is its number, noted after the tuple was emitted.
///
/// It writes `ack NUMBER ELAPSED_US NOW_US` or `fail …` for each outcome, and at its end its [`Sums`].
pub(crate) struct Tracked {
    script: Script,
    folder: PathBuf,
    record: Option<Recorder>,
    metronome: Option<Metronome>,
    next: u64,
    due_us: u64,
    /// Tuples in flight by number, with the moment before each was emitted.
    open: HashMap<u64, u64>,
    again: VecDeque<u64>,
    gates: VecDeque<(u64, bool)>,
    sums: Sums,
}

/// What it counted.
#[derive(Default)]
struct Sums {
    calls: u64,
    emitted: u64,
    acked: u64,
    failed: u64,
    /// Outcomes of what is not in flight.
    unknown: u64,
    most_open: usize,
}

impl Tracked {
    pub(crate) fn new(folder: PathBuf, script: Script) -> Self {
        Self {
            script,
            folder,
            record: None,
            metronome: None,
            next: 0,
            due_us: 0,
            open: HashMap::new(),
            again: VecDeque::new(),
            gates: script.gates.iter().map(|gate| (*gate, false)).collect(),
            sums: Sums::default(),
        }
    }

    fn note(&mut self, line: impl std::fmt::Display) {
        if let Some(record) = &mut self.record {
            record.write(line).unwrap_or_else(|error| panic!("cannot write down what happened: {error}"));
        }
    }

    fn emit(&mut self, n: u64, out: &mut SpoutCollector<u64>) -> Result<()> {
        let at_us = now_us();
        let item = Item { n, at_us };
        let emission = out.emit(&item);
        if (self.script.tracks)(n) {
            emission.id(n)?;
            self.open.insert(n, at_us);
            self.sums.most_open = self.sums.most_open.max(self.open.len());
        } else {
            emission.untracked()?;
        }
        self.sums.emitted += 1;
        Ok(())
    }

    /// Whether it may go on.
    fn pass_gate(&mut self) -> bool {
        let Some(&(gate, told)) = self.gates.front() else { return true };
        if self.next < gate {
            return true;
        }
        if !self.open.is_empty() {
            return false;
        }
        if !told {
            self.note(format!("settled {gate}"));
            self.gates[0].1 = true;
        }
        let opened = self.folder.with_file_name(format!("go-{gate}")).exists();
        if opened {
            self.gates.pop_front();
        }
        opened
    }

    fn settle(&mut self, what: &str, n: u64) {
        let now = now_us();
        match self.open.remove(&n) {
            Some(_) if self.script.quiet => {}
            Some(at_us) => self.note(format!("{what} {n} {} {now}", now - at_us)),
            None => self.sums.unknown += 1,
        }
    }
}

impl Spout for Tracked {
    type Id = u64;

    fn open(&mut self, context: &Context) -> Result<()> {
        self.record = Some(crate::recorder(&self.folder, context)?);
        self.metronome = Some(Metronome::start()?);
        Ok(())
    }

    fn next_tuple(&mut self, out: &mut SpoutCollector<u64>) -> Result<Next> {
        self.sums.calls += 1;
        if let Some(n) = self.again.pop_front() {
            self.emit(n, out)?;
            return Ok(Next::Emitted);
        }
        if !self.pass_gate() {
            return Ok(Next::Wait(Duration::from_micros(NAP_US)));
        }
        let now = now_us();
        if now < self.due_us {
            return Ok(Next::Wait(Duration::from_micros((self.due_us - now).min(NAP_US))));
        }
        let end = (self.next + self.script.per_call).min(self.script.count);
        if self.next == end {
            return Ok(Next::Exhausted);
        }
        while self.next < end {
            let n = self.next;
            self.next += 1;
            self.emit(n, out)?;
        }
        self.due_us =
            now + if end == self.script.count { self.script.linger_us } else { self.script.every_us };
        Ok(Next::Emitted)
    }

    fn ack(&mut self, n: u64) {
        self.sums.acked += 1;
        self.settle("ack", n);
    }

    fn fail(&mut self, n: u64) {
        self.sums.failed += 1;
        self.settle("fail", n);
        if self.script.replays {
            self.again.push_back(n);
        }
    }

    fn close(&mut self) {
        let (open, cpu_us) = (self.open.len(), cpu_us());
        let latest_us = self.metronome.as_ref().map_or(0, Metronome::latest_us);
        let Sums { calls, emitted, acked, failed, unknown, most_open } = self.sums;
        self.note(format!(
            "sums calls={calls} emitted={emitted} acked={acked} failed={failed} unknown={unknown} open={open} \
             most_open={most_open} cpu_us={cpu_us} latest_us={latest_us}"
        ));
    }
}
