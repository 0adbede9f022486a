//! Runs a case of the test program and gathers what came of it.

use egret_tests::records::{self, Record, values_of};
use egret_tests::{Cluster, cluster};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;

/// The test program.
pub(crate) const BEHAVIOURS: &str = env!("CARGO_BIN_EXE_behaviours");

/// Options by which the network runs on epoll.
pub(crate) const EPOLL: &[&str] = &["-c", "egret.network.reactor=epoll"];

/// What a run came to.
pub(crate) struct Outcome {
    pub(crate) records: Vec<Record>,
    summary: Value,
    containers: BTreeMap<u32, u32>,
}

impl Outcome {
    /// What a component's tasks wrote down, sorted.
    pub(crate) fn values(&self, component: &str) -> Vec<String> {
        values_of(&self.records, component)
    }

    /// A counter of a component.
    pub(crate) fn counts(&self, component: &str, counter: &str) -> u64 {
        let value = &self.summary["components"][component][counter];
        value.as_u64().unwrap_or_else(|| panic!("no {component}/{counter} in {}", self.summary))
    }

    /// Where a task ran.
    pub(crate) fn container_of(&self, task: u32) -> u32 {
        self.containers[&task]
    }
}

/// A folder for the components to write to.
pub(crate) fn records_folder(cluster: &Cluster, name: &str) -> std::path::PathBuf {
    let folder = cluster.path(name);
    fs::create_dir(&folder).unwrap();
    folder
}

/// Runs a case to its end: it completes, nothing is lost, nothing is left.
#[track_caller]
pub(crate) fn run(case: &str, containers: u32, options: &[&str]) -> Outcome {
    let cluster = cluster!();
    let folder = records_folder(&cluster, "records");
    let layout = format!("topology.containers={containers}");
    let program = [BEHAVIOURS, "--", case, folder.to_str().unwrap()];
    let configured = ["-c", &layout].iter().chain(options).copied().collect::<Vec<_>>();
    let planned = cluster.egret(["plan", "--dry-run", "--json"]).args(&configured).args(program).run();
    let summary = cluster.run_to_the_end(configured.iter().copied().chain(program)).json();
    assert_eq!(summary["state"], "completed", "{summary}");
    assert_eq!(summary["lost"], 0, "{summary}");
    let leaves_its_container = containers > 1 && case != "local_or_shuffle";
    let copied = summary["copied_bytes"].as_u64().unwrap();
    assert_eq!(copied > 0, leaves_its_container, "only what goes between containers is copied: {summary}");
    cluster.wait_until_clean(false);
    Outcome { records: records::read(&folder), summary, containers: containers_of(&planned.expect(0).json()) }
}

/// Runs a case in one container and in three.
pub(crate) fn each_layout(case: &str, check: impl Fn(&Outcome)) {
    for containers in [1, 3] {
        check(&run(case, containers, &[]));
    }
}

/// The container of each task in the plan as `egret plan --json` shows it.
fn containers_of(plan: &Value) -> BTreeMap<u32, u32> {
    let number = |value: &Value| u32::try_from(value.as_u64().unwrap()).unwrap();
    let mut found = BTreeMap::new();
    for container in plan["containers"].as_array().unwrap_or_else(|| panic!("no containers in {plan}")) {
        for task in container["tasks"].as_array().unwrap() {
            found.insert(number(&task["task"]), number(&container["id"]));
        }
    }
    found
}
