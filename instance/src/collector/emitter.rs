//! The emitter: from a tuple to the blocks of its destinations.

use super::lanes::{Lanes, Tracking};
use super::wiring::{EmitterError, Wiring};
use super::{EmitError, Outlet, Payload, Rooted, StreamInfo, Target, Tie};
use crate::grouping::Chooser;
use crate::ledger::{Front, Outcome, SharedLedger};
use crate::topology::CustomGrouping;
use crate::tuple::Record;
use egret_dataplane::frame::{AckKind, Owner, Root};
use egret_dataplane::ids::{Incarnation, TaskId};
use egret_dataplane::plan::topology::DEFAULT_STREAM;
use egret_dataplane::plan::{PhysicalPlan, Schema, config};
use std::rc::Rc;

/// What a task has done. The runtime publishes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Tuples emitted, each once however many tasks get it.
    pub emitted: u64,
    /// Tuple copies handed to tasks downstream.
    pub sent: u64,
    /// Tuples given to the bolt.
    pub executed: u64,
    /// Tuples acked (bolt), or ids acked (spout).
    pub acked: u64,
    /// Tuples failed (bolt), or ids failed before they timed out (spout).
    pub failed: u64,
    /// Ids timed out (spout).
    pub timed_out: u64,
}

impl Counters {
    /// An id of a spout is done with.
    #[inline]
    pub(super) fn ended(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Acked => self.acked += 1,
            Outcome::Failed => self.failed += 1,
            Outcome::TimedOut => self.timed_out += 1,
        }
    }
}

/// Chooses the destinations of each tuple and writes it into their open blocks.
pub struct Emitter {
    component: String,
    streams: Vec<OutStream>,
    default: Option<usize>,
    max_tuple_bytes: usize,
    lanes: Lanes,
    task: TaskId,
    roots: Option<RootSource>,
    /// What the task has done so far.
    pub counters: Counters,
}

/// Where a spout's emitter gets its roots.
#[derive(Clone)]
pub(super) struct RootSource {
    pub(super) ledger: SharedLedger,
    /// The ledger's.
    pub(super) front: Rc<Front>,
    /// As all roots of this process, but for the id.
    pub(super) root: Root,
}

/// An output stream and everyone who reads it.
pub(super) struct OutStream {
    pub(super) info: StreamInfo,
    pub(super) readers: Vec<StreamReader>,
}

/// A bolt that reads the stream.
pub(super) struct StreamReader {
    pub(super) chooser: Chooser,
    /// The lane of the reader's first task; the others follow. A broadcast has one lane.
    pub(super) first_lane: usize,
    /// The index that was chosen for the tuple at hand.
    pub(super) chosen: usize,
}

impl Emitter {
    /// The emitter of a task. `seed` should differ between tasks and processes.
    ///
    /// # Errors
    /// [`EmitterError`] when the plan does not know the task, or was made from another program.
    pub fn new(
        plan: &PhysicalPlan,
        task: TaskId,
        customs: &[CustomGrouping],
        seed: u64,
        outlet: Box<dyn Outlet>,
    ) -> Result<Self, EmitterError> {
        let config = &plan.topology.config;
        let is_tracking = config.is(config::RELIABILITY_MODE, "ATLEAST_ONCE");
        let tracking = is_tracking.then(|| Tracking { last_task: plan.topology.task_count(), seed });
        let mut lanes = Lanes::new(task, outlet, tracking);
        let mut wiring = Wiring::new(plan, task, customs, seed, &mut lanes)?;
        let streams = wiring.streams()?;
        Ok(Self {
            component: wiring.component().id.clone(),
            default: wiring.component().outputs.iter().position(|s| s.name == DEFAULT_STREAM),
            streams,
            max_tuple_bytes: plan.topology.config.number(config::TUPLE_MAX_BYTES) as usize,
            lanes,
            task,
            roots: None,
            counters: Counters::default(),
        })
    }

    /// What a spout emits with an id is tracked in this ledger, as of this process. Without it, and in `ATMOST_ONCE`, an
    /// id is acked when it was emitted.
    #[must_use]
    pub fn with_ledger(mut self, ledger: SharedLedger, incarnation: Incarnation) -> Self {
        let front = ledger.borrow().front();
        let root = Root { owner: Owner::new(self.task, incarnation), id: 0 };
        let source = RootSource { ledger, front, root };
        self.roots = self.lanes.is_tracking().then_some(source);
        self
    }

    pub(super) fn root_source(&self) -> Option<RootSource> {
        self.roots.clone()
    }

