//! The project's own rules: which crate may know which, and how source files look.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const MOST_LINES: usize = 500;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The workspace's crates, each with the workspace's crates that it names as dependencies.
fn crates() -> BTreeMap<String, BTreeSet<String>> {
    let arguments = ["metadata", "--format-version", "1", "--no-deps", "--offline"];
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let name = |package: &Value| package["name"].as_str().unwrap().to_owned();
    let names: BTreeSet<_> = packages.iter().map(name).collect();
    let dependencies = |package: &Value| {
        let all = package["dependencies"].as_array().unwrap().iter().map(name);
        all.filter(|dependency| names.contains(dependency)).collect()
    };
    packages.iter().map(|package| (name(package), dependencies(package))).collect()
}

#[test]
fn dependencies_point_from_control_to_instance_to_dataplane() {
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("egret-dataplane", &[][..]),
        ("egret-derive", &[]),
        ("egret", &["egret-dataplane", "egret-derive"]),
        ("egret-control", &["egret-dataplane", "egret"]),
        ("egret-benches", &["egret-dataplane", "egret", "egret-control"]),
        ("egret-tests", &["egret-dataplane", "egret", "egret-control"]),
    ]);
    for (name, dependencies) in crates() {
        let allowed = allowed.get(name.as_str());
        let allowed = allowed.unwrap_or_else(|| panic!("say here what the new crate {name} may depend on"));
        for dependency in dependencies {
            assert!(allowed.contains(&dependency.as_str()), "{name} must not depend on {dependency}");
        }
    }
}

/// Inside the dataplane, what is shared by all knows nothing of the stmgr, and the pure core knows no driver.
#[test]
fn rooms_know_only_what_is_below_them() {
    let below_stmgr = ["memory", "frame", "net", "plan", "message"];
    for (path, text) in sources() {
        let Ok(inside) = path.strip_prefix("dataplane/src") else { continue };
        let room = inside.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
        if below_stmgr.contains(&room.trim_end_matches(".rs")) {
            assert!(!code(&text).contains("crate::stmgr"), "{} reaches up into the stmgr", path.display());
        }
        let frame_or_memory = ["memory", "frame"].contains(&room.as_str());
        assert!(!frame_or_memory || !code(&text).contains("crate::net"), "{} reaches up", path.display());
    }
}

/// Every `.rs` file of the workspace, by its path below the root.
fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root()).unwrap() {
        let path = entry.unwrap().path();
        if path.join("Cargo.toml").exists() {
            collect(&path, &mut found);
        }
    }
    assert!(found.len() > 50, "the walk found the sources");
    found
}

fn collect(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            collect(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path.strip_prefix(root()).unwrap().to_owned(), text));
        }
    }
}

/// The text without comments and without what stands in string literals on the same line.
fn code(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.map(|line| line.split('"').step_by(2).collect::<Vec<_>>().join("\"\"") + "\n").collect()
}

