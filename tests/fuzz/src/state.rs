//! A file of the state manager: its envelope, and what the entries hold.

use crate::codec::{Kind, decode, encode};
use egret_control::scheduler::SchedulerRecord;
use egret_control::state::{Execution, TmasterLocation};
use egret_dataplane::plan::{PackingPlan, PhysicalPlan, Topology};
use serde_json::from_slice;

/// See the module.
pub fn run(data: &[u8]) {
    if let Ok((_, payload)) = decode(data) {
        assert!(payload.len() < data.len());
    }
    for kind in [Kind::Lasting, Kind::Ephemeral] {
        assert_eq!(decode(&encode(kind, data)), Ok((kind, data)));
    }
    let Some((&entry, payload)) = data.split_first() else { return };
    match entry % 6 {
        0 => drop(from_slice::<Execution>(payload)),
        1 => drop(from_slice::<TmasterLocation>(payload)),
        2 => drop(from_slice::<SchedulerRecord>(payload)),
        3 => drop(from_slice::<PackingPlan>(payload)),
        4 => drop(from_slice::<PhysicalPlan>(payload)),
        _ => {
            if let Ok(topology) = from_slice::<Topology>(payload) {
                let _ = topology.validate();
            }
        }
    }
}
