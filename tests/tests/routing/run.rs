//! Runs a case of the test program and gathers what came of it.

use egret_tests::cluster;
use egret_tests::outcome::Case;

pub(crate) use egret_tests::outcome::{Outcome, records_folder};

/// The test program.
pub(crate) const BEHAVIOURS: &str = env!("CARGO_BIN_EXE_behaviours");

/// Options by which the network runs on epoll.
pub(crate) const EPOLL: &[&str] = &["-c", "egret.network.reactor=epoll"];

/// Runs a case to its end: it completes, nothing is lost, nothing is left.
#[track_caller]
pub(crate) fn run(case: &str, containers: u32, options: &[&str]) -> Outcome {
    let outcome = Case::new(BEHAVIOURS, case).containers(containers).options(options).run(&cluster!());
    let leaves_its_container = containers > 1 && case != "local_or_shuffle";
    let summary = &outcome.summary;
    let copied = summary["copied_bytes"].as_u64().unwrap();
    assert_eq!(copied > 0, leaves_its_container, "only what goes between containers is copied: {summary}");
    outcome
}

/// Runs a case in one container and in three.
pub(crate) fn each_layout(case: &str, check: impl Fn(&Outcome)) {
    for containers in [1, 3] {
        check(&run(case, containers, &[]));
    }
}
