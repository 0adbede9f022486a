//! How many clusters may run at once, whatever the number of test threads.

use std::sync::{Condvar, Mutex};

/// A topology is some ten processes; more of them than this and they only wait for each other.
const AT_ONCE: usize = 2;

static TAKEN: Mutex<usize> = Mutex::new(0);
static GIVEN_BACK: Condvar = Condvar::new();

/// The right to run a cluster.
#[derive(Debug)]
pub(crate) struct Permit(());

impl Permit {
    /// Waits for its turn.
    pub(crate) fn take() -> Self {
        let taken = TAKEN.lock().unwrap();
        let mut taken = GIVEN_BACK.wait_while(taken, |taken| *taken == AT_ONCE).unwrap();
        *taken += 1;
        Self(())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *TAKEN.lock().unwrap() -= 1;
        GIVEN_BACK.notify_one();
    }
}
