//! A topology whose tuples flow until the test says that it is enough: `numbers` → two `pass` → `record`, in two
//! containers. At its end every tuple is accounted for.

use crate::support::{BEHAVIOURS, Seen, all_seen};
use egret_tests::records::{self, values_of};
use egret_tests::{Cluster, Command, DEADLINE, Running, wait_for};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::PathBuf;

/// Its name.
pub(crate) const NAME: &str = "until-told";
/// Its processes: 3 executors, the tmaster, 2 stmgrs, 4 instances.
pub(crate) const PROCESSES: usize = 10;

/// The topology, running.
pub(crate) struct Flow<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) run: Running,
    pub(crate) first: Vec<Seen>,
    folder: PathBuf,
}

/// The command `egret VERB` for the topology, and the folder that its numbers come to.
pub(crate) fn command(cluster: &Cluster, verb: &str, options: &[&str]) -> (Command, PathBuf) {
    let folder = cluster.path("records");
    fs::create_dir_all(&folder).unwrap();
    let program = [BEHAVIOURS, "--", "until_told", folder.to_str().unwrap()];
    let command = cluster.egret([verb, "--json", "-c", "topology.containers=2"]).args(options).args(program);
    (command, folder)
}

impl<'a> Flow<'a> {
    /// Runs it, and waits until tuples arrive.
    pub(crate) fn start(cluster: &'a Cluster, options: &[&str]) -> Self {
        let (command, folder) = command(cluster, "run", options);
        Self::of(cluster, command, folder)
    }

    /// As `start`, from a command that was prepared.
    pub(crate) fn of(cluster: &'a Cluster, command: Command, folder: PathBuf) -> Self {
        let run = command.spawn();
        let first = all_seen(cluster, NAME, PROCESSES);
        let flow = Self { cluster, run, first, folder };
        flow.more_arrive();
        flow
    }

    /// Waits until tuples have arrived that were not there when this was called: enough of them that some must have
    /// been emitted since.
    pub(crate) fn more_arrive(&self) {
        let before = self.arrived().len();
        wait_for("more numbers to arrive", DEADLINE, || {
            assert!(!self.run.has_ended(), "the run ended: {}", self.run.stderr());
            (self.arrived().len() >= before + 100).then_some(())
        });
    }

    /// What has arrived so far.
    pub(crate) fn arrived(&self) -> Vec<u64> {
        let arrived = values_of(&records::read(&self.folder), "record");
        arrived.iter().map(|value| value.parse().unwrap()).collect()
    }

    /// Waits until the process that does what `dead` did has another number.
    pub(crate) fn successor(&self, dead: &Seen) -> Seen {
        wait_for(&format!("another process for {dead:?}"), DEADLINE, || {
            assert!(!self.run.has_ended(), "the run ended: {}", self.run.stderr());
            let now = crate::support::seen(&self.cluster.status(NAME)?);
            let same = |p: &&Seen| (&p.role, p.container, p.task) == (&dead.role, dead.container, dead.task);
            now.iter().find(|p| same(p) && p.pid != dead.pid).cloned()
        })
    }

    /// Lets it complete, and checks that what arrived and what is counted as lost are what was emitted; a task that
    /// died may have taken one tuple more with it, between executing and passing it on. Gives the summary.
    pub(crate) fn complete(self, deaths: u64) -> Value {
        File::create(self.folder.with_extension("enough")).unwrap();
        let arrived = || values_of(&records::read(&self.folder), "record");
        let summary = self.run.finish().expect(0).json();
        assert_eq!(summary["state"], "completed", "{summary}");
        let arrived = arrived();
        let count = |component: &str, what: &str| summary["components"][component][what].as_u64().unwrap();
        let lost = summary["lost"].as_u64().unwrap();
        assert_eq!(count("record", "executed"), arrived.len() as u64, "{summary}");
        let sent = count("numbers", "emitted") + count("pass", "emitted");
        assert_eq!(lost, sent - count("pass", "executed") - count("record", "executed"), "{summary}");
        let vanished = count("numbers", "emitted") - arrived.len() as u64 - lost;
        assert!(vanished <= deaths, "{vanished} tuples are neither there nor lost: {summary}");
        let distinct: BTreeSet<_> = arrived.iter().collect();
        assert_eq!(distinct.len(), arrived.len(), "a tuple arrived twice");
        self.cluster.wait_until_clean(false);
        summary
    }
}
