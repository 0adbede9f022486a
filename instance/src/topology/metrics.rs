//! The metrics of user code.
//!
//! `egret metrics` shows them. The gateway thread sends them on about once a second, and once more at the end.

use egret_dataplane::message::{MAX_COUNTER_NAME_BYTES, MAX_USER_COUNTERS};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// A number that only grows. Handles to the same counter share it.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// Adds one.
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// What it has come to.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The metrics of a task: user code adds to them, the gateway thread reads them.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    counters: Arc<Mutex<Vec<(String, Counter)>>>,
}

impl Metrics {
    /// The counter of this name, made when it is asked for first. A name is cut after [`MAX_COUNTER_NAME_BYTES`], and of
    /// more counters than [`MAX_USER_COUNTERS`] the later ones count for themselves: nobody else sees them.
    #[must_use]
    pub fn counter(&self, name: &str) -> Counter {
        let cut = (0..=name.len().min(MAX_COUNTER_NAME_BYTES)).rev().find(|at| name.is_char_boundary(*at));
        let name = &name[..cut.unwrap_or_default()];
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, counter)) = counters.iter().find(|(known, _)| known == name) {
            return counter.clone();
        }
        let counter = Counter::default();
        if counters.len() < MAX_USER_COUNTERS {
            counters.push((name.to_owned(), counter.clone()));
        }
        counter
    }

    /// Every counter with its present value, in the order they were made.
    #[must_use]
    pub fn snapshot(&self) -> Vec<(String, u64)> {
        let counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        counters.iter().map(|(name, counter)| (name.clone(), counter.get())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_one_name_share_a_counter() {
        let metrics = Metrics::default();
        metrics.counter("a").add(2);
        metrics.counter("a").increment();
        let _ = metrics.counter("b");
        assert_eq!(metrics.snapshot(), [("a".to_owned(), 3), ("b".to_owned(), 0)]);
    }

    #[test]
    fn names_and_numbers_have_bounds() {
        let metrics = Metrics::default();
        metrics.counter(&"é".repeat(MAX_COUNTER_NAME_BYTES)).add(1);
        (0..2 * MAX_USER_COUNTERS).for_each(|n| metrics.counter(&n.to_string()).add(1));
        let snapshot = metrics.snapshot();
        assert_eq!(snapshot[0].0, "é".repeat(MAX_COUNTER_NAME_BYTES / 2));
        assert_eq!(snapshot.len(), MAX_USER_COUNTERS);
    }
}
