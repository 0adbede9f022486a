//! The state manager below a folder: `file:PATH`.
//!
//! Each entry is a file in the envelope of `codec`; the names of the tree are the names of folders and files.
//!
//! # Protocol
//! 1. Whoever changes anything holds an exclusive `flock` on the root folder. The kernel releases it with the process,
//!    so a killed writer blocks nobody, and a temporary file that is found under the lock is a leftover.
//! 2. A change is written to a temporary file, synced, and renamed into place. Readers take no lock.
//! 3. An ephemeral entry is a file that its owner keeps locked with `flock`, from before it gets its name. A reader
//!    that gets a shared lock on it knows that the owner is gone: the entry is not there.
//! 4. A guard removes its entry only while the name still leads to its own file.

use super::codec::{self, Kind};
use super::{Ephemeral, Held, NAME_MAX_BYTES, StateError, StateManager};
use rustix::fs::FlockOperation;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a change waits for the one before it.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
/// More than any entry has; a larger file is not read.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// State kept in files below a folder.
#[derive(Clone, Debug)]
pub struct FileState {
    root: PathBuf,
    url: String,
}

/// The right to change the tree.
struct TreeLock {
    _root: File,
}

/// What is at a path.
enum Found {
    Nothing,
    Lasting(Vec<u8>),
    /// Ephemeral, and its owner lives.
    Alive(Vec<u8>),
    /// Ephemeral, and its owner is gone.
    Dead,
    Damaged(StateError),
}

