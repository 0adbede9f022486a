//! Which files a spout reads, and which stretch of them each of its tasks.
//!
//! The files are thought of as one long text; each task owns an equal stretch of its bytes, and a line belongs to the
//! task in whose stretch its first byte lies. So each line has one owner, whatever the number and the sizes of the files.
//! What has no size (standard input, pipes) is read whole by one task. Files must not change while they are read.

use serde::{Deserialize, Serialize};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The name of standard input and output.
pub(super) const STANDARD: &str = "-";

/// A stretch of a file: the lines that begin at `from` or after it and before `to`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stretch {
    #[serde(with = "path_bytes")]
    pub(super) path: PathBuf,
    pub(super) from: u64,
    /// `u64::MAX` for all there is.
    pub(super) to: u64,
    /// The file as it was when it was shared; `None` for what has no size.
    identity: Option<Identity>,
}

/// What tells a file from another one or from itself after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    device: u64,
    inode: u64,
    bytes: u64,
    modified_s: i64,
    modified_ns: i64,
}

impl Stretch {
    /// Whether a line of it can be read again by its place.
    pub(super) fn is_rereadable(&self) -> bool {
        self.identity.is_some()
    }

    /// Whether the file is still the one that was shared.
    ///
    /// It may have grown, as a log does; what came after is nobody's.
    pub(super) fn check_unchanged(&self) -> Result<(), LinesError> {
        if self.is_rereadable() {
            let found = std::fs::metadata(&self.path);
            self.check(&found.map_err(|source| LinesError::Read { path: self.path.clone(), source })?)?;
        }
        Ok(())
    }

    fn check(&self, found: &Metadata) -> Result<(), LinesError> {
        let Some(then) = self.identity else { return Ok(()) };
        let now = Identity::of(found);
        let what = if (now.device, now.inode) != (then.device, then.inode) {
            "has been replaced"
        } else if now.bytes < then.bytes {
            "has become shorter"
        } else if now.bytes == then.bytes && now != then {
            "has been written to"
        } else {
            return Ok(());
        };
        Err(LinesError::Changed { path: self.path.clone(), what })
    }
}

impl Identity {
    fn of(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
            bytes: file.len(),
            modified_s: file.mtime(),
            modified_ns: file.mtime_nsec(),
        }
    }
}

/// A path need not be a text.
mod path_bytes {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};

    pub(super) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_os_str().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        OsString::deserialize(deserializer).map(PathBuf::from)
    }
}

/// Why lines cannot be read.
#[derive(thiserror::Error, Debug)]
pub enum LinesError {
    /// A file cannot be opened or read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// No file matches a pattern.
    #[error("no file matches `{pattern}`")]
    NoMatch {
        /// The pattern.
        pattern: String,
    },
    /// A pattern is malformed.
    #[error("`{pattern}` is no valid pattern: {reason}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A file is not what it was when it was read first.
    #[error(
        "`{}` {what} since this topology began to read it, so the places of its lines are unknown; leave the files alone while they are read, and start the topology anew",
        path.display()
    )]
    Changed {
        /// The file.
        path: PathBuf,
        /// How.
        what: &'static str,
    },
    /// A line is longer than a tuple may be; it is left out.
    #[error("`{}`, line {line}: the line is longer than {limit} bytes, the limit of a tuple (egret.tuple.max.bytes)", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The limit.
        limit: usize,
    },
}

/// The files that `paths` name, in order. A path that is no file but has `*`, `?` or `[` in it is a pattern for several,
/// which come sorted.
pub(super) fn expand(paths: &[String]) -> Result<Vec<PathBuf>, LinesError> {
    let mut files = Vec::new();
    for path in paths {
        let literal = path == STANDARD || !path.contains(['*', '?', '[']) || PathBuf::from(path).exists();
        if literal {
            files.push(PathBuf::from(path));
            continue;
        }
        let pattern = || path.clone();
        let found = glob::glob(path)
            .map_err(|error| LinesError::Pattern { pattern: pattern(), reason: error.to_string() })?;
        let before = files.len();
        for file in found {
            let file = file.map_err(|e| LinesError::Read { path: e.path().to_owned(), source: e.into() })?;
            if !file.is_dir() {
                files.push(file);
            }
        }
        if files.len() == before {
            return Err(LinesError::NoMatch { pattern: pattern() });
        }
    }
    Ok(files)
}

/// The stretches of task `index` of `tasks`.
pub(super) fn share(files: &[PathBuf], index: u32, tasks: u32) -> Result<Vec<Stretch>, LinesError> {
    let mut sizes = Vec::with_capacity(files.len());
    for path in files {
        sizes.push(sized(path)?);
    }
    let total: u64 = sizes.iter().flatten().map(|file| file.bytes).sum();
    let bound = |i: u32| (u128::from(total) * u128::from(i) / u128::from(tasks)) as u64;
    let (start, end) = (bound(index), bound(index + 1));
    let mut stretches = Vec::new();
    let (mut before, mut unsized_before) = (0, 0);
    for (path, identity) in files.iter().zip(sizes) {
        let Some(Identity { bytes: size, .. }) = identity else {
            let mine =
                if path.as_os_str() == STANDARD { index == 0 } else { unsized_before % tasks == index };
            unsized_before += 1;
            if mine {
                stretches.push(Stretch { path: path.clone(), from: 0, to: u64::MAX, identity });
            }
            continue;
        };
        let from = start.clamp(before, before + size) - before;
        let to = end.clamp(before, before + size) - before;
        if from < to {
            stretches.push(Stretch { path: path.clone(), from, to, identity });
        }
        before += size;
    }
    Ok(stretches)
}

