//! The main job: the words of real files, counted over containers and by another program.
//!
//! `EGRET_TEST_TEXT_MB=200` makes the text 200 MB; it is a few otherwise.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use egret_tests::text::{count_independently, read_counts, write_text};
use egret_tests::{Cluster, DEADLINE, cluster};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

const DEFAULT_MB: u64 = 4;

struct Text {
    path: PathBuf,
    lines: u64,
    counts: BTreeMap<String, u64>,
}

/// One text for all tests.
static TEXT: LazyLock<Text> = LazyLock::new(|| {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("text.txt");
    write_text(&path, megabytes() << 20);
    let lines = fs::read(&path).unwrap().iter().filter(|byte| **byte == b'\n').count() as u64;
    let counts = count_independently(&path);
    Text { path, lines, counts }
});

fn megabytes() -> u64 {
    let wanted = std::env::var("EGRET_TEST_TEXT_MB");
    wanted.map_or(DEFAULT_MB, |mb| mb.parse().expect("EGRET_TEST_TEXT_MB is a number"))
}

fn topology(cluster: &Cluster, containers: u32) -> PathBuf {
    let text = TEXT.path.display();
    cluster.write(
        "word-count.yaml",
        format!(
            "name: word-count
config:
  topology.containers: {containers}
spouts:
  - {{id: lines, type: file-lines, args: {{path: [{text}]}}}}
bolts:
  - {{id: split, type: split-words, parallelism: 2}}
  - {{id: count, type: count, parallelism: 2, args: {{by: word}}}}
  - {{id: out, type: file-sink, args: {{path: counts.tsv}}}}
streams:
  - {{from: lines, to: split, grouping: {{type: SHUFFLE}}}}
  - {{from: split, to: count, grouping: {{type: FIELDS, args: [word]}}}}
  - {{from: count, to: out, grouping: {{type: GLOBAL}}}}
"
        ),
    )
}

fn counts_are_exact(containers: u32, options: &[&str]) {
    let cluster = cluster!();
    let yaml = topology(&cluster, containers);
    let deadline = DEADLINE + Duration::from_secs(3 * megabytes());
    let run = cluster.egret(["run", "--json"]).args(options).arg(yaml).spawn();
    let finished = run.finish_within(deadline).expect(0);
    let summary = finished.json();
    assert_eq!((&summary["state"], &summary["lost"]), (&"completed".into(), &0.into()), "{summary}");

    let counted = read_counts(&cluster.path("counts.tsv"));
    let differing = TEXT.counts.iter().find(|(word, count)| counted.get(*word) != Some(count));
    assert_eq!(differing, None, "the first word that was counted otherwise");
    assert_eq!(counted.len(), TEXT.counts.len(), "words that are not in the text");

    let words: u64 = TEXT.counts.values().sum();
    let of = |component: &str, what: &str| summary["components"][component][what].as_u64().unwrap();
    assert_eq!([of("lines", "emitted"), of("split", "executed")], [TEXT.lines; 2]);
    assert_eq!([of("split", "emitted"), of("count", "executed")], [words; 2]);
    assert_eq!([of("count", "emitted"), of("out", "executed")], [counted.len() as u64; 2]);
    drop(summary);
    cluster.wait_until_clean(false);
}

#[test]
fn word_count_in_1_container() {
    counts_are_exact(1, &[]);
}

#[test]
fn word_count_in_2_containers() {
    counts_are_exact(2, &[]);
}

#[test]
fn word_count_in_4_containers() {
    counts_are_exact(4, &[]);
}

#[test]
fn word_count_in_2_containers_over_epoll() {
    counts_are_exact(2, &["-c", "egret.network.reactor=epoll"]);
}
