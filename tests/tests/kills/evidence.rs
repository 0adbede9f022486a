//! What logs and counters must tell of the kills.

use crate::load::NAME;
use crate::victims::{Kind, Victim};
use egret_tests::{Cluster, try_for};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// An executor that is killed this soon after one of its processes may not have told of that yet.
const TELLING: Duration = Duration::from_secs(1);

/// The data that is left flows for longer than this.
const TOLD_WITHIN: Duration = Duration::from_secs(15);

/// The kills so far.
#[derive(Default)]
pub(crate) struct Evidence(Vec<(Instant, Victim)>);

impl Evidence {
    /// Adds one.
    pub(crate) fn killed(&mut self, victim: Victim) {
        self.0.push((Instant::now(), victim));
    }

    /// How many.
    pub(crate) fn kills(&self) -> usize {
        self.0.len()
    }

    /// How many of whole containers.
    pub(crate) fn containers(&self) -> usize {
        self.0.iter().filter(|(_, victim)| victim.kind == Kind::Container).count()
    }

    /// The last one, in words.
    pub(crate) fn last(&self) -> Option<String> {
        self.0.last().map(|(_, victim)| victim.to_string())
    }

    /// How many of this kind an executor lived to tell of: that of the container, or the next one.
    fn told(&self, kind: Kind) -> usize {
        let survived = |at: usize| {
            let (killed, victim) = &self.0[at];
            let next = self.0[at + 1..]
                .iter()
                .find(|(_, next)| next.kind == Kind::Container && next.container == victim.container);
            next.is_none_or(|(next, _)| *next - *killed > TELLING)
        };
        (0..self.0.len()).filter(|at| self.0[*at].1.kind == kind && survived(*at)).count()
    }

    /// The executors' logs have a line for each kill, and `egret status` counts it: at once, or as soon as what was
    /// killed last is started again.
    #[track_caller]
    pub(crate) fn assert_told(&self, cluster: &Cluster) {
        let expected = [
            ("instance", self.told(Kind::Instance), ["starting it again", "process=instance"]),
            ("stmgr", self.told(Kind::Stmgr), ["starting it again", "process=stmgr"]),
            ("executor", self.told(Kind::Container), ["died with its container", ""]),
        ];
        let (mut logged, mut counted) = (Vec::new(), Value::Null);
        let told = try_for(TOLD_WITHIN, || {
            let status = cluster.status(NAME)?;
            logged = expected.iter().map(|(_, _, words)| lines(cluster, words)).collect();
            counted = status["restarts"].clone();
            let enough = expected.iter().zip(&logged).all(|((role, kills, _), lines)| {
                lines >= kills && counted[role].as_u64().is_some_and(|count| count >= *kills as u64)
            });
            enough.then_some(())
        });
        println!("{} kills; restarts: {counted}", self.kills());
        let kills = expected.map(|(role, kills, _)| (role, kills));
        assert!(told.is_some(), "{kills:?} were killed; lines in the logs: {logged:?}; restarts: {counted}");
    }
}

/// How many lines of the executors' logs have all of these words.
fn lines(cluster: &Cluster, words: &[&str]) -> usize {
    let logs = cluster.leftovers().files.into_iter().filter(|path| is_executors_log(path));
    let text = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
    let count =
        |text: String| text.lines().filter(|line| words.iter().all(|word| line.contains(word))).count();
    logs.map(|path| count(text(path))).sum()
}

fn is_executors_log(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("executor.log"))
}

/// What the tmaster of a submitted topology left at its end.
pub(crate) fn final_status(cluster: &Cluster) -> Option<Value> {
    let files = cluster.leftovers().files;
    let file = files.iter().find(|file| file.ends_with("log-files/final-status.json"))?;
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}
