//! How long complete trees took.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};

/// The longest time that is told from longer ones: one hour.
const MAX_US: u64 = 3_600_000_000;
const DIGITS: u8 = 2;

/// A histogram of complete latencies in microseconds, from 1 to an hour, with two significant digits.
pub struct CompleteLatency {
    histogram: Option<Histogram<u64>>,
    changed: bool,
}

impl Default for CompleteLatency {
    fn default() -> Self {
        // These bounds are valid; without a histogram nothing would be recorded.
        Self { histogram: Histogram::new_with_bounds(1, MAX_US, DIGITS).ok(), changed: false }
    }
}

impl CompleteLatency {
    /// Records so many trees that took this long.
    pub fn record(&mut self, us: u64, trees: u64) {
        if let Some(histogram) = &mut self.histogram {
            histogram.saturating_record_n(us.clamp(1, MAX_US), trees);
            self.changed = true;
        }
    }

    /// What was recorded so far.
    #[must_use]
    pub fn histogram(&self) -> Option<&Histogram<u64>> {
        self.histogram.as_ref()
    }

    /// Whether something was recorded since it was serialized last.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.changed
    }

    /// All that was recorded so far in the V2 serialization of HdrHistogram, if something was since it was asked last.
    pub fn serialize_changed(&mut self) -> Option<Vec<u8>> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(self.histogram.as_ref()?, &mut bytes).ok()?;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::Deserializer;

    #[test]
    fn what_is_recorded_is_told_when_it_changes() {
        let mut latency = CompleteLatency::default();
        assert_eq!(latency.serialize_changed(), None);
        for (us, trees) in [(5, 3), (700, 1), (5, 1), (0, 1), (u64::MAX, 1)] {
            latency.record(us, trees);
        }
        let bytes = latency.serialize_changed().unwrap();
        let read: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
        assert_eq!((read.len(), read.count_at(5), read.count_at(1)), (7, 4, 1));
        assert!(read.max() >= MAX_US);
        assert_eq!(latency.serialize_changed(), None);
    }
}