    /// Emits one tuple, as part of the trees of these roots, and says the xor of the edges of its copies. After an
    /// error nobody got it, unless that is [`EmitError::Stopped`].
    #[inline(always)]
    pub(super) fn emit(
        &mut self,
        payload: &impl Payload,
        target: Target<'_>,
        roots: impl Rooted,
    ) -> Result<u64, EmitError> {
        let index = match target.stream {
            None => self.default,
            Some(name) => self.streams.iter().position(|s| s.info.name() == name),
        };
        let Some(stream) = index.and_then(|i| self.streams.get_mut(i)) else {
            return Err(self.unknown_stream(target.stream));
        };
        payload.check(&stream.info)?;
        let record = payload.record(&stream.info);
        let bytes = record.encoded_len();
        if bytes > self.max_tuple_bytes {
            return Err(EmitError::TooLarge { bytes, limit: self.max_tuple_bytes });
        }
        let edges = match (target.direct, stream.readers.as_mut_slice()) {
            (None, [StreamReader { chooser: Chooser::Shuffle(shuffle), first_lane, .. }]) => {
                let edges = self.lanes.append(*first_lane + shuffle.choose(), &record, bytes, roots)?;
                self.counters.sent += 1;
                edges
            }
            (direct, readers) => {
                let (lanes, sent) = (&mut self.lanes, &mut self.counters.sent);
                let mut sending = Sending { lanes, record: &record, bytes, roots, edges: 0, sent };
                match direct {
                    None => sending.send(&stream.info, readers)?,
                    Some(task) => sending.send_to(task, &stream.info, readers)?,
                }
                sending.edges
            }
        };
        self.counters.emitted += 1;
        Ok(edges)
    }

    /// Tells the spout whose tree the input belongs to that it was acked; `false` when it takes [`ack`](Self::ack) to do so.
    #[inline(always)]
    pub(super) fn ack_one(&mut self, tie: &Tie) -> bool {
        match tie.root_count() {
            0 => true,
            1 => self.lanes.tell_in_open(AckKind::Ack, tie.first().root, tie.acked(tie.first())),
            _ => false,
        }
    }

    /// Tells the spouts whose trees the input belongs to that it was acked.
    #[inline(never)]
    pub(super) fn ack(&mut self, tie: &Tie) -> Result<(), EmitError> {
        tie.all().try_for_each(|tied| self.lanes.tell(AckKind::Ack, tied.root, tie.acked(tied)))
    }

    /// Tells them that it failed.
    pub(super) fn fail(&mut self, tie: &Tie) -> Result<(), EmitError> {
        tie.all().try_for_each(|tied| self.lanes.tell(AckKind::Fail, tied.root, 0))
    }

    /// Adds edges to the tree of the root at a position of this input.
    #[inline(always)]
    pub(super) fn grow(&mut self, tie: &Tie, position: usize, edges: u64) -> Result<(), EmitError> {
        let tied = tie.at(position);
        if tie.grow(tied, edges) { Ok(()) } else { self.lanes.tell(AckKind::Ack, tied.root, edges) }
    }

    /// Pushes every open block of acks. To be called before the block that held the tuples acked is given back: then a
    /// block that a dead task still held has nearly all that it had not acked.
    #[inline]
    pub fn flush_acks(&mut self) {
        self.lanes.flush_acks();
    }

    /// Whether some block of acks is not pushed yet.
    #[inline]
    #[must_use]
    pub fn has_open_acks(&self) -> bool {
        self.lanes.open_acks() > 0
    }

    /// A bolt keeps so many inputs of a block that is about to be given back.
    pub fn keep(&mut self, inputs: u32) {
        self.lanes.kept().take(inputs);
    }

    /// A bolt has acked or failed an input that it had kept.
    #[inline]
    pub(super) fn settle_kept(&mut self) {
        self.lanes.kept().settle();
    }

    /// Whether this process has tuples of trees in hand beyond the blocks that it was handed: kept inputs, with their acks
    /// and fails that are not pushed, and emissions in open blocks.
    #[inline]
    #[must_use]
    pub fn has_unnamed(&self) -> bool {
        self.lanes.has_unnamed()
    }

    /// Pushes every open block. To be called before the task waits or ends, and once in a flush interval.
    pub fn flush(&mut self) {
        self.lanes.flush();
    }

    /// Drops every open block with the tuples in it: whom they were for is gone. They stay counted as sent.
    pub fn discard(&mut self) {
        self.lanes.discard();
    }

