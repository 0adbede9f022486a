//! Running a case of a test program, and what came of it.

use crate::Cluster;
use crate::records::{self, Record, values_of};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// A case of a test program: `PROGRAM CASE FOLDER`, where the folder gets what the components write down.
#[derive(Clone, Debug)]
pub struct Case {
    program: &'static str,
    name: String,
    containers: u32,
    options: Vec<String>,
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What the components wrote down.
    pub records: Vec<Record>,
    /// What `egret run --json` printed.
    pub summary: Value,
    containers: BTreeMap<u32, u32>,
}

impl Case {
    /// This case, in one container.
    #[must_use]
    pub fn new(program: &'static str, name: &str) -> Self {
        Self { program, name: name.to_owned(), containers: 1, options: Vec::new() }
    }

    /// In so many containers.
    #[must_use]
    pub fn containers(mut self, count: u32) -> Self {
        self.containers = count;
        self
    }

    /// With a configuration entry `KEY=VALUE`.
    #[must_use]
    pub fn with(mut self, entry: impl Into<String>) -> Self {
        self.options.extend(["-c".to_owned(), entry.into()]);
        self
    }

    /// With these options of the command line.
    #[must_use]
    pub fn options(mut self, options: &[&str]) -> Self {
        self.options.extend(options.iter().map(|option| (*option).to_owned()));
        self
    }

    /// What stands behind `egret run` and the like. The case writes to `folder`, which is made.
    ///
    /// # Panics
    /// When the folder cannot be made.
    #[must_use]
    pub fn arguments(&self, cluster: &Cluster, folder: &str) -> Vec<String> {
        let folder = records_folder(cluster, folder);
        let layout = format!("topology.containers={}", self.containers);
        let program = [self.program, "--", &self.name, folder.to_str().unwrap()].map(str::to_owned);
        ["-c".to_owned(), layout].into_iter().chain(self.options.clone()).chain(program).collect()
    }

    /// Runs it to its end: it completes, nothing is lost, nothing is left.
    ///
    /// # Panics
    /// When that is not so.
    #[must_use]
    #[track_caller]
    pub fn run(&self, cluster: &Cluster) -> Outcome {
        let arguments = self.arguments(cluster, "records");
        let planned = cluster.egret(["plan", "--dry-run", "--json"]).args(&arguments).run();
        let summary = cluster.run_to_the_end(&arguments).json();
        assert_eq!(summary["state"], "completed", "{summary}");
        assert_eq!(summary["lost"], 0, "{summary}");
        cluster.wait_until_clean(false);
        let records = records::read(cluster.path("records"));
        Outcome { records, summary, containers: containers_of(&planned.expect(0).json()) }
    }
}

impl Outcome {
    /// What a component's tasks wrote down, sorted.
    #[must_use]
    pub fn values(&self, component: &str) -> Vec<String> {
        values_of(&self.records, component)
    }

    /// A counter of a component.
    ///
    /// # Panics
    /// When there is none of this name.
    #[must_use]
    #[track_caller]
    pub fn counts(&self, component: &str, counter: &str) -> u64 {
        let value = &self.summary["components"][component][counter];
        value.as_u64().unwrap_or_else(|| panic!("no {component}/{counter} in {}", self.summary))
    }

    /// Where a task ran.
    ///
    /// # Panics
    /// When there is no such task.
    #[must_use]
    pub fn container_of(&self, task: u32) -> u32 {
        self.containers[&task]
    }
}

/// A folder for the components to write to.
///
/// # Panics
/// When it cannot be made.
#[must_use]
pub fn records_folder(cluster: &Cluster, name: &str) -> PathBuf {
    let folder = cluster.path(name);
    fs::create_dir(&folder).unwrap();
    folder
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
