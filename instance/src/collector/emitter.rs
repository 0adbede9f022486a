//! The emitter: from a tuple to the blocks of its destinations.

use super::lanes::Lanes;
use super::wiring::{EmitterError, Wiring};
use super::{EmitError, Outlet, Payload, StreamInfo, Target};
use crate::grouping::Chooser;
use crate::topology::CustomGrouping;
use crate::tuple::Record;
use egret_dataplane::ids::TaskId;
use egret_dataplane::plan::topology::DEFAULT_STREAM;
use egret_dataplane::plan::{PhysicalPlan, Schema, config};

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
    /// Tuples failed.
    pub failed: u64,
}

/// Chooses the destinations of each tuple and writes it into their open blocks.
pub struct Emitter {
    component: String,
    streams: Vec<OutStream>,
    default: Option<usize>,
    max_tuple_bytes: usize,
    lanes: Lanes,
    /// What the task has done so far.
    pub counters: Counters,
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
        let mut lanes = Lanes::new(outlet);
        let mut wiring = Wiring::new(plan, task, customs, seed, &mut lanes)?;
        let streams = wiring.streams()?;
        Ok(Self {
            component: wiring.component().id.clone(),
            default: wiring.component().outputs.iter().position(|s| s.name == DEFAULT_STREAM),
            streams,
            max_tuple_bytes: plan.topology.config.number(config::TUPLE_MAX_BYTES) as usize,
            lanes,
            counters: Counters::default(),
        })
    }

    /// Emits one tuple. After an error nobody got it, unless that is [`EmitError::Stopped`].
    #[inline]
    pub(crate) fn emit(&mut self, payload: &impl Payload, target: Target<'_>) -> Result<(), EmitError> {
        let index = match target.stream {
            None => self.default,
            Some(name) => self.streams.iter().position(|s| s.info.name() == name),
        };
        let Some(stream) = index.and_then(|i| self.streams.get_mut(i)) else {
            return Err(self.unknown_stream(target.stream));
        };
        let record = payload.record(&stream.info)?;
        let bytes = record.encoded_len();
        if bytes > self.max_tuple_bytes {
            return Err(EmitError::TooLarge { bytes, limit: self.max_tuple_bytes });
        }
        let sent = &mut self.counters.sent;
        match target.direct {
            None => send(&stream.info, &mut stream.readers, &mut self.lanes, &record, sent)?,
            Some(task) => send_direct(&stream.info, &stream.readers, &mut self.lanes, &record, (task, sent))?,
        }
        self.counters.emitted += 1;
        Ok(())
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

/// Gives a tuple to every reader of its stream: first all choices, which can fail, then all copies.
#[inline]
fn send(
    info: &StreamInfo,
    readers: &mut [StreamReader],
    lanes: &mut Lanes,
    record: &impl Record,
    sent: &mut u64,
) -> Result<(), EmitError> {
    for reader in readers.iter_mut() {
        reader.chosen = match &mut reader.chooser {
            Chooser::Shuffle(shuffle) => shuffle.choose(),
            Chooser::Fields(fields) => fields.choose(record)?,
            Chooser::PartialKey(key) => key.choose(record)?,
            Chooser::Global(global) => global.choose(),
            Chooser::All(_) => 0,
            Chooser::Direct(_) => return Err(direct_needed(info)),
            Chooser::Custom(custom) => {
                custom.choose(record).map_err(|index| bad_choice(info, index, custom.count()))?;
                0
            }
        };
    }
    for reader in readers {
        match &reader.chooser {
            Chooser::Custom(custom) => {
                for &index in custom.chosen() {
                    lanes.append(reader.first_lane + index, record)?;
                    *sent += 1;
                }
            }
            chooser => {
                lanes.append(reader.first_lane + reader.chosen, record)?;
                *sent += if let Chooser::All(all) = chooser { all.copies() } else { 1 };
            }
        }
    }
    Ok(())
}

fn send_direct(
    info: &StreamInfo,
    readers: &[StreamReader],
    lanes: &mut Lanes,
    record: &impl Record,
    (task, sent): (TaskId, &mut u64),
) -> Result<(), EmitError> {
    for reader in readers {
        if let Chooser::Direct(direct) = &reader.chooser
            && let Some(index) = direct.choose(task)
        {
            lanes.append(reader.first_lane + index, record)?;
            *sent += 1;
            return Ok(());
        }
    }
    Err(not_a_reader(info, task, readers))
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
