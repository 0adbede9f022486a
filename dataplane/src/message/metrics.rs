//! What is counted for each task: by the dataplane, and by user code.

use super::{BackpressureTotals, TaskCounters, TopologyState};
use crate::ids::{ContainerId, Incarnation, TaskId};
use rkyv::{Archive, Deserialize, Serialize};

/// How many counters of its own a task may have.
pub const MAX_USER_COUNTERS: usize = 1024;
/// The longest name of such a counter, in bytes.
pub const MAX_COUNTER_NAME_BYTES: usize = 128;

/// The counters of user code in one process, so far. It replaces what the same process said before.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct UserCounters {
    /// The task.
    pub task: TaskId,
    /// Its process.
    pub incarnation: Incarnation,
    /// At most [`MAX_USER_COUNTERS`], with names of up to [`MAX_COUNTER_NAME_BYTES`].
    pub counters: Vec<(String, u64)>,
}

impl UserCounters {
    /// Whether it keeps to its bounds.
    #[must_use]
    pub fn is_within_bounds(&self) -> bool {
        self.counters.len() <= MAX_USER_COUNTERS
            && self.counters.iter().all(|(name, _)| name.len() <= MAX_COUNTER_NAME_BYTES)
    }
}

/// What has been counted for every task of a topology.
#[derive(Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq)]
pub struct TopologyMetrics {
    /// The topology's name.
    pub topology: String,
    /// Where it is in its life.
    pub state: TopologyState,
    /// Seconds since tuples began to flow (until the end, for an ended topology).
    pub elapsed_s: f64,
    /// Every task, in order.
    pub tasks: Vec<TaskMetrics>,
}

/// What has been counted for one task, over all the processes that ever ran it.
#[derive(Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq)]
pub struct TaskMetrics {
    /// Its component.
    pub component: String,
    /// Its container.
    pub container: ContainerId,
    /// What the dataplane counts.
    #[serde(flatten)]
    pub counters: TaskCounters,
    /// How often and how long it was behind.
    pub backpressure: BackpressureTotals,
    /// What its user code counts, by name.
    #[serde(serialize_with = "as_map", deserialize_with = "from_map")]
    pub user: Vec<(String, u64)>,
}

fn as_map<S: serde::Serializer>(entries: &[(String, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(entries.iter().map(|(name, value)| (name, value)))
}

fn from_map<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, u64)>, D::Error> {
    let map = <std::collections::BTreeMap<_, _> as serde::Deserialize>::deserialize(deserializer)?;
    Ok(map.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_user_code_have_bounds() {
        let said = |names: Vec<String>| UserCounters {
            task: TaskId(1),
            incarnation: Incarnation(1),
            counters: names.into_iter().map(|name| (name, 1)).collect(),
        };
        assert!(said(vec!["n".repeat(MAX_COUNTER_NAME_BYTES); MAX_USER_COUNTERS]).is_within_bounds());
        assert!(!said(vec!["n".repeat(MAX_COUNTER_NAME_BYTES + 1)]).is_within_bounds());
        assert!(!said(vec![String::new(); MAX_USER_COUNTERS + 1]).is_within_bounds());
    }
}
