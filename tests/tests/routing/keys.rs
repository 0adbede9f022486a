//! BR-022 and BR-026: a key is always on the same task, however the topology is packed.

use crate::run::{BEHAVIOURS, records_folder};
use egret_tests::records::{self, Record};
use egret_tests::{Cluster, DEADLINE, cluster, wait_for};
use std::collections::BTreeMap;

/// What the spout emits of each key type, see `AwkwardKeys`.
const EMITTED: usize = 53 + 56 + 58;

/// Submits the topology, waits for all keys, kills it, and gives the index of the task that each key went to.
fn tasks_of_keys(cluster: &Cluster, containers: u32) -> BTreeMap<String, u32> {
    let folder = records_folder(cluster, &format!("records-{containers}"));
    let layout = format!("topology.containers={containers}");
    let program = [BEHAVIOURS, "--", "awkward_keys", folder.to_str().unwrap()];
    let _ = cluster.egret(["submit", "-c", &layout]).args(program).run().expect(0);
    let found = wait_for("all keys to arrive", DEADLINE, || {
        let found = records::read(&folder);
        (found.len() >= EMITTED).then_some(found)
    });
    let _ = cluster.egret(["kill", "awkward-keys"]).run().expect(0);
    cluster.wait_until_clean(true);
    assert_eq!(found.len(), EMITTED, "each key once");
    one_task_each(found)
}

/// Equal keys (0.0 and -0.0, every NaN) have one name; it must come from one task only.
fn one_task_each(found: Vec<Record>) -> BTreeMap<String, u32> {
    let mut tasks = BTreeMap::new();
    for Record { value, index, .. } in found {
        let first = *tasks.entry(value.clone()).or_insert(index);
        assert_eq!(first, index, "{value} went to two tasks");
    }
    tasks
}

#[test]
fn keys_stay_on_their_tasks_over_resubmits_in_other_layouts() {
    let cluster = cluster!();
    let in_one = tasks_of_keys(&cluster, 1);
    assert_eq!(in_one.len(), EMITTED - 4, "two zeros and three NaNs are one key each");
    for task in 0..4 {
        assert!(
            in_one.values().any(|index| *index == task),
            "the keys are spread over all tasks: {in_one:?}"
        );
    }
    for containers in 2..=5 {
        assert_eq!(tasks_of_keys(&cluster, containers), in_one, "in {containers} containers");
    }
}
