//! `egret-bench` as a person or a CI job calls it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use egret_benches::report::{Better, Measurement, Report, Settings};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_egret-bench")).args(args).output().unwrap()
}

fn compare(old: &Path, new: &Path, options: &[&str]) -> (i32, String, String) {
    let files = [old.to_str().unwrap(), new.to_str().unwrap()];
    let output = bench(&[&["compare"], &files[..], options].concat());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// A file of results in which a tuple costs so much.
fn results(folder: &Path, name: &str, cost: f64) -> PathBuf {
    let settings = Settings { quick: false, runs: 3, affinity: "none".to_owned(), config: vec![] };
    let runs = vec![cost * 0.98, cost, cost * 1.03];
    let measured = Measurement::new("relay", "16 B, CPU", "ns/tuple", Better::Lower, runs);
    let path = folder.join(name);
    Report::new(settings, vec![measured]).write(&path).unwrap();
    path
}

#[test]
fn a_regression_is_exit_status_1_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (results(folder.path(), "old", 40.0), results(folder.path(), "new", 46.0));
    let (code, out, _) = compare(&old, &new, &[]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("regressed: relay: 16 B, CPU is worse by 15.0 %: 40.00 before, 46.00 now"), "{out}");
    assert_eq!(compare(&old, &new, &["--max-regress", "20"]).0, 0);
    assert_eq!(compare(&new, &old, &[]).0, 0, "what became better is none");
}

#[test]
fn what_is_missing_is_exit_status_1_unless_that_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (results(folder.path(), "old", 40.0), results(folder.path(), "new", 40.0));
    let mut more = Report::read(&old).unwrap();
    more.results.push(Measurement::new("relay", "16 B, rate", "1/s", Better::Higher, vec![1.0]));
    more.write(&old).unwrap();
    let (code, out, _) = compare(&old, &new, &[]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("missing: relay: 16 B, rate was not measured again"), "{out}");
    assert_eq!(compare(&old, &new, &["--allow-missing"]).0, 0);
    assert_eq!(compare(&new, &old, &[]).0, 0, "what is new is not missing");
}

#[test]
fn what_cannot_be_compared_is_exit_status_2_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let good = results(folder.path(), "good", 40.0);
    let foreign = folder.path().join("foreign.json");
    std::fs::write(&foreign, "{\"format\": \"criterion\"}").unwrap();
    let says = |new: &Path, options: &[&str], words: &str| {
        let (code, _, error) = compare(&good, new, options);
        assert_eq!(code, 2, "{error}");
        assert!(error.contains(words), "{error}");
    };
    says(&folder.path().join("absent.json"), &[], "cannot read");
    says(&foreign, &[], "foreign.json holds no results of `egret-bench --json`");
    says(&good, &["--max-regress=-1"], "must be 0 or more");
    let mut other = Report::read(&good).unwrap();
    other.results[0].unit = "µs/tuple".to_owned();
    let unit = folder.path().join("unit.json");
    other.write(&unit).unwrap();
    says(&unit, &[], "in ns/tuple, Lower is better, before, and in µs/tuple");
    says(&good, &["--by", "ratio"], "no measurement in common");
}

#[test]
fn wrong_usage_is_exit_status_2_and_says_what_is_right() {
    for (args, words) in [
        (&["relays"][..], "fanout"),
        (&["--affinity", "all"], "`none`, `auto` or processors"),
        (&["--runs", "0", "plan"], "1..=1000"),
        (&["-c", "egret.reactor=uring", "plan"], "unknown configuration key"),
        (&["-c", "egret.affinity.policy=none", "plan"], "`--affinity POLICY` pins both"),
        (&["--json", "/proc/absent/r.json", "plan"], "cannot write /proc/absent/r.json"),
        (&["compare", "one"], "<NEW>"),
    ] {
        let output = bench(args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
}
