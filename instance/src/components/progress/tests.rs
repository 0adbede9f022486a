//! Progress over the deaths of its processes.

use super::super::testing::Bench;
use super::claims::MAX_CLAIM;
use super::tracked::MAX_HOLES;
use super::*;
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;

fn open(folder: &Path, mode: &str, pending: u64) -> Result<(Progress<u64>, Start<u64>), Error> {
    let bench = Bench::spout("sequence", json!({})).process(folder, 1);
    let bench = bench.config(config::RELIABILITY_MODE, mode);
    let context = bench.config(config::MAX_SPOUT_PENDING, &pending.to_string()).context();
    Progress::open(&context, "numbers", 0, || Ok(b"setup".to_vec()))
}

/// What a task emits again or for the first time when it goes on until `end`, and what of that is replayed.
fn rest(progress: &mut Progress<u64>, start: u64, end: u64) -> (Vec<u64>, usize) {
    let mut all = Vec::new();
    while let Some(number) = progress.next_failed() {
        all.push(number);
    }
    let replayed = all.len();
    all.extend(start..end);
    (all, replayed)
}

/// A tuple from this place was emitted with this id.
fn emitted(progress: &mut Progress<u64>, id: u64, place: u64) {
    let Progress::AtLeastOnce(tracked) = progress else { panic!("it is not tracked") };
    tracked.emitted(id, place);
}

#[derive(Clone, Debug)]
enum Step {
    Emit(u8),
    Ack(usize),
    Fail(usize),
    Rest,
    Close,
    Die,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..40_u8).prop_map(Step::Emit),
        9 => any::<usize>().prop_map(Step::Ack),
        3 => any::<usize>().prop_map(Step::Fail),
        1 => Just(Step::Rest),
        1 => Just(Step::Close),
        2 => Just(Step::Die),
    ]
}

proptest! {
    /// Whatever is not acked is emitted by a successor, and not much of what is.
    #[test]
    fn at_least_once_over_deaths(
        pending in 1_u64..300,
        steps in prop::collection::vec(step(), 0..300),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (mut progress, start) = open(folder.path(), "ATLEAST_ONCE", pending).unwrap();
        prop_assert!(!start.resumed);
        let (mut next, mut flying, mut acked, mut ids) = (0, Vec::new(), BTreeSet::new(), 0..);
        for step in steps {
            match step {
                Step::Emit(count) => for _ in 0..count {
                    if flying.len() as u64 == pending {
                        break;
                    }
                    let place = progress.next_failed().unwrap_or_else(|| {
                        progress.begin(next).unwrap();
                        next += 1;
                        next - 1
                    });
                    let id = ids.next().unwrap();
                    emitted(&mut progress, id, place);
                    flying.push((id, place));
                },
                Step::Ack(i) if !flying.is_empty() => {
                    // Mostly the old ones, as it is.
                    let (id, number) = flying.remove(i % flying.len().min(8));
                    progress.ack(id);
                    acked.insert(number);
                }
                Step::Fail(i) if !flying.is_empty() => progress.fail(flying.remove(i % flying.len()).0),
                Step::Rest => progress.rest(next, true),
                Step::Close => progress.close(next),
                Step::Die => {
                    drop(progress);
                    let before = next;
                    let start;
                    (progress, start) = open(folder.path(), "ATLEAST_ONCE", pending).unwrap();
                    prop_assert_eq!(&start.setup, b"setup");
                    next = start.place;
                    (flying, ids) = (Vec::new(), 0..);
                    let (again, _) = rest(&mut progress, next, before);
                    let open: BTreeSet<u64> = (0..before).filter(|n| !acked.contains(n)).collect();
                    let emitted: BTreeSet<u64> = again.iter().copied().collect();
                    prop_assert_eq!(emitted.len(), again.len());
                    prop_assert!(open.is_subset(&emitted), "lost {:?}", open.difference(&emitted));
                    // With few in flight the holes are exact.
                    if pending <= MAX_HOLES as u64 {
                        prop_assert!(again.len() as u64 <= pending + pending / 64 + 1, "{again:?}");
                    }
                    // Everything goes on as if it had just been emitted.
                    drop(progress);
                    (progress, _) = open_at(folder.path(), pending);
                }
                _ => {}
            }
        }
    }
}

