//! Sleeping on a word in shared memory.

use rustix::io::Errno;
use rustix::thread::futex;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while the word is `value`, until [`wake`] or `timeout`. May return early.
pub(super) fn wait(word: &AtomicU32, value: u32, timeout: Option<Duration>) {
    let timeout = timeout.map(|t| rustix::time::Timespec {
        tv_sec: t.as_secs().min(1 << 30) as i64,
        tv_nsec: i64::from(t.subsec_nanos()),
    });
    let slept = futex::wait(word, futex::Flags::empty(), value, timeout.as_ref());
    debug_assert!(matches!(slept, Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT)), "{slept:?}");
}

/// Wakes one who sleeps on the word.
pub(super) fn wake(word: &AtomicU32) {
    // Fails when nobody waits.
    let _ = futex::wake(word, futex::Flags::empty(), 1);
}
