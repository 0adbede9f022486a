//! What every state manager can do.
//!
//! State is a tree of names whose leaves hold bytes. An entry is replaced as a whole: a reader sees it as it was before
//! a write or as it is after it, also when the writer crashes in between.
//!
//! An *ephemeral* entry is there as long as the process that made it lives and keeps its guard. However that process
//! ends, the entry is gone for every reader from then on, and its name is free.

use std::io;
use std::time::Duration;

/// No name of the tree is longer.
pub const NAME_MAX_BYTES: usize = 200;

/// A tree of byte strings that all processes of a cluster share.
pub trait StateManager: Send + Sync {
    /// The URL that opens this same tree in another process.
    fn url(&self) -> &str;

    /// The bytes of an entry, or `None` when there is none (or its ephemeral owner has gone).
    ///
    /// # Errors
    /// [`StateError`] when it cannot be read or is damaged.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, StateError>;

    /// Makes or replaces an entry.
    ///
    /// # Errors
    /// [`StateError`]; the entry is then as before. [`StateError::Held`] when a living process holds it as ephemeral.
    fn write(&self, path: &str, bytes: &[u8]) -> Result<(), StateError>;

    /// Makes an entry that is not there yet.
    ///
    /// # Errors
    /// [`StateError::Exists`] when it is there; other [`StateError`]s as in [`StateManager::write`].
    fn create(&self, path: &str, bytes: &[u8]) -> Result<(), StateError>;

    /// Removes an entry, whoever holds it and whether it is damaged or not, and says whether it was there.
    ///
    /// # Errors
    /// [`StateError`].
    fn delete(&self, path: &str) -> Result<bool, StateError>;

    /// The names directly below a path, sorted; empty when there is no such path.
    ///
    /// # Errors
    /// [`StateError`].
    fn list(&self, path: &str) -> Result<Vec<String>, StateError>;

    /// Looks whether the place of the tree is there. Where it is not, as on a disk that is not mounted, entries that are
    /// not found may be there all the same.
    ///
    /// # Errors
    /// [`StateError`] when it is not.
    fn check_place(&self) -> Result<(), StateError> {
        Ok(())
    }

    /// Makes an entry that vanishes with this process or with the guard.
    ///
    /// # Errors
    /// [`StateError::Held`] when another guard, in any process, holds it; [`StateError::Exists`] when it is there and
    /// not ephemeral.
    fn ephemeral(&self, path: &str, bytes: &[u8]) -> Result<Ephemeral, StateError>;

    /// Makes an ephemeral entry, waiting up to `patience` for the one that holds it to go.
    ///
    /// # Errors
    /// As [`StateManager::ephemeral`].
    fn lock(&self, path: &str, holder: &[u8], patience: Duration) -> Result<Ephemeral, StateError> {
        let deadline = std::time::Instant::now() + patience;
        loop {
            match self.ephemeral(path, holder) {
                Err(StateError::Held { .. }) if std::time::Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                other => return other,
            }
        }
    }
}

/// Keeps an ephemeral entry; dropping it removes the entry.
#[must_use = "the entry vanishes when this is dropped"]
pub struct Ephemeral(Box<dyn Held>);

/// What a state manager keeps for an [`Ephemeral`]; releases the entry when dropped.
pub trait Held: Send {
    /// Whether the entry is still there and this guard's.
    ///
    /// # Errors
    /// [`StateError`] when that cannot be told.
    fn is_held(&self) -> Result<bool, StateError>;
}

impl Ephemeral {
    /// Wraps what a state manager keeps.
    pub fn new(held: Box<dyn Held>) -> Self {
        Self(held)
    }

    /// Whether the entry is still there and this guard's. It may not be when somebody deleted it.
    ///
    /// # Errors
    /// [`StateError`] when that cannot be told.
    pub fn is_held(&self) -> Result<bool, StateError> {
        self.0.is_held()
    }
}

impl std::fmt::Debug for Ephemeral {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ephemeral")
    }
}

/// Why the state could not be read or changed.
#[derive(thiserror::Error, Debug)]
pub enum StateError {
    /// The URL's kind is known, but not built yet.
    #[error("state `{url}` is not supported yet; use file:PATH")]
    Unsupported {
        /// The URL.
        url: String,
    },
    /// The URL is of no known kind.
    #[error("state `{url}` is no state URL; it must be file:PATH")]
    BadUrl {
        /// The URL.
        url: String,
    },
    /// No path of the tree.
    #[error("`{path}` is no path in the state: it must be names, each after a `/`")]
    BadPath {
        /// The path.
        path: String,
    },
    /// The entry is there already.
    #[error("`{path}` is in the state already")]
    Exists {
        /// The path.
        path: String,
    },
    /// A living process holds the ephemeral entry.
    #[error("`{path}` in the state is held by a living process: {holder}")]
    Held {
        /// The path.
        path: String,
        /// What the holder wrote in it.
        holder: String,
    },
    /// The entry is not what a state manager writes.
    #[error("state file {file} is damaged ({what}); remove it, or restore it from a copy")]
    Damaged {
        /// The file or node.
        file: String,
        /// What is wrong with it.
        what: String,
    },
    /// The state belongs to another user.
    #[error("state {place} belongs to user {owner}, not to {user}: choose another with --state file:PATH")]
    Foreign {
        /// The folder.
        place: String,
        /// The owner's user id.
        owner: u32,
        /// The user id of this process.
        user: u32,
    },
    /// Another process keeps the state locked.
    #[error("state {place} was locked by another process for {waited_s} s")]
    Busy {
        /// The folder.
        place: String,
        /// How long this process waited.
        waited_s: u64,
    },
    /// The operating system refused.
    #[error("state {place}: {error}")]
    Io {
        /// The file or folder.
        place: String,
        /// What it said.
        error: io::Error,
    },
}
