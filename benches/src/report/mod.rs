//! What came out: as a table for people, as JSON for programs, and two of them compared.

pub mod compare;
pub mod machine;
pub mod table;

use crate::sample::Stat;
use anyhow::{Context, Result, ensure};
use machine::Machine;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What a file of results says it is.
const FORMAT: &str = "egret-bench";
/// The version of its layout.
const VERSION: u32 = 1;

/// Everything that one call measured.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    format: String,
    version: u32,
    /// Where.
    pub machine: Machine,
    /// How.
    pub settings: Settings,
    /// What.
    pub results: Vec<Measurement>,
}

/// How it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Short runs: to see that all works, not for comparing.
    pub quick: bool,
    /// How often each measurement was done.
    pub runs: usize,
    /// `egret.affinity.policy` of Egret's containers, by which the floors were pinned as well.
    pub affinity: String,
    /// Further configuration of the topologies, each `KEY=VALUE`.
    pub config: Vec<String>,
}

/// One thing measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measurement {
    /// The suite.
    pub suite: String,
    /// What of it.
    pub name: String,
    /// What it is measured in.
    pub unit: String,
    /// Which way is good.
    pub better: Better,
    /// What Egret does.
    pub value: Stat,
    /// What it is held against, where there is such a thing.
    pub against: Option<Against>,
}

/// Which way is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
}

/// What a value is held against.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Against {
    /// What it is.
    pub name: String,
    /// Whose code it runs; files of before it was written have floors only.
    #[serde(default)]
    pub kind: Kind,
    /// The same thing measured of it, in turn with the value.
    pub value: Stat,
    /// Value over this, run by run.
    pub ratio: Stat,
    /// What the ratio should be at most, or at least where more is better.
    pub goal: Option<f64>,
}

/// Whose code a value is held against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A floor's, or a fixed number: the ratio becomes worse when Egret does.
    #[default]
    Floor,
    /// Egret's own, run in another way: the ratio stays as it is when both become worse, and is worse when the other
    /// becomes better.
    Sibling,
}

impl Measurement {
    /// Its suite and name.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}: {}", self.suite, self.name)
    }

    /// Something measured without anything beside it.
    #[must_use]
    pub fn new(suite: &str, name: impl Into<String>, unit: &str, better: Better, runs: Vec<f64>) -> Self {
        let (suite, name, unit) = (suite.to_owned(), name.into(), unit.to_owned());
        Self { suite, name, unit, better, value: Stat::of(runs), against: None }
    }

    /// The same, held against these.
    #[must_use]
    pub fn against(mut self, kind: Kind, name: &str, runs: Vec<f64>, goal: Option<f64>) -> Self {
        let value = Stat::of(runs);
        let ratio = self.value.over(&value);
        self.against = Some(Against { name: name.to_owned(), kind, value, ratio, goal });
        self
    }
}

impl Better {
    /// By how much `new` is worse than `old`, in per cent; negative when it is better, and infinite when nothing is left of
    /// what was good.
    ///
    /// # Errors
    /// When `old` is not positive, so that nothing can be said in per cent of it.
    pub fn worse_percent(self, old: f64, new: f64) -> Result<f64> {
        ensure!(old > 0.0, "it was {old} before, of which nothing is a percentage");
        Ok(match self {
            Self::Lower => (new / old - 1.0) * 100.0,
            Self::Higher if new <= 0.0 => f64::INFINITY,
            Self::Higher => (old / new - 1.0) * 100.0,
        })
    }

    /// Whether a value is as good as its goal.
    #[must_use]
    pub fn reaches(self, value: f64, goal: f64) -> bool {
        if self == Self::Lower { value <= goal } else { value >= goal }
    }
}

impl Report {
    /// A report of what was measured here and now.
    #[must_use]
    pub fn new(settings: Settings, results: Vec<Measurement>) -> Self {
        Self { format: FORMAT.to_owned(), version: VERSION, machine: Machine::here(), settings, results }
    }

    /// Writes it as JSON.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads what [`write`](Self::write) wrote.
    ///
    /// # Errors
    /// When the file cannot be read, is something else, or of another version.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let foreign = || format!("{} holds no results of `egret-bench --json`", path.display());
        let value: serde_json::Value = serde_json::from_str(&text).with_context(foreign)?;
        ensure!(value["format"] == FORMAT, "{}", foreign());
        let version = &value["version"];
        ensure!(
            *version == VERSION,
            "{} is of version {version}; this program reads {VERSION}",
            path.display()
        );
        serde_json::from_value(value).with_context(foreign)
    }
}
