//! How long tuple trees take, over all the processes that ever ran a spout's task.
//!
//! Each process sends a histogram of all the trees that it saw complete, again and again; the newest counts. When another
//! process follows it, what it had counted is kept.

use egret_dataplane::ids::{Incarnation, TaskId};
use egret_dataplane::message::{CompleteLatency, Latency, MAX_HISTOGRAM_BYTES};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The longest latency that is told apart: an hour.
const MAX_US: u64 = 3_600_000_000;
/// Significant digits that are kept.
const DIGITS: u8 = 2;
/// Of a serialized histogram, before its counts: cookie, length of the counts, index offset, digits (each `u32`), lowest
/// and highest value (`u64`) and a ratio (`f64`).
const HEADER_BYTES: usize = 40;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    tasks: BTreeMap<TaskId, Seen>,
}

#[derive(Debug)]
struct Seen {
    before: Histogram<u64>,
    incarnation: Incarnation,
    now: Histogram<u64>,
}

/// What a tmaster leaves to the next one.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub(crate) struct SavedLatency {
    task: TaskId,
    incarnation: Incarnation,
    before: Vec<u8>,
    now: Vec<u8>,
}

impl Latencies {
    /// Takes in what a process says.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn update(&mut self, latency: &Latency) -> Result<(), String> {
        let now = decode(&latency.histogram)?;
        let incarnation = latency.incarnation;
        let seen = self.tasks.entry(latency.task).or_insert_with(|| Seen {
            before: blank(),
            incarnation,
            now: blank(),
        });
        if incarnation < seen.incarnation {
            // The last words of a process whose successor was faster. They hold all of its former words.
            return Ok(());
        }
        if incarnation > seen.incarnation {
            merge(&mut seen.before, &seen.now);
            seen.incarnation = incarnation;
        }
        seen.now = now;
        Ok(())
    }

    /// The quantiles over all spouts.
    pub(crate) fn quantiles(&self) -> CompleteLatency {
        let mut all = blank();
        for seen in self.tasks.values() {
            merge(&mut all, &seen.before);
            merge(&mut all, &seen.now);
        }
        if all.is_empty() {
            return CompleteLatency::default();
        }
        let at = |quantile| Some(all.value_at_quantile(quantile));
        let (p50, p90, p99, p999) = (at(0.5), at(0.9), at(0.99), at(0.999));
        CompleteLatency { p50, p90, p99, p999, max: Some(all.max()) }
    }

    pub(crate) fn save(&self) -> Vec<SavedLatency> {
        let saved = |(task, seen): (&TaskId, &Seen)| SavedLatency {
            task: *task,
            incarnation: seen.incarnation,
            before: encode(&seen.before),
            now: encode(&seen.now),
        };
        self.tasks.iter().map(saved).collect()
    }

    /// What cannot be read is left out.
    pub(crate) fn restore(saved: &[SavedLatency]) -> Self {
        let seen = |saved: &SavedLatency| {
            let (before, now) = (decode(&saved.before).ok()?, decode(&saved.now).ok()?);
            Some((saved.task, Seen { before, incarnation: saved.incarnation, now }))
        };
        Self { tasks: saved.iter().filter_map(seen).collect() }
    }
}

fn blank() -> Histogram<u64> {
    match Histogram::new_with_bounds(1, MAX_US, DIGITS) {
        Ok(histogram) => histogram,
        Err(error) => unreachable!("the bounds are constants that fit: {error:?}"),
    }
}

fn merge(sum: &mut Histogram<u64>, part: &Histogram<u64>) {
    for value in part.iter_recorded() {
        sum.saturating_record_n(value.value_iterated_to(), value.count_at_value());
    }
}

fn encode(histogram: &Histogram<u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    match V2Serializer::new().serialize(histogram, &mut bytes) {
        Ok(_) => bytes,
        Err(error) => unreachable!("a histogram serializes to memory: {error}"),
    }
}