    /// Whether some block holds tuples that are not pushed yet.
    #[must_use]
    pub fn has_open_blocks(&self) -> bool {
        self.lanes.open() > 0
    }

    /// The outlet it was made with.
    pub fn outlet(&mut self) -> &mut dyn Outlet {
        self.lanes.outlet()
    }

    /// The fields of an output stream, if it is declared.
    #[must_use]
    pub fn schema(&self, stream: &str) -> Option<&Schema> {
        self.streams.iter().find(|s| s.info.name() == stream).map(|s| s.info.layout().schema())
    }

    #[cold]
    fn unknown_stream(&self, stream: Option<&str>) -> EmitError {
        let names: Vec<_> = self.streams.iter().map(|s| format!("`{}`", s.info.name())).collect();
        EmitError::UnknownStream {
            component: self.component.clone(),
            stream: stream.unwrap_or(DEFAULT_STREAM).to_owned(),
            declared: if names.is_empty() { "no stream".to_owned() } else { names.join(", ") },
        }
    }
}

/// A tuple on its way to whoever its stream's groupings choose. Apart from the simplest case, the code of which stays small.
struct Sending<'a, T, R> {
    lanes: &'a mut Lanes,
    record: &'a T,
    bytes: usize,
    roots: R,
    /// The xor of the edges of the copies so far.
    edges: u64,
    sent: &'a mut u64,
}

impl<T: Record, R: Rooted> Sending<'_, T, R> {
    /// To every reader of its stream. First all choices, which can fail, then all copies.
    #[inline(never)]
    fn send(&mut self, info: &StreamInfo, readers: &mut [StreamReader]) -> Result<(), EmitError> {
        for reader in readers.iter_mut() {
            reader.chosen = match &mut reader.chooser {
                Chooser::Shuffle(shuffle) => shuffle.choose(),
                Chooser::Fields(fields) => fields.choose(self.record)?,
                Chooser::PartialKey(key) => key.choose(self.record)?,
                Chooser::Global(global) => global.choose(),
                Chooser::All(_) => 0,
                Chooser::Direct(_) => return Err(direct_needed(info)),
                Chooser::Custom(custom) => {
                    custom.choose(self.record).map_err(|index| bad_choice(info, index, custom.count()))?;
                    0
                }
            };
        }
        for reader in readers {
            match &reader.chooser {
                Chooser::Custom(custom) => {
                    for &index in custom.chosen() {
                        self.append(reader.first_lane + index, 1)?;
                    }
                }
                chooser => {
                    let copies = if let Chooser::All(all) = chooser { all.copies() } else { 1 };
                    self.append(reader.first_lane + reader.chosen, copies)?;
                }
            }
        }
        Ok(())
    }

    /// To one task.
    #[inline(never)]
    fn send_to(
        &mut self,
        task: TaskId,
        info: &StreamInfo,
        readers: &[StreamReader],
    ) -> Result<(), EmitError> {
        for reader in readers {
            if let Chooser::Direct(direct) = &reader.chooser
                && let Some(index) = direct.choose(task)
            {
                return self.append(reader.first_lane + index, 1);
            }
        }
        Err(not_a_reader(info, task, readers))
    }

    #[inline(always)]
    fn append(&mut self, lane: usize, copies: u64) -> Result<(), EmitError> {
        self.edges ^= self.lanes.append(lane, self.record, self.bytes, self.roots)?;
        *self.sent += copies;
        Ok(())
    }
}

#[cold]
fn direct_needed(info: &StreamInfo) -> EmitError {
    EmitError::DirectNeeded { component: info.component().to_owned(), stream: info.name().to_owned() }
}

#[cold]
fn bad_choice(info: &StreamInfo, index: usize, count: usize) -> EmitError {
    let (component, stream) = (info.component().to_owned(), info.name().to_owned());
    EmitError::BadChoice { component, stream, index, count }
}

#[cold]
fn not_a_reader(info: &StreamInfo, task: TaskId, readers: &[StreamReader]) -> EmitError {
    let direct = readers.iter().filter_map(|r| match &r.chooser {
        Chooser::Direct(direct) => Some(direct.describe()),
        _ => None,
    });
    let direct: Vec<_> = direct.collect();
    let readers =
        if direct.is_empty() { "no task does".to_owned() } else { format!("{} do", direct.join(" and ")) };
    let (component, stream) = (info.component().to_owned(), info.name().to_owned());
    EmitError::NotAReader { task, component, stream, readers }
}
