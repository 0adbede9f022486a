//! The parker on the real futex; `tests/loom` has it under every interleaving.

use super::map::Mapping;
use super::{Parker, Sleep, Waker};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[test]
fn no_wake_up_is_lost() {
    let map = Arc::new(Mapping::create("park-test", 4096).unwrap());
    let (parker, waker) = (Parker::new(map.clone(), 0), Waker::futex(map, 0));
    let work = Arc::new(AtomicU64::new(0));
    let seen = Arc::new(AtomicU64::new(0));
    let producer = std::thread::spawn({
        let (work, seen) = (work.clone(), seen.clone());
        move || {
            for n in 1..=20_000 {
                work.store(n, Ordering::Relaxed);
                waker.wake();
                while seen.load(Ordering::Relaxed) < n {
                    std::thread::yield_now();
                }
            }
        }
    });
    // Without a timeout: one lost wake-up would hang the test.
    for n in 1..=20_000 {
        while work.load(Ordering::Relaxed) < n {
            parker.park(Sleep::Light, || work.load(Ordering::Relaxed) >= n, None);
        }
        seen.store(n, Ordering::Relaxed);
    }
    producer.join().unwrap();
}

#[test]
fn a_timeout_ends_the_sleep() {
    let map = Arc::new(Mapping::create("park-test", 4096).unwrap());
    Parker::new(map, 0).park(Sleep::Light, || false, Some(Duration::from_millis(1)));
}