impl FileState {
    /// Opens the state below `root`, which need not be there yet.
    ///
    /// # Errors
    /// [`StateError::Foreign`] when the folder belongs to another user, [`StateError::Io`] when it is none.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, StateError> {
        let root = std::path::absolute(root.as_ref()).map_err(|e| io_error(root.as_ref(), e))?;
        let url = format!("file:{}", root.display());
        let state = Self { root, url };
        state.check_owner()?;
        Ok(state)
    }

    fn check_owner(&self) -> Result<(), StateError> {
        let metadata = match fs::metadata(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other.map_err(|e| io_error(&self.root, e))?,
        };
        if !metadata.is_dir() {
            return Err(io_error(&self.root, io::ErrorKind::NotADirectory.into()));
        }
        let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
        if owner != user {
            return Err(StateError::Foreign { place: self.root.display().to_string(), owner, user });
        }
        Ok(())
    }

    fn file_of(&self, path: &str) -> Result<PathBuf, StateError> {
        let mut file = self.root.clone();
        file.extend(names(path)?.into_iter().map(encode_name));
        Ok(file)
    }

    /// Waits for the right to change the tree.
    fn lock_tree(&self, patience: Duration) -> Result<TreeLock, StateError> {
        let deadline = Instant::now() + patience;
        loop {
            make_folder(&self.root)?;
            self.check_owner()?;
            let root = File::open(&self.root).map_err(|e| io_error(&self.root, e))?;
            match rustix::fs::flock(&root, FlockOperation::NonBlockingLockExclusive) {
                // The folder may have been removed and made again between opening and locking it.
                Ok(()) if is_at(&root, &self.root) => return Ok(TreeLock { _root: root }),
                Ok(()) | Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {}
                Err(error) => return Err(io_error(&self.root, error.into())),
            }
            if Instant::now() >= deadline {
                let place = self.root.display().to_string();
                return Err(StateError::Busy { place, waited_s: patience.as_secs() });
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn look(file: &Path) -> Result<Found, StateError> {
        let mut open = match File::open(file) {
            Err(error) if is_absent(&error) => return Ok(Found::Nothing),
            other => other.map_err(|e| io_error(file, e))?,
        };
        let metadata = open.metadata().map_err(|e| io_error(file, e))?;
        if metadata.is_dir() {
            return Ok(Found::Nothing);
        }
        let damaged = |what| StateError::Damaged { file: file.display().to_string(), what };
        if metadata.len() > MAX_FILE_BYTES {
            return Ok(Found::Damaged(damaged(format!("it has {} bytes", metadata.len()))));
        }
        let mut bytes = Vec::with_capacity(metadata.len() as usize);
        open.read_to_end(&mut bytes).map_err(|e| io_error(file, e))?;
        Ok(match codec::decode(&bytes) {
            Err(what) => Found::Damaged(damaged(what)),
            Ok((Kind::Lasting, payload)) => Found::Lasting(payload.to_vec()),
            Ok((Kind::Ephemeral, payload)) => match open.try_lock_shared() {
                Ok(()) => Found::Dead,
                Err(TryLockError::WouldBlock) => Found::Alive(payload.to_vec()),
                Err(TryLockError::Error(error)) => return Err(io_error(file, error)),
            },
        })
    }

    /// Puts a new file at `file`, of which the caller gets the open handle; locked before it has its name if it is
    /// ephemeral.
    fn put(&self, _right: &TreeLock, file: &Path, kind: Kind, payload: &[u8]) -> Result<File, StateError> {
        let folder = file.parent().unwrap_or(&self.root);
        make_folder(folder)?;
        remove_leftovers(folder);
        let temporary = folder.join(TEMPORARY);
        let written = write_new(&temporary, kind, payload);
        let open = written.map_err(|e| {
            self.prune(file);
            io_error(&temporary, e)
        })?;
        fs::rename(&temporary, file).map_err(|e| io_error(file, e))?;
        sync_folder(folder)?;
        Ok(open)
    }

    fn remove(&self, _right: &TreeLock, file: &Path) -> Result<bool, StateError> {
        let there = match fs::remove_file(file) {
            Err(error) if is_absent(&error) => false,
            other => other.map(|()| true).map_err(|e| io_error(file, e))?,
        };
        self.prune(file);
        Ok(there)
    }

    /// Removes the folders above `file` that are empty now, up to the root.
    fn prune(&self, file: &Path) {
        for folder in file.ancestors().skip(1).take_while(|f| *f != self.root) {
            remove_leftovers(folder);
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }

    /// Removes an entry whose owner is gone, unless somebody is busy with the tree: then the next one does it.
    fn bury(&self, file: &Path) {
        let Ok(right) = self.lock_tree(Duration::ZERO) else { return };
        if matches!(Self::look(file), Ok(Found::Dead)) {
            let _ = self.remove(&right, file);
        }
    }
}

impl StateManager for FileState {
    fn url(&self) -> &str {
        &self.url
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, StateError> {
        let file = self.file_of(path)?;
        match Self::look(&file)? {
            Found::Nothing => Ok(None),
            Found::Lasting(bytes) | Found::Alive(bytes) => Ok(Some(bytes)),
            Found::Dead => {
                self.bury(&file);
                Ok(None)
            }
            Found::Damaged(error) => Err(error),
        }
    }

    fn write(&self, path: &str, bytes: &[u8]) -> Result<(), StateError> {
        let file = self.file_of(path)?;
        let right = self.lock_tree(LOCK_PATIENCE)?;
        if let Found::Alive(holder) = Self::look(&file)? {
            return Err(held(path, &holder));
        }
        self.put(&right, &file, Kind::Lasting, bytes).map(drop)
    }

    fn create(&self, path: &str, bytes: &[u8]) -> Result<(), StateError> {
        let file = self.file_of(path)?;
        let right = self.lock_tree(LOCK_PATIENCE)?;
        match Self::look(&file)? {
            Found::Lasting(_) | Found::Alive(_) => Err(StateError::Exists { path: path.to_owned() }),
            Found::Damaged(error) => Err(error),
            Found::Nothing | Found::Dead => self.put(&right, &file, Kind::Lasting, bytes).map(drop),
        }
    }

    fn delete(&self, path: &str) -> Result<bool, StateError> {
        let file = self.file_of(path)?;
        if !self.root.exists() {
            return Ok(false);
        }
        let right = self.lock_tree(LOCK_PATIENCE)?;
        let dead = matches!(Self::look(&file)?, Found::Dead);
        Ok(self.remove(&right, &file)? && !dead)
    }

    fn list(&self, path: &str) -> Result<Vec<String>, StateError> {
        let folder = self.file_of(path)?;
        let entries = match fs::read_dir(&folder) {
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            other => other.map_err(|e| io_error(&folder, e))?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|e| io_error(&folder, e))?;
            let name = entry.file_name().to_str().and_then(decode_name);
            let Some(name) = name else { continue };
            let is_folder = entry.file_type().is_ok_and(|t| t.is_dir());
            if is_folder || !matches!(Self::look(&entry.path())?, Found::Nothing | Found::Dead) {
                found.push(name);
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    fn check_place(&self) -> Result<(), StateError> {
        fs::read_dir(&self.root).map(drop).map_err(|e| io_error(&self.root, e))
    }

    fn ephemeral(&self, path: &str, bytes: &[u8]) -> Result<Ephemeral, StateError> {
        let file = self.file_of(path)?;
        let right = self.lock_tree(LOCK_PATIENCE)?;
        match Self::look(&file)? {
            Found::Alive(holder) => return Err(held(path, &holder)),
            Found::Lasting(_) => return Err(StateError::Exists { path: path.to_owned() }),
            Found::Nothing | Found::Dead | Found::Damaged(_) => {}
        }
        let open = self.put(&right, &file, Kind::Ephemeral, bytes)?;
        Ok(Ephemeral::new(Box::new(HeldFile { state: self.clone(), file, open })))
    }
}

/// An ephemeral entry's file, locked as long as this lives.
struct HeldFile {
    state: FileState,
    file: PathBuf,
    open: File,
}

impl Held for HeldFile {
    fn is_held(&self) -> Result<bool, StateError> {
        Ok(is_at(&self.open, &self.file))
    }
}

impl Drop for HeldFile {
    fn drop(&mut self) {
        // When the tree stays locked, closing the file still ends the entry for every reader.
        let Ok(right) = self.state.lock_tree(Duration::from_secs(1)) else { return };
        if is_at(&self.open, &self.file) {
            let _ = self.state.remove(&right, &self.file);
        }
    }
}

/// The name of the file that becomes an entry; there is one at a time, under the tree's lock.
const TEMPORARY: &str = ".new";

fn write_new(temporary: &Path, kind: Kind, payload: &[u8]) -> io::Result<File> {
    let mut open = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(temporary)?;
    if kind == Kind::Ephemeral {
        open.lock()?;
    }
    open.write_all(&codec::encode(kind, payload))?;
    open.sync_all()?;
    Ok(open)
}

fn remove_leftovers(folder: &Path) {
    let _ = fs::remove_file(folder.join(TEMPORARY));
}

fn make_folder(folder: &Path) -> Result<(), StateError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|e| io_error(folder, e))
}

fn sync_folder(folder: &Path) -> Result<(), StateError> {
    File::open(folder).and_then(|f| f.sync_all()).map_err(|e| io_error(folder, e))
}

/// Whether `path` leads to the very file that is open.
fn is_at(open: &File, path: &Path) -> bool {
    match (open.metadata(), fs::metadata(path)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

/// Nothing is there: no such file, or something above it is a file.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn held(path: &str, holder: &[u8]) -> StateError {
    StateError::Held { path: path.to_owned(), holder: String::from_utf8_lossy(holder).into_owned() }
}

fn io_error(place: &Path, error: io::Error) -> StateError {
    StateError::Io { place: place.display().to_string(), error }
}

/// Splits a path into its names.
fn names(path: &str) -> Result<Vec<&str>, StateError> {
    let bad = || StateError::BadPath { path: path.to_owned() };
    let names: Vec<&str> = path.strip_prefix('/').ok_or_else(bad)?.split('/').collect();
    let fine = names.iter().all(|n| !n.is_empty() && n.len() <= NAME_MAX_BYTES && !n.contains('\0'));
    if fine { Ok(names) } else { Err(bad()) }
}

/// The file name for a name of the tree: no name leads out of its folder or to a temporary file.
fn encode_name(name: &str) -> String {
    let name = name.replace('%', "%25");
    match name.strip_prefix('.') {
        Some(rest) => format!("%2E{rest}"),
        None => name,
    }
}

fn decode_name(file: &str) -> Option<String> {
    (!file.starts_with('.')).then(|| file.replace("%2E", ".").replace("%25", "%"))
}

#[cfg(test)]
mod tests;
