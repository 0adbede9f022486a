//! Groupings: which task of a bolt gets a tuple. The emitter decides, one file for each way.
//!
//! A grouping chooses an index among the reading bolt's tasks; it knows nothing of blocks. Decisions are pure: what
//! is random comes in as a seed.

mod all;
mod custom;
mod direct;
mod fields;
mod global;
mod local_or_shuffle;
mod none;
mod partial_key;
mod shuffle;

pub use custom::{CustomFn, Targets};

pub(crate) use all::All;
pub(crate) use custom::Custom;
pub(crate) use direct::Direct;
pub(crate) use fields::Fields;
pub(crate) use global::Global;
pub(crate) use partial_key::PartialKey;
pub(crate) use shuffle::Shuffle;

use egret_dataplane::ids::TaskId;
use egret_dataplane::plan::{Grouping, Schema};
use local_or_shuffle::local_or_shuffle;
use none::none;

/// A grouping at work, for one reader of one stream.
pub(crate) enum Chooser {
    /// `SHUFFLE`, `NONE`, and `LOCAL_OR_SHUFFLE` over the tasks that it found.
    Shuffle(Shuffle),
    Fields(Fields),
    PartialKey(PartialKey),
    All(All),
    Global(Global),
    Direct(Direct),
    Custom(Custom),
}

/// What a chooser is made from.
pub(crate) struct Reader<'a> {
    /// The reading bolt's tasks, ascending.
    pub(crate) tasks: &'a [TaskId],
    /// Which of them are in the emitter's container, as indices.
    pub(crate) local: &'a [usize],
    /// The stream's fields.
    pub(crate) schema: &'a Schema,
    /// The function, for `CUSTOM`.
    pub(crate) custom: Option<CustomFn>,
    /// Where round robins start.
    pub(crate) seed: u64,
}

impl Chooser {
    /// The chooser for a grouping; `None` when the plan is not consistent: a field that the stream lacks, or no
    /// function for `CUSTOM`.
    pub(crate) fn new(grouping: &Grouping, reader: Reader<'_>) -> Option<Self> {
        let count = reader.tasks.len();
        Some(match grouping {
            Grouping::Shuffle => Self::Shuffle(Shuffle::new(count, reader.seed)),
            Grouping::LocalOrShuffle => Self::Shuffle(local_or_shuffle(reader.local, count, reader.seed)),
            Grouping::None => Self::Shuffle(none(count, reader.seed)),
            Grouping::Fields(names) => Self::Fields(Fields::new(positions(reader.schema, names)?, count)),
            Grouping::PartialKey(names) => {
                Self::PartialKey(PartialKey::new(positions(reader.schema, names)?, count))
            }
            Grouping::All => Self::All(All::new(count)),
            Grouping::Global => Self::Global(Global),
            Grouping::Direct => Self::Direct(Direct::new(reader.tasks)),
            Grouping::Custom => Self::Custom(Custom::new(reader.custom?, reader.schema.clone(), count)),
        })
    }
}

/// The positions of the fields of these names; `None` when one is missing or there are no names.
fn positions(schema: &Schema, names: &[String]) -> Option<Vec<usize>> {
    let found: Option<Vec<_>> = names.iter().map(|name| schema.position(name)).collect();
    found.filter(|positions| !positions.is_empty())
}
