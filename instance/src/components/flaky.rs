//! The `flaky` bolt: fails and crashes when told to, to show that a topology survives it.

use super::args::{ArgKind, ArgSpec, Args};
use super::schema::as_input;
use super::types::ComponentType;
use crate::topology::Factory;
use crate::{Bolt, BoltCollector, Context, Input, Result};
use egret_dataplane::plan::Role;
use foldhash::fast::RandomState;
use std::collections::HashSet;
use std::fs::File;
use std::path::PathBuf;
use xxhash_rust::xxh3::xxh3_128;

/// The type `flaky`.
pub(super) static TYPE: ComponentType = ComponentType {
    name: "flaky",
    role: Role::Bolt,
    help: "passes tuples on, but fails some of them or crashes once",
    args: &[
        ArgSpec::optional(
            "fail_every",
            ArgKind::Number(1, u64::MAX),
            "fails each Nth distinct tuple the first time it comes",
        ),
        ArgSpec::optional(
            "crash_after",
            ArgKind::Number(1, u64::MAX),
            "each task aborts its process after that many tuples, once",
        ),
    ],
    outputs: as_input,
    check: |_, _| Ok(()),
    make: |args| Factory::bolt(move || Flaky::from_args(&args)),
};

/// Passes tuples on, but fails some of them, or crashes its process once.
#[derive(Default)]
pub struct Flaky {
    fail_every: Option<u64>,
    /// Hashes of the tuples that came so far, kept only to know the distinct ones.
    seen: HashSet<u128, RandomState>,
    crash_after: Option<u64>,
    executed: u64,
    /// Exists once this task has crashed, so that its successor does not.
    marker: PathBuf,
}

impl Flaky {
    /// Does nothing but pass on.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Fails every `n`th distinct tuple the first time it comes; a tuple that comes again is passed on.
    #[must_use]
    pub fn fail_every(mut self, n: u64) -> Self {
        self.fail_every = Some(n.max(1));
        self
    }

    /// Each task aborts its process when it has passed on `n` tuples, but only once: its successor goes on.
    #[must_use]
    pub fn crash_after(mut self, n: u64) -> Self {
        self.crash_after = Some(n);
        self
    }

    pub(super) fn from_args(args: &Args) -> Self {
        let (fail_every, crash_after) = (args.number("fail_every"), args.number("crash_after"));
        Self { fail_every, crash_after, ..Self::default() }
    }

    fn fails(&mut self, input: &Input<'_>) -> bool {
        let Some(every) = self.fail_every else { return false };
        self.seen.insert(xxh3_128(input.bytes())) && (self.seen.len() as u64).is_multiple_of(every)
    }

    /// Whether it is time to crash; notes that it did before it does.
    fn must_crash(&mut self) -> Result<bool> {
        let due = self.crash_after.is_some_and(|after| self.executed >= after);
        if !due || self.marker.exists() {
            return Ok(false);
        }
        File::create(&self.marker)?;
        Ok(true)
    }
}

impl Bolt for Flaky {
    fn prepare(&mut self, context: &Context) -> Result<()> {
        let name = format!("flaky-{}.crashed", context.task());
        self.marker = context.container_dir().join(name);
        if self.marker.exists() {
            self.crash_after = None;
        }
        Ok(())
    }

    fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> Result<()> {
        if self.fails(input) {
            return out.fail(input);
        }
        out.forward(input)?.anchor(input)?;
        out.ack(input)?;
        self.executed += 1;
        if self.crash_after.is_some() && self.must_crash()? {
            tracing::warn!("aborting after {} tuples, as told", self.executed);
            std::process::abort();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use egret_dataplane::plan::FieldKind;
    use serde_json::json;
    use std::os::unix::process::ExitStatusExt;

    const FIELDS: &[(&str, FieldKind)] = &[("w", FieldKind::Str)];

    #[test]
    fn it_fails_each_nth_distinct_tuple_the_first_time() {
        let mut bolt = Bench::bolt("flaky", json!({"fail_every": 2}), FIELDS).start().unwrap();
        bolt.execute_texts(&["a", "a", "b", "c", "d", "d", "b"]).unwrap();
        assert_eq!(bolt.emitted().concat(), ["a", "a", "c", "d", "b"]);
        assert_eq!(bolt.counts(), (5, 5, 2));
    }

    #[test]
    fn without_arguments_it_passes_on() {
        let mut bolt = Bench::bolt("flaky", json!({}), FIELDS).start().unwrap();
        bolt.execute_texts(&["a", "b"]).unwrap();
        assert_eq!(bolt.emitted().len(), 2);
    }

    /// The crash itself, in a child: this test runs itself again there.
    #[test]
    fn it_crashes_once() {
        const FOLDER: &str = "EGRET_TEST_FLAKY_FOLDER";
        let run = |folder: &std::path::Path| {
            let bench = Bench::bolt("flaky", json!({"crash_after": 2}), FIELDS).process(folder, 1);
            let mut bolt = bench.start().unwrap();
            bolt.execute_texts(&["a", "b", "c"]).unwrap();
            bolt.emitted().len()
        };
        if let Some(folder) = std::env::var_os(FOLDER) {
            assert_eq!(run(folder.as_ref()), 3);
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "components::flaky::tests::it_crashes_once"]).env(FOLDER, folder.path());
        let first = child.output().unwrap();
        assert_eq!(first.status.signal(), Some(6), "it did not abort: {first:?}");
        assert!(child.output().unwrap().status.success(), "it crashed again");
    }
}
