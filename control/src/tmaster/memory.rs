//! What a tmaster leaves to the one after it, in the folder of container 0: counters, and what tasks have said. The
//! plan, which others need too, is in the state instead. Which tasks have ended is in both: stmgrs may be told to leave
//! while the state is away.

use super::totals::SavedTotals;
use egret_dataplane::ids::TaskId;
use egret_dataplane::message::Report;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// See the module.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub struct Memory {
    pub(crate) totals: SavedTotals,
    pub(crate) reports: Vec<Report>,
    #[serde(default)]
    pub(crate) ended: Vec<TaskId>,
    /// A task has said that it ended without all of its results.
    pub(crate) incomplete: bool,
    /// How long tuples had flowed.
    pub(crate) elapsed: Duration,
}

/// What a tmaster takes over of it as long as it waits.
#[derive(Deserialize)]
struct Ends {
    #[serde(default)]
    ended: Vec<TaskId>,
}

impl Memory {
    /// The tasks that have ended, as the tmaster before this one knows now.
    pub(crate) fn read_ended(path: &Path) -> Vec<TaskId> {
        let read = std::fs::read(path).ok();
        let ends = read.and_then(|bytes| serde_json::from_slice::<Ends>(&bytes).ok());
        ends.map_or_else(Vec::new, |ends| ends.ended)
    }

    /// What the tmaster before this one left. Counters are worth no failure: without them counting begins anew.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let bytes = std::fs::read(path).ok()?;
        let read = serde_json::from_slice(&bytes);
        read.inspect_err(|error| tracing::warn!("cannot read {}: {error}; counts from 0", path.display()))
            .ok()
    }
}
