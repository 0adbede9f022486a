//! Latencies: how they are recorded, and as what they are written.
//!
//! * [`Recorder`]: a histogram for each second, in the process that sees the tuples; writes the interval log (`.hlog`).
//! * [`hgrm`]: the percentile distribution (`.hgrm`) that HdrHistogram's plotters read; [`svg`]: a plot of it.

pub mod hgrm;
mod log;
pub mod svg;

pub use log::read;

use hdrhistogram::Histogram;
use std::io;
use std::path::Path;

/// The longest that is told apart: an hour.
const MAX_NS: u64 = 3_600_000_000_000;
/// Significant digits of a value.
const DIGITS: u8 = 3;
/// How long an interval of the log is.
const INTERVAL_NS: u64 = 1_000_000_000;

/// An empty histogram of nanoseconds.
#[must_use]
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, MAX_NS, DIGITS).unwrap_or_else(|_| unreachable!("the bounds are right"))
}

/// A histogram of the tuples that came in one interval.
pub struct Interval {
    /// From when, in nanoseconds since the first tuple came.
    pub start_ns: u64,
    /// For how long.
    pub length_ns: u64,
    /// What the tuples took, in nanoseconds.
    pub histogram: Histogram<u64>,
}

/// Records what each tuple took.
#[derive(Default)]
pub struct Recorder {
    intervals: Vec<Interval>,
    first_ns: u64,
    ends_ns: u64,
}

impl Recorder {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A tuple that should have been sent at one time has come at another.
    #[inline]
    pub fn record(&mut self, intended_ns: u64, now_ns: u64) {
        if now_ns >= self.ends_ns {
            self.next_interval(now_ns);
        }
        if let Some(interval) = self.intervals.last_mut() {
            interval.histogram.saturating_record(now_ns.saturating_sub(intended_ns).max(1));
            interval.length_ns = now_ns - self.first_ns - interval.start_ns;
        }
    }

    #[cold]
    fn next_interval(&mut self, now_ns: u64) {
        if self.intervals.is_empty() {
            self.first_ns = now_ns;
        }
        self.ends_ns = now_ns + INTERVAL_NS;
        let start_ns = now_ns - self.first_ns;
        self.intervals.push(Interval { start_ns, length_ns: 0, histogram: histogram() });
    }

    /// Writes the interval log.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        log::write(path, &self.intervals)
    }
}

/// All intervals together.
///
/// # Errors
/// Never, as all have the same bounds.
pub fn total(intervals: &[Interval]) -> anyhow::Result<Histogram<u64>> {
    let mut total = histogram();
    for interval in intervals {
        total.add(&interval.histogram).map_err(|error| anyhow::anyhow!("adding intervals: {error}"))?;
    }
    Ok(total)
}
