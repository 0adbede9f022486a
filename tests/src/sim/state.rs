//! A state manager in memory, which can be away, and which sees to it that plans only get newer.

use super::journal::Journal;
use egret_control::state::{Ephemeral, Held, StateError, StateManager};
use egret_dataplane::plan::PhysicalPlan;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
struct Inner {
    entries: Mutex<BTreeMap<String, Entry>>,
    is_down: AtomicBool,
    is_full: AtomicBool,
    guards: AtomicU64,
    journal: Journal,
}

struct Entry {
    bytes: Vec<u8>,
    /// The guard that holds it.
    held_by: Option<u64>,
}

/// Copies are of the same state.
#[derive(Clone, Default)]
pub(super) struct SimState(Arc<Inner>);

impl SimState {
    pub(super) fn new(journal: &Journal) -> Self {
        Self(Arc::new(Inner { journal: journal.clone(), ..Inner::default() }))
    }

    /// Whether it answers from now on.
    pub(super) fn set_down(&self, is_down: bool) {
        self.0.is_down.store(is_down, Ordering::Relaxed);
    }

    /// Whether it takes nothing from now on, as when a disk is full.
    pub(super) fn set_full(&self, is_full: bool) {
        self.0.is_full.store(is_full, Ordering::Relaxed);
    }

    fn entries(&self) -> Result<MutexGuard<'_, BTreeMap<String, Entry>>, StateError> {
        if self.0.is_down.load(Ordering::Relaxed) {
            let error = io::Error::from(io::ErrorKind::TimedOut);
            return Err(StateError::Io { place: "the simulated state".to_owned(), error });
        }
        Ok(self.0.entries.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// To write into.
    fn room(&self) -> Result<MutexGuard<'_, BTreeMap<String, Entry>>, StateError> {
        if self.0.is_full.load(Ordering::Relaxed) {
            let error = io::Error::from(io::ErrorKind::StorageFull);
            return Err(StateError::Io { place: "the simulated state".to_owned(), error });
        }
        self.entries()
    }
}

fn epoch_of(bytes: &[u8]) -> Option<u64> {
    serde_json::from_slice::<PhysicalPlan>(bytes).ok().map(|plan| plan.epoch.0)
}

impl StateManager for SimState {
    fn url(&self) -> &str {
        "sim:"
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, StateError> {
        Ok(self.entries()?.get(path).map(|entry| entry.bytes.clone()))
    }

    fn write(&self, path: &str, bytes: &[u8]) -> Result<(), StateError> {
        let mut entries = self.room()?;
        let before = entries.insert(path.to_owned(), Entry { bytes: bytes.to_vec(), held_by: None });
        if path.starts_with("/pplans/")
            && let (Some(old), Some(new)) = (before.and_then(|entry| epoch_of(&entry.bytes)), epoch_of(bytes))
            && new < old
        {
            self.0.journal.violation(format!("a plan of epoch {new} was stored over that of epoch {old}"));
        }
        Ok(())
    }

    fn create(&self, path: &str, bytes: &[u8]) -> Result<(), StateError> {
        if self.entries()?.contains_key(path) {
            return Err(StateError::Exists { path: path.to_owned() });
        }
        self.write(path, bytes)
    }

    fn delete(&self, path: &str) -> Result<bool, StateError> {
        Ok(self.entries()?.remove(path).is_some())
    }

    fn list(&self, path: &str) -> Result<Vec<String>, StateError> {
        let below = format!("{path}/");
        let names =
            self.entries()?.keys().filter_map(|key| key.strip_prefix(&below).map(str::to_owned)).collect();
        Ok(names)
    }

    fn ephemeral(&self, path: &str, bytes: &[u8]) -> Result<Ephemeral, StateError> {
        let mut entries = self.room()?;
        match entries.get(path) {
            Some(entry) if entry.held_by.is_some() => {
                let holder = String::from_utf8_lossy(&entry.bytes).into_owned();
                return Err(StateError::Held { path: path.to_owned(), holder });
            }
            Some(_) => return Err(StateError::Exists { path: path.to_owned() }),
            None => {}
        }
        let number = self.0.guards.fetch_add(1, Ordering::Relaxed) + 1;
        entries.insert(path.to_owned(), Entry { bytes: bytes.to_vec(), held_by: Some(number) });
        drop(entries);
        Ok(Ephemeral::new(Box::new(Guard { state: self.clone(), path: path.to_owned(), number })))
    }
}

struct Guard {
    state: SimState,
    path: String,
    number: u64,
}

impl Held for Guard {
    fn is_held(&self) -> Result<bool, StateError> {
        let entries = self.state.entries()?;
        Ok(entries.get(&self.path).is_some_and(|entry| entry.held_by == Some(self.number)))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // A lease ends also while nobody can ask for it.
        let mut entries = self.state.0.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.get(&self.path).is_some_and(|entry| entry.held_by == Some(self.number)) {
            entries.remove(&self.path);
        }
    }
}
