//! A bolt that keeps what it gets, for tests.

use crate::topology::BasicBolt;
use crate::{BasicCollector, Input, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// What the tasks of a bolt have got; keep a copy and wire [`sink`](Self::sink) into the topology.
///
/// It is outside of the processes: what a task got before it was killed stays, and with acks a tuple may come twice.
#[derive(Clone, Debug, Default)]
pub struct Collected(Arc<Mutex<Vec<Vec<String>>>>);

impl Collected {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the tasks of a bolt that adds each tuple to this.
    pub fn sink(&self) -> impl Fn() -> Sink + Send + 'static {
        let collected = self.clone();
        move || Sink(collected.clone())
    }

    /// The tuples so far in the order in which they came, each field as text.
    #[must_use]
    pub fn rows(&self) -> Vec<Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The same, sorted: in what order tuples of different tasks come, nobody promises.
    #[must_use]
    pub fn sorted(&self) -> Vec<Vec<String>> {
        let mut rows = self.rows();
        rows.sort_unstable();
        rows
    }
}

/// See [`Collected`].
#[derive(Debug)]
pub struct Sink(Collected);

impl BasicBolt for Sink {
    fn execute(&mut self, input: &Input<'_>, _: &mut BasicCollector<'_>) -> Result<()> {
        let row =
            input.row()?.fields().map(|(_, value)| Ok(value?.to_string())).collect::<Result<Vec<_>>>()?;
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).push(row);
        Ok(())
    }
}
