//! The `file-lines` spout over files, pipes, failures and deaths.

use super::super::testing::{Bench, Tracked};
use super::FileLines;
use crate::{Next, Spout};
use serde_json::json;
use std::path::{Path, PathBuf};

fn file(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("a.txt");
    std::fs::write(&path, text).unwrap();
    path
}

fn bench(folder: &Path, incarnation: u32) -> Bench {
    Bench::spout("file-lines", json!({"path": "unused"})).process(folder, incarnation)
}

fn track(folder: &Path, incarnation: u32, path: &Path) -> crate::Result<Tracked<FileLines>> {
    bench(folder, incarnation).track(FileLines::new([path.to_str().unwrap()]).repeat(2))
}

fn lines(tuples: Vec<Vec<String>>) -> Vec<String> {
    tuples.into_iter().map(|mut tuple| tuple.remove(0)).collect()
}

#[test]
fn each_line_once_in_order_and_again_when_repeated() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "one\r\n\n two \t\n").unwrap();
    std::fs::write(folder.path().join("b.txt"), "three").unwrap();
    let path = folder.path().join("*.txt");
    let mut spout = Bench::spout("file-lines", json!({"path": [path], "repeat": 2})).start().unwrap();
    let (tuples, errors) = spout.drain();
    assert_eq!(lines(tuples), ["one", "", " two \t", "three", "one", "", " two \t", "three"]);
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn tasks_share_the_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    let text: String = (0..1000).map(|i| format!("{i}\n")).collect();
    std::fs::write(&path, text).unwrap();
    let share = |task| {
        let bench = Bench::spout("file-lines", json!({"path": path})).task(task, 3);
        lines(bench.start().unwrap().drain().0)
    };
    let shares: Vec<_> = (0..3).map(share).collect();
    assert!(shares.iter().all(|share| share.len() > 250), "{shares:?}");
    let expected: Vec<_> = (0..1000).map(|i| i.to_string()).collect();
    assert_eq!(shares.concat(), expected);
}

#[test]
fn bytes_that_are_no_text_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("latin1.txt");
    std::fs::write(&path, b"caf\xe9\nok\n").unwrap();
    let (tuples, _) = Bench::spout("file-lines", json!({"path": path})).start().unwrap().drain();
    assert_eq!(lines(tuples), ["caf\u{fffd}", "ok"]);
}

#[test]
fn a_line_over_the_limit_is_an_error_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.txt");
    // The bench's limit is 64 KiB for the tuple, of which 8 bytes are not the line's.
    let text = ["x".repeat((64 << 10) - 8), "y".repeat((64 << 10) - 7), "z".to_owned()].join("\n");
    std::fs::write(&path, text).unwrap();
    let (tuples, errors) = Bench::spout("file-lines", json!({"path": path})).start().unwrap().drain();
    assert_eq!(tuples.len(), 2);
    assert_eq!(errors.len(), 1);
    assert!(errors[0].contains("long.txt`, line 2: the line is longer than 65536 bytes"), "{errors:?}");
}

#[test]
fn a_missing_file_is_named() {
    let bench = Bench::spout("file-lines", json!({"path": "/nowhere/book.txt"}));
    let error = bench.start().err().unwrap().to_string();
    assert!(error.starts_with("cannot read `/nowhere/book.txt`: No such file"), "{error}");
}

#[test]
fn failed_lines_come_again_before_new_ones() {
    let folder = tempfile::tempdir().unwrap();
    let long = "x".repeat(10_000);
    let path = file(folder.path(), &format!("one\r\n\n{long}\nfour"));
    let mut it = track(folder.path(), 1, &path).unwrap();
    assert_eq!(it.some(3).0, ["one", "", &long]);
    [2, 0, 1].into_iter().for_each(|id| it.spout.fail(id));
    let (lines, last) = it.all();
    assert_eq!(lines, [&long, "one", "", "four", "one", "", &long, "four"]);
    assert_eq!(last.unwrap(), Next::Exhausted);
    it.spout.fail(10);
    it.spout.fail(6);
    assert_eq!(it.all().0, ["four", "four"]);
}