/// Reads a histogram. What it says of itself is a claim: nothing is taken that would need much memory.
fn decode(bytes: &[u8]) -> Result<Histogram<u64>, String> {
    let field = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let highest = bytes.get(24..32).and_then(|b| b.try_into().ok()).map(u64::from_be_bytes);
    let fits = bytes.len() <= MAX_HISTOGRAM_BYTES
        && field(4).is_some_and(|length| HEADER_BYTES + length as usize == bytes.len())
        && field(12).is_some_and(|digits| digits <= u32::from(DIGITS))
        && highest.is_some_and(|highest| highest <= MAX_US);
    if !fits {
        return Err(format!("{} bytes are no histogram of up to {MAX_US} µs", bytes.len()));
    }
    Deserializer::new().deserialize(&mut &*bytes).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(incarnation: u32, values: &[u64]) -> Latency {
        let mut histogram = blank();
        values.iter().for_each(|value| histogram.record(*value).unwrap());
        let histogram = encode(&histogram);
        Latency { task: TaskId(1), incarnation: Incarnation(incarnation), histogram }
    }

    fn count(latencies: &Latencies) -> u64 {
        latencies.tasks.values().map(|seen| seen.before.len() + seen.now.len()).sum()
    }

    #[test]
    fn the_newest_words_of_each_process_count_and_its_successor_adds_to_them() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.quantiles(), CompleteLatency::default());
        for (incarnation, values, total) in
            [(1, &[10][..], 1), (1, &[10, 20], 2), (2, &[30], 3), (1, &[10, 20], 3), (2, &[30, 40], 4)]
        {
            latencies.update(&says(incarnation, values)).unwrap();
            assert_eq!(count(&latencies), total);
        }
        let quantiles = latencies.quantiles();
        assert_eq!((quantiles.p50, quantiles.p999, quantiles.max), (Some(20), Some(40), Some(40)));
    }

    #[test]
    fn quantiles_are_good_to_two_digits_and_no_more_than_an_hour() {
        let mut latencies = Latencies::default();
        let values: Vec<u64> = (1..=1000).map(|n| n * 1000).chain([MAX_US]).collect();
        latencies.update(&says(1, &values)).unwrap();
        let quantiles = latencies.quantiles();
        for (value, exact) in [(quantiles.p50, 501e3), (quantiles.p90, 901e3), (quantiles.p99, 991e3)] {
            let value = value.unwrap() as f64;
            assert!((value / exact - 1.0).abs() < 0.01, "{value} instead of {exact}");
        }
        assert!(quantiles.max.unwrap() >= MAX_US);
    }

    #[test]
    fn what_is_saved_goes_on() {
        let mut latencies = Latencies::default();
        latencies.update(&says(1, &[10])).unwrap();
        latencies.update(&says(2, &[20])).unwrap();
        let json = serde_json::to_string(&latencies.save()).unwrap();
        let mut restored = Latencies::restore(&serde_json::from_str::<Vec<_>>(&json).unwrap());
        assert_eq!(restored.quantiles(), latencies.quantiles());
        restored.update(&says(2, &[20, 30])).unwrap();
        assert_eq!(count(&restored), 3);
    }

    #[test]
    fn what_is_no_histogram_is_refused() {
        let good = says(1, &[10]).histogram;
        let mut latencies = Latencies::default();
        let mut refused =
            |histogram: Vec<u8>| latencies.update(&Latency { histogram, ..says(1, &[]) }).is_err();
        assert!(refused(Vec::new()));
        assert!(refused(good[..good.len() - 1].to_vec()));
        assert!(refused([&good[..], &[0]].concat()));
        // A length, digits and a range that would take much memory.
        for (at, bytes) in [(4, [0xff; 4]), (12, [0, 0, 0, 5]), (24, [0xff; 4])] {
            let mut bad = good.clone();
            bad[at..at + 4].copy_from_slice(&bytes);
            assert!(refused(bad), "byte {at}");
        }
        assert!(!refused(good));
    }
}
