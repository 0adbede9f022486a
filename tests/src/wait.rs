//! Waiting for a state, with a deadline; and letting time pass.

use std::time::{Duration, Instant};

/// Long enough for whatever a test waits for, on a machine that is busy with other tests.
pub const DEADLINE: Duration = Duration::from_secs(60);

const INTERVAL: Duration = Duration::from_millis(10);

/// Asks `probe` again and again until it has an answer.
///
/// # Panics
/// When there is none before the deadline; `what` says what was waited for.
#[track_caller]
pub fn wait_for<T>(what: &str, deadline: Duration, probe: impl FnMut() -> Option<T>) -> T {
    let answer = try_for(deadline, probe);
    answer.unwrap_or_else(|| panic!("waited {deadline:?} in vain for {what}"))
}

/// As [`wait_for`], but gives `None` when the deadline passes.
pub fn try_for<T>(deadline: Duration, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        match probe() {
            Some(answer) => return Some(answer),
            None if start.elapsed() >= deadline => return None,
            None => std::thread::sleep(INTERVAL),
        }
    }
}

/// Does nothing for this long: for a component that is to be slow, and for a clock. Whatever waits for a state calls
/// [`wait_for`].
pub fn let_time_pass(time: Duration) {
    std::thread::sleep(time);
}
