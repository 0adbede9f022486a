//! The tests that every state manager passes.
//!
//! Each takes a function that opens the same, at first empty, state anew, as another process would.

use super::{StateError, StateManager};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Opens one state again and again.
pub(super) type Open<'a> = &'a (dyn Fn() -> Box<dyn StateManager> + Sync);

/// A test, and its name.
pub(super) type Test = (&'static str, fn(Open<'_>));

/// All of them.
pub(super) const TESTS: &[Test] = &[
    ("an entry is absent, written, replaced, deleted", write_read_delete),
    ("create fails when the entry is there", create_once),
    ("names of any form are kept apart and listed", names),
    ("paths that are none are refused", bad_paths),
    ("an ephemeral entry lasts as long as its guard", ephemeral),
    ("an ephemeral entry is held by one", ephemeral_is_exclusive),
    ("a deleted ephemeral entry can be held anew without harm from the first guard", ephemeral_deleted),
    ("a lasting and an ephemeral entry do not replace each other", ephemeral_and_lasting),
    ("a lock lets one in at a time", lock),
    ("readers see whole entries while writers replace them", whole_entries),
    ("of many that create one entry, one succeeds", create_race),
];

fn write_read_delete(open: Open<'_>) {
    let (a, b) = (open(), open());
    assert_eq!(a.read("/x/one").unwrap(), None);
    assert!(!a.delete("/x/one").unwrap());
    assert_eq!(a.list("/x").unwrap(), [""; 0]);
    a.write("/x/one", b"1").unwrap();
    assert_eq!(b.read("/x/one").unwrap().unwrap(), b"1");
    b.write("/x/one", b"").unwrap();
    assert_eq!(a.read("/x/one").unwrap().unwrap(), b"");
    assert!(a.delete("/x/one").unwrap());
    assert_eq!(b.read("/x/one").unwrap(), None);
}

fn create_once(open: Open<'_>) {
    let (a, b) = (open(), open());
    a.create("/x/one", b"1").unwrap();
    assert!(matches!(b.create("/x/one", b"2"), Err(StateError::Exists { .. })));
    assert_eq!(b.read("/x/one").unwrap().unwrap(), b"1");
    b.delete("/x/one").unwrap();
    b.create("/x/one", b"2").unwrap();
}

fn names(open: Open<'_>) {
    let state = open();
    let names = ["%2Ehidden", "..", ".hidden", "a", "a.b", "a.tmp", "käse", "with space"];
    for name in names {
        state.write(&format!("/n/{name}"), name.as_bytes()).unwrap();
    }
    state.write("/other/a", b"another").unwrap();
    for name in names {
        assert_eq!(state.read(&format!("/n/{name}")).unwrap().unwrap(), name.as_bytes());
    }
    assert_eq!(state.list("/n").unwrap(), names);
    for name in names {
        state.delete(&format!("/n/{name}")).unwrap();
    }
    assert_eq!(state.list("/n").unwrap(), [""; 0]);
}

fn bad_paths(open: Open<'_>) {
    let state = open();
    for path in ["", "/", "x", "/x/", "//x", "/x//y", "/a\0b"] {
        assert!(matches!(state.write(path, b""), Err(StateError::BadPath { .. })), "{path:?}");
        assert!(matches!(state.read(path), Err(StateError::BadPath { .. })), "{path:?}");
    }
}

fn ephemeral(open: Open<'_>) {
    let (a, b) = (open(), open());
    let guard = a.ephemeral("/e/one", b"me").unwrap();
    assert!(guard.is_held().unwrap());
    assert_eq!(b.read("/e/one").unwrap().unwrap(), b"me");
    assert_eq!(b.list("/e").unwrap(), ["one"]);
    drop(guard);
    assert_eq!(b.read("/e/one").unwrap(), None);
    assert_eq!(b.list("/e").unwrap(), [""; 0]);
    assert!(!b.delete("/e/one").unwrap());
}

fn ephemeral_is_exclusive(open: Open<'_>) {
    let (a, b) = (open(), open());
    let guard = a.ephemeral("/e/one", b"first").unwrap();
    match b.ephemeral("/e/one", b"second") {
        Err(StateError::Held { holder, .. }) => assert_eq!(holder, "first"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(a.ephemeral("/e/one", b"third"), Err(StateError::Held { .. })));
    assert!(guard.is_held().unwrap());
    drop(guard);
    let _second = b.ephemeral("/e/one", b"second").unwrap();
    assert_eq!(a.read("/e/one").unwrap().unwrap(), b"second");
}

fn ephemeral_deleted(open: Open<'_>) {
    let (a, b) = (open(), open());
    let first = a.ephemeral("/e/one", b"first").unwrap();
    assert!(b.delete("/e/one").unwrap());
    assert!(!first.is_held().unwrap());
    assert_eq!(b.read("/e/one").unwrap(), None);
    let second = b.ephemeral("/e/one", b"second").unwrap();
    drop(first);
    assert!(second.is_held().unwrap());
    assert_eq!(a.read("/e/one").unwrap().unwrap(), b"second");
}

fn ephemeral_and_lasting(open: Open<'_>) {
    let state = open();
    let guard = state.ephemeral("/e/one", b"me").unwrap();
    assert!(matches!(state.write("/e/one", b"x"), Err(StateError::Held { .. })));
    assert!(matches!(state.create("/e/one", b"x"), Err(StateError::Exists { .. })));
    drop(guard);
    state.write("/e/one", b"x").unwrap();
    assert!(matches!(state.ephemeral("/e/one", b"me"), Err(StateError::Exists { .. })));
}

fn lock(open: Open<'_>) {
    let inside = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let state = open();
                    let _guard = state.lock("/locks/one", b"me", Duration::from_secs(60)).unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    std::thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    let _guard = open().lock("/locks/one", b"me", Duration::ZERO).unwrap();
    assert!(matches!(open().lock("/locks/one", b"you", Duration::ZERO), Err(StateError::Held { .. })));
}

fn whole_entries(open: Open<'_>) {
    let value = |n: u8| vec![n; 1 + usize::from(n) * 700];
    open().write("/w/one", &value(0)).unwrap();
    std::thread::scope(|scope| {
        for first in [0, 10] {
            scope.spawn(move || (first..first + 10).for_each(|n| open().write("/w/one", &value(n)).unwrap()));
        }
        scope.spawn(|| {
            for _ in 0..200 {
                let read = open().read("/w/one").unwrap().unwrap();
                assert_eq!(read, value(read[0]));
            }
        });
    });
}

fn create_race(open: Open<'_>) {
    for round in 0..10 {
        let path = format!("/c/{round}");
        let created = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| match open().create(&path, b"x") {
                    Ok(()) => drop(created.fetch_add(1, Ordering::SeqCst)),
                    Err(StateError::Exists { .. }) => {}
                    Err(other) => panic!("{other}"),
                });
            }
        });
        assert_eq!(created.into_inner(), 1);
    }
}