/// Every place that breaks a rule, all at once: a list of them is what a person wants.
fn expect_none(broken: &[String]) {
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

#[test]
fn tidy_files_say_what_they_are_and_stay_small() {
    let mut broken = Vec::new();
    for (path, text) in sources() {
        let lines = text.lines().count();
        if !text.starts_with("//! ") {
            broken.push(format!("{}: does not open with a `//!` line that says what it is", path.display()));
        }
        if lines > MOST_LINES {
            broken.push(format!("{}: {lines} lines; look for the second concept in it", path.display()));
        }
    }
    expect_none(&broken);
}

#[test]
fn tidy_nothing_is_left_to_do() {
    let words = ["todo!", "unimplemented!", "dbg!", "FIXME", "XXX"];
    let mut broken = Vec::new();
    for (path, text) in sources().iter().filter(|(path, _)| !path.ends_with(file!())) {
        for (number, line) in text.lines().enumerate() {
            if words.iter().any(|word| line.contains(word)) {
                broken.push(format!("{}:{}: {}", path.display(), number + 1, line.trim()));
            }
        }
    }
    expect_none(&broken);
}

#[test]
fn tidy_every_unsafe_block_says_why_it_is_sound() {
    let mut broken = Vec::new();
    for (path, text) in sources() {
        let lines: Vec<_> = text.lines().collect();
        let here = code(&text);
        if !["unsafe {", "unsafe impl", "unsafe fn", "unsafe extern"].iter().any(|word| here.contains(word)) {
            continue;
        }
        let of_room = fs::read_to_string(root().join(path.with_file_name("mod.rs"))).unwrap_or_default();
        if ![&text, &of_room].iter().any(|text| text.contains("#![allow(unsafe_code)]")) {
            broken
                .push(format!("{}: unsafe code without `#![allow(unsafe_code)]` at its top", path.display()));
        }
        for (number, line) in lines.iter().enumerate() {
            let is_block = code(line).contains("unsafe {") || code(line).contains("unsafe impl");
            if is_block && !has_reason(&lines, number) {
                broken.push(format!("{}:{}: no `SAFETY:`", path.display(), number + 1));
            }
        }
    }
    expect_none(&broken);
}

/// Whether a `SAFETY:` comment stands on the line or in the comment above the statement that the line is part of.
fn has_reason(lines: &[&str], number: usize) -> bool {
    let above = lines[..number].iter().rev().take(12);
    let mut statement =
        above.take_while(|line| !line.trim_end().ends_with(['}', '{']) || line.contains("SAFETY:"));
    lines[number].contains("SAFETY:") || statement.any(|line| line.contains("SAFETY:"))
}

/// BR-046: what waits or measures does it by the steady clock. The wall clock is only shown to people.
#[test]
fn tidy_nothing_waits_by_the_wall_clock() {
    let shown_in = ["control/src/cli/start.rs", "control/src/cli/list.rs", "benches/src/latency/log.rs"];
    // A number above all that were counted before, and the age of a file in its test.
    let others = ["control/src/executor/starts.rs", "instance/src/components/files.rs"];
    let words =
        ["SystemTime", "UNIX_EPOCH", "ClockId::Realtime", "CLOCK_REALTIME", "gettimeofday", "timerfd"];
    let mut broken = Vec::new();
    for (path, text) in sources() {
        let is_test = path.components().any(|part| part.as_os_str() == "tests");
        if is_test || shown_in.iter().chain(&others).any(|file| path == Path::new(file)) {
            continue;
        }
        let here = code(&text);
        let found = words.iter().filter(|word| here.contains(*word));
        broken.extend(found.map(|word| format!("{}: {word}", path.display())));
    }
    expect_none(&broken);
}

/// Every report that `docs/testing.md` lists has tests that are there, in files that name it.
#[test]
fn tidy_each_report_from_elsewhere_is_tested_where_the_list_says() {
    let sources: BTreeMap<_, _> = sources().into_iter().collect();
    let list = fs::read_to_string(root().join("docs/testing.md")).unwrap();
    let mut broken = Vec::new();
    let mut rows = 0;
    for row in list.lines().filter(|line| line.starts_with("| BR-")) {
        rows += 1;
        let id = &row[2..8];
        let names: Vec<_> = row.split('`').filter_map(|part| part.split_once("::")).collect();
        if names.is_empty() {
            broken.push(format!("{id} has no test"));
        }
        for (file, test) in names {
            let text = sources.get(Path::new(file)).map_or("", String::as_str);
            if !text.contains(&format!("fn {test}(")) {
                broken.push(format!("{id}: there is no {file}::{test}"));
            } else if !text.contains(id) {
                broken.push(format!("{file} does not name {id}"));
            }
        }
    }
    assert!(rows >= 19, "the list is read: {rows} rows");
    expect_none(&broken);
}

/// Elsewhere than in the harness, only a loop that watches a deadline may sleep between two looks.
#[test]
fn tidy_tests_wait_for_states_and_never_sleep() {
    let harness = Path::new("tests/src/wait.rs");
    let mut broken = Vec::new();
    for (path, text) in sources().iter().filter(|(path, _)| path != harness) {
        let is_test_file = path.starts_with("tests") || path.components().any(|c| c.as_os_str() == "tests");
        let lines: Vec<_> = text.lines().collect();
        let first = lines.iter().position(|line| is_test_file || line.contains("#[cfg(test)]"));
        for number in first.unwrap_or(lines.len())..lines.len() {
            let above = &lines[number.saturating_sub(4)..number];
            let watches = !path.starts_with("tests") && above.iter().any(|line| line.contains("deadline"));
            if code(lines[number]).contains("thread::sleep") && !watches {
                broken.push(format!("{}:{}: sleeps", path.display(), number + 1));
            }
        }
    }
    expect_none(&broken);
}
