//! Which files a spout reads, and which stretch of them each of its tasks.
//!
//! The files are thought of as one long text; each task owns an equal stretch of its bytes, and a line belongs to the
//! task in whose stretch its first byte lies. So each line has one owner, whatever the number and the sizes of the files.
//! What has no size (standard input, pipes) is read whole by one task. Files must not change while they are read.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The name of standard input and output.
pub(super) const STANDARD: &str = "-";

/// A stretch of a file: the lines that begin at `from` or after it and before `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) path: PathBuf,
    pub(super) from: u64,
    /// `u64::MAX` for all there is.
    pub(super) to: u64,
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
        sizes.push(size(path)?);
    }
    let total: u64 = sizes.iter().flatten().sum();
    let bound = |i: u32| (u128::from(total) * u128::from(i) / u128::from(tasks)) as u64;
    let (start, end) = (bound(index), bound(index + 1));
    let mut stretches = Vec::new();
    let (mut before, mut unsized_before) = (0, 0);
    for (path, size) in files.iter().zip(sizes) {
        let Some(size) = size else {
            let mine =
                if path.as_os_str() == STANDARD { index == 0 } else { unsized_before % tasks == index };
            unsized_before += 1;
            if mine {
                stretches.push(Stretch { path: path.clone(), from: 0, to: u64::MAX });
            }
            continue;
        };
        let from = start.clamp(before, before + size) - before;
        let to = end.clamp(before, before + size) - before;
        if from < to {
            stretches.push(Stretch { path: path.clone(), from, to });
        }
        before += size;
    }
    Ok(stretches)
}

/// The bytes of a regular file, or `None` when its size says nothing (a pipe, a file below `/proc`).
fn size(path: &Path) -> Result<Option<u64>, LinesError> {
    if path.as_os_str() == STANDARD {
        return Ok(None);
    }
    let metadata =
        std::fs::metadata(path).map_err(|source| LinesError::Read { path: path.to_owned(), source })?;
    Ok((metadata.is_file() && metadata.len() > 0).then_some(metadata.len()))
}

/// Opens a file, or standard input.
pub(super) fn open(path: &Path) -> io::Result<File> {
    if path.as_os_str() == STANDARD {
        // Past the standard library's own buffer, which would hide from `poll` what it holds.
        return Ok(rustix::io::dup(rustix::stdio::stdin())?.into());
    }
    File::open(path)
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
    fn what_has_no_size_is_read_by_one_task() {
        let files = [PathBuf::from("-"), PathBuf::from("/proc/self/stat"), PathBuf::from("/proc/version")];
        let shares: Vec<_> = (0..3).map(|i| share(&files, i, 3).unwrap()).collect();
        let paths: Vec<Vec<_>> =
            shares.iter().map(|s| s.iter().map(|x| x.path.to_str().unwrap()).collect()).collect();
        assert_eq!(paths, [vec!["-"], vec!["/proc/self/stat"], vec!["/proc/version"]]);
    }
}