fn open_at(folder: &Path, pending: u64) -> (Progress<u64>, Start<u64>) {
    open(folder, "ATLEAST_ONCE", pending).unwrap()
}

#[test]
fn a_stuck_tuple_holds_back_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut progress = open(folder.path(), "ATLEAST_ONCE", 10).unwrap().0;
    for number in 0..100_000 {
        progress.begin(number).unwrap();
        emitted(&mut progress, number, number);
        if number > 0 {
            assert_eq!(progress.ack(number), Some(number));
        }
    }
    drop(progress);
    let (mut progress, start) = open(folder.path(), "ATLEAST_ONCE", 10).unwrap();
    let (again, replayed) = rest(&mut progress, start.place, 100_000);
    assert_eq!((again[0], replayed), (0, 1));
    assert!(again.len() <= 11, "{again:?}");
}

#[test]
fn a_tuple_whose_emission_panics_is_left_to_a_successor() {
    let folder = tempfile::tempdir().unwrap();
    let mut progress = open(folder.path(), "ATLEAST_ONCE", 10).unwrap().0;
    progress.begin(0).unwrap();
    let Progress::AtLeastOnce(tracked) = &mut progress else { panic!("it is not tracked") };
    drop(PanicGuard { tracked, place: 0, is_over: false });
    assert_eq!(progress.next_failed(), None);
    progress.begin(1).unwrap();
    emitted(&mut progress, 0, 1);
    assert_eq!(progress.ack(0), Some(1));
    progress.close(2);
    drop(progress);
    let (mut progress, start) = open(folder.path(), "ATLEAST_ONCE", 10).unwrap();
    assert_eq!(rest(&mut progress, start.place, 2), (vec![0], 1));
}

#[test]
fn at_the_end_nothing_comes_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut progress = open(folder.path(), "ATLEAST_ONCE", 1000).unwrap().0;
    for n in 0..500 {
        progress.begin(n).unwrap();
        emitted(&mut progress, n, n);
    }
    progress.rest(500, true);
    for n in 0..500 {
        assert_eq!(progress.ack(n), Some(n));
    }
    drop(progress);
    let (mut progress, start) = open(folder.path(), "ATLEAST_ONCE", 1000).unwrap();
    assert_eq!((start.place, start.resumed, progress.next_failed()), (500, true, None));
}

#[test]
fn at_most_once_never_repeats_and_loses_little() {
    let folder = tempfile::tempdir().unwrap();
    let mut next = 0;
    for _ in 0..20 {
        let (mut progress, start) = open(folder.path(), "ATMOST_ONCE", 10).unwrap();
        assert!(start.place >= next, "{} comes again", start.place);
        assert!(start.place - next <= MAX_CLAIM);
        next = start.place;
        for _ in 0..1000 {
            progress.begin(next).unwrap();
            next += 1;
        }
    }
    let (mut progress, start) = open(folder.path(), "ATMOST_ONCE", 10).unwrap();
    let next = start.place;
    progress.begin(next).unwrap();
    progress.close(next + 1);
    drop(progress);
    let (mut progress, start) = open(folder.path(), "ATMOST_ONCE", 10).unwrap();
    assert_eq!(start.place, next + 1);
    // Nothing was claimed, so nothing is given back.
    progress.close(next + 1);
    drop(progress);
    assert_eq!(open(folder.path(), "ATMOST_ONCE", 10).unwrap().1.place, next + 1);
}

#[test]
fn a_file_that_is_no_use_is_repeated_over_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("task-2.position");
    std::fs::write(&path, "hello").unwrap();
    let error = open(folder.path(), "ATMOST_ONCE", 10).err().unwrap().to_string();
    assert!(error.contains("task-2.position` is something else"), "{error}");
    let (progress, start) = open(folder.path(), "ATLEAST_ONCE", 10).unwrap();
    assert_eq!((start.place, start.resumed), (0, false));
    drop(progress);
    assert!(open(folder.path(), "ATMOST_ONCE", 10).is_ok());
}