#[test]
fn a_successor_goes_on_with_what_was_not_acked() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "0\n1\n2\n3\n4");
    let mut it = track(folder.path(), 1, &path).unwrap();
    assert_eq!(it.some(8).0.len(), 8);
    [0, 1, 3, 6].into_iter().for_each(|id| it.spout.ack(id));
    it.spout.close();
    drop(it);
    // It has grown: that is no matter, and not read.
    std::io::Write::write_all(&mut std::fs::File::options().append(true).open(&path).unwrap(), b"\n5")
        .unwrap();
    let mut it = track(folder.path(), 2, &path).unwrap();
    assert_eq!(it.all().0, ["2", "4", "0", "2", "3", "4"]);
    (0..6).for_each(|id| it.spout.ack(id));
    drop(it);
    let (lines, last) = track(folder.path(), 3, &path).unwrap().all();
    assert_eq!((lines.len(), last.unwrap()), (0, Next::Exhausted));
}

#[test]
fn at_most_once_a_successor_repeats_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let text: String = (0..2000).map(|i| format!("{i}\n")).collect();
    let path = file(folder.path(), &text);
    let mut seen = Vec::new();
    for incarnation in 1..50 {
        let bench = Bench::spout("file-lines", json!({"path": path}));
        let mut it = bench.process(folder.path(), incarnation).start().unwrap();
        for _ in 0..5 {
            let _ = it.next().unwrap();
        }
        seen.extend(lines(it.emitted()).into_iter().map(|line| line.parse::<u32>().unwrap()));
    }
    assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
    assert!(seen.len() >= 5);
}

#[test]
fn a_file_that_was_replaced_is_an_error_when_it_is_needed_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "one\ntwo\n");
    let mut it = track(folder.path(), 1, &path).unwrap();
    assert_eq!(it.some(1).0, ["one"]);
    std::fs::rename(&path, folder.path().join("old")).unwrap();
    std::fs::write(&path, "other\nlines\n").unwrap();
    it.spout.fail(0);
    for _ in 0..2 {
        let error = it.all().1.unwrap_err().to_string();
        assert!(error.contains("a.txt` has been replaced since"), "{error}");
    }
    it.spout.close();
    drop(it);
    let error = track(folder.path(), 2, &path).err().unwrap().to_string();
    assert!(error.contains("a.txt` has been replaced since"), "{error}");
    // It is no matter when nothing of it is needed.
    std::fs::rename(folder.path().join("old"), &path).unwrap();
    let mut it = track(folder.path(), 3, &path).unwrap();
    assert_eq!(it.all().0.len(), 4);
    (0..4).for_each(|id| it.spout.ack(id));
    drop(it);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(track(folder.path(), 4, &path).unwrap().all().1.unwrap(), Next::Exhausted);
}

#[test]
fn lines_of_a_pipe_are_kept_as_long_as_the_process_lives() {
    use rustix::fs::{CWD, Mode, mkfifoat};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
    let mut writer = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    std::io::Write::write_all(&mut writer, b"one\ntwo\nthree\n").unwrap();
    let start = |incarnation| {
        bench(folder.path(), incarnation).track(FileLines::new([path.to_str().unwrap()])).unwrap()
    };
    let mut it = start(1);
    let (lines, last) = it.all();
    assert_eq!(lines, ["one", "two", "three"]);
    assert!(matches!(last, Ok(Next::Wait(_))), "{last:?}");
    it.spout.ack(0);
    it.spout.fail(1);
    it.spout.fail(2);
    assert_eq!(it.some(2).0, ["two", "three"]);
    it.spout.ack(4);
    it.spout.close();
    drop(it);
    let mut it = start(2);
    std::io::Write::write_all(&mut writer, b"four\n").unwrap();
    assert_eq!(it.all().0, ["four"]);
}