/// A regular file, or `None` when its size says nothing (a pipe, a file below `/proc`).
fn sized(path: &Path) -> Result<Option<Identity>, LinesError> {
    if path.as_os_str() == STANDARD {
        return Ok(None);
    }
    let metadata =
        std::fs::metadata(path).map_err(|source| LinesError::Read { path: path.to_owned(), source })?;
    Ok((metadata.is_file() && metadata.len() > 0).then(|| Identity::of(&metadata)))
}

/// Opens a file, or standard input.
pub(super) fn open(path: &Path) -> io::Result<File> {
    if path.as_os_str() == STANDARD {
        // Past the standard library's own buffer, which would hide from `poll` what it holds.
        return Ok(rustix::io::dup(rustix::stdio::stdin())?.into());
    }
    File::open(path)
}

/// Opens the file of a stretch, if it is still the one that was shared.
pub(super) fn open_unchanged(stretch: &Stretch) -> Result<File, LinesError> {
    let failed = |source| LinesError::Read { path: stretch.path.clone(), source };
    let file = open(&stretch.path).map_err(failed)?;
    stretch.check(&file.metadata().map_err(failed)?)?;
    Ok(file)
}

/// How many lines begin before a stretch.
pub(super) fn lines_before(stretch: &Stretch) -> io::Result<u64> {
    if stretch.from == 0 {
        return Ok(0);
    }
    let mut input = File::open(&stretch.path)?.take(stretch.from);
    let mut buffer = vec![0; 64 << 10];
    let (mut lines, mut last) = (0, b'\n');
    loop {
        let count = input.read(&mut buffer)?;
        if count == 0 {
            // A line that was begun before the stretch is another task's but has its number.
            return Ok(lines + u64::from(last != b'\n'));
        }
        lines += memchr::memchr_iter(b'\n', &buffer[..count]).count() as u64;
        last = buffer[count - 1];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_files_in_order() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.md", "a.md", "c.txt", "x[1].txt"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        std::fs::create_dir(folder.path().join("d.md")).unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let names = |paths: &[&str]| -> Vec<String> {
            let files = expand(&paths.iter().map(|p| at(p)).collect::<Vec<_>>()).unwrap();
            files.iter().map(|f| f.file_name().unwrap().to_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(&["c.txt", "*.md"]), ["c.txt", "a.md", "b.md"]);
        assert_eq!(names(&["x[1].txt"]), ["x[1].txt"]);
        let error = expand(&[at("*.pdf")]).unwrap_err().to_string();
        assert!(error.starts_with("no file matches `") && error.contains("*.pdf"), "{error}");
        let error = share(&[PathBuf::from(at("nothing"))], 0, 1).unwrap_err().to_string();
        assert!(error.contains("nothing`: No such file"), "{error}");
    }

    #[test]
    fn a_file_may_grow_and_nothing_else() {
        use std::os::unix::ffi::OsStringExt;
        let folder = tempfile::tempdir().unwrap();
        // A name that is no text.
        let path = folder.path().join(std::ffi::OsString::from_vec(b"caf\xe9".to_vec()));
        let written = |text: &str| {
            std::fs::write(&path, text).unwrap();
            share(std::slice::from_ref(&path), 0, 1).unwrap().remove(0)
        };
        let stretch = written("one\n");
        let read = serde_json::from_slice::<Stretch>(&serde_json::to_vec(&stretch).unwrap()).unwrap();
        assert_eq!(read, stretch);
        let message = || stretch.check_unchanged().map_err(|error| error.to_string());
        assert_eq!(message(), Ok(()));
        let file = || File::options().append(true).open(&path).unwrap();
        io::Write::write_all(&mut file(), b"two\n").unwrap();
        assert_eq!(message(), Ok(()));
        file().set_len(3).unwrap();
        assert!(message().unwrap_err().contains("has become shorter since"));
        file().set_len(4).unwrap();
        file().set_modified(std::time::UNIX_EPOCH).unwrap();
        assert!(message().unwrap_err().contains("has been written to since"));
        std::fs::rename(&path, folder.path().join("old")).unwrap();
        assert!(message().unwrap_err().contains("No such file"));
        written("one\n");
        assert!(message().unwrap_err().contains("has been replaced since"));
    }

    #[test]
    fn what_has_no_size_is_read_by_one_task() {
        let files = [PathBuf::from("-"), PathBuf::from("/proc/self/stat"), PathBuf::from("/proc/version")];
        let shares: Vec<_> = (0..3).map(|i| share(&files, i, 3).unwrap()).collect();
        let paths: Vec<Vec<_>> =
            shares.iter().map(|s| s.iter().map(|x| x.path.to_str().unwrap()).collect()).collect();
        assert_eq!(paths, [vec!["-"], vec!["/proc/self/stat"], vec!["/proc/version"]]);
    }
}
