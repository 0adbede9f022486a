//! Time that all processes of this machine share.

use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Microseconds since some moment, the same for all processes.
#[must_use]
pub fn now_us() -> u64 {
    micros(ClockId::Monotonic)
}

/// Microseconds of CPU time that this process has used.
#[must_use]
pub fn cpu_us() -> u64 {
    micros(ClockId::ProcessCPUTime)
}

fn micros(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000
}

/// Measures, by a thread that only sleeps, how late this machine lets a thread of this process run: what a test has to
/// concede to everything else that it times here.
#[derive(Debug)]
pub struct Metronome(Arc<AtomicU64>);

impl Metronome {
    const BEAT: Duration = Duration::from_millis(5);

    /// Starts to measure. The thread ends with this value.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn start() -> std::io::Result<Self> {
        let latest = Arc::new(AtomicU64::new(0));
        let weak = Arc::downgrade(&latest);
        std::thread::Builder::new().name("metronome".to_owned()).spawn(move || {
            let mut last = now_us();
            while let Some(latest) = weak.upgrade() {
                crate::let_time_pass(Self::BEAT);
                let now = now_us();
                latest
                    .fetch_max((now - last).saturating_sub(Self::BEAT.as_micros() as u64), Ordering::Relaxed);
                last = now;
            }
        })?;
        Ok(Self(latest))
    }

    /// The latest beat so far, in microseconds.
    #[must_use]
    pub fn latest_us(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
