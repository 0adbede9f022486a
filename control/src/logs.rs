//! The logs of a container's processes: written by its executor, rotated by size, read by `egret logs`.
//!
//! The newest part is `PROCESS.log`; at its size limit it becomes `PROCESS.log.1`, that one `.2`, and so on.

use crate::layout::WorkDir;
use egret_dataplane::ids::{ContainerId, TaskId};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The size in bytes at which a part is full.
    pub max_bytes: u64,
    /// How many full parts are kept.
    pub keep_files: u64,
}

/// A log that is written.
#[derive(Debug)]
pub struct RotatedLog {
    path: PathBuf,
    retention: Retention,
    file: File,
    bytes: u64,
    /// Bytes that could not be written since something could.
    lost_bytes: u64,
}

impl RotatedLog {
    /// Opens a log, going on after what an earlier process wrote.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(path: PathBuf, retention: Retention) -> io::Result<Self> {
        let file = open_part(&path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path, retention, file, bytes, lost_bytes: 0 })
    }

    /// Appends bytes. What cannot be written (a full disk) is counted, and the log says so once it can.
    pub fn write(&mut self, bytes: &[u8]) {
        if self.try_write(bytes).is_err() {
            self.lost_bytes += bytes.len() as u64;
        }
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.lost_bytes > 0 {
            writeln!(self.file, "[{} bytes of log could not be written]", self.lost_bytes)?;
            self.lost_bytes = 0;
        }
        if self.bytes > 0 && self.bytes + bytes.len() as u64 > self.retention.max_bytes {
            self.rotate()?;
        }
        self.file.write_all(bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Starts a new part when others wrote this one full; says whether it did. For a file that is somebody's stderr.
    ///
    /// # Errors
    /// When the files cannot be renamed.
    pub fn rotate_if_full(&mut self) -> io::Result<bool> {
        let full = self.file.metadata()?.len() > self.retention.max_bytes;
        if full {
            self.rotate()?;
        }
        Ok(full)
    }

    /// The part that is being written.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    fn rotate(&mut self) -> io::Result<()> {
        for number in (0..self.retention.keep_files).rev() {
            let (from, to) = (part(&self.path, number), part(&self.path, number + 1));
            match fs::rename(from, to) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        if self.retention.keep_files == 0 {
            fs::remove_file(&self.path)?;
        }
        self.file = open_part(&self.path)?;
        self.bytes = 0;
        Ok(())
    }
}

fn open_part(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// The `number`th oldest part but one; 0 is the newest.
fn part(path: &Path, number: u64) -> PathBuf {
    if number == 0 { path.to_owned() } else { PathBuf::from(format!("{}.{number}", path.display())) }
}

/// The log of one process, with all its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFile {
    /// The container.
    pub container: ContainerId,
    /// The process, as in its file's name: `tmaster`, `instance-3-split`.
    pub process: String,
    /// The task, for an instance.
    pub task: Option<TaskId>,
    /// The files, oldest first.
    pub parts: Vec<PathBuf>,
}

/// Every log of an execution, by container and name.
#[must_use]
pub fn find(work_dir: &WorkDir) -> Vec<LogFile> {
    let mut found = Vec::new();
    for (container, dir) in work_dir.containers() {
        let entries = fs::read_dir(dir.log_dir()).into_iter().flatten().flatten();
        let name = |e: &fs::DirEntry| e.file_name().to_str()?.strip_suffix(".log").map(str::to_owned);
        let mut processes: Vec<String> = entries.filter_map(|e| name(&e)).collect();
        processes.sort_unstable();
        for process in processes {
            let newest = dir.log_dir().join(format!("{process}.log"));
            let older = (1..).map(|n| part(&newest, n)).take_while(|p| p.exists());
            let mut parts: Vec<PathBuf> = older.collect();
            parts.reverse();
            parts.push(newest);
            found.push(LogFile { container, task: task_of(&process), process, parts });
        }
    }
    found
}

fn task_of(process: &str) -> Option<TaskId> {
    let (task, _) = process.strip_prefix("instance-")?.split_once('-')?;
    task.parse().ok().map(TaskId)
}

impl LogFile {
    /// Writes the whole log, oldest part first, to `out`. A part that was rotated away meanwhile is left out.
    ///
    /// # Errors
    /// When a part cannot be read or `out` cannot be written.
    pub fn copy_to(&self, out: &mut impl Write) -> io::Result<()> {
        for path in &self.parts {
            match File::open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                opened => io::copy(&mut opened?, out).map(drop)?,
            }
        }
        Ok(())
    }

    /// The last lines of the newest part, at most `count` of them and at most 1 MiB.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn last_lines(&self, count: usize) -> io::Result<Vec<String>> {
        const MOST_BYTES: u64 = 1 << 20;
        let Some(newest) = self.parts.last() else { return Ok(Vec::new()) };
        let mut file = File::open(newest)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(MOST_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(MOST_BYTES).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        Ok(lines[lines.len().saturating_sub(count)..].iter().map(|&l| l.to_owned()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(keep_files: u64, lines: u32) -> (tempfile::TempDir, WorkDir) {
        let folder = tempfile::tempdir().unwrap();
        let work_dir = WorkDir::at(folder.path());
        let dir = work_dir.container(ContainerId(1));
        dir.create().unwrap();
        let path = dir.log_dir().join("instance-7-split.log");
        let mut log = RotatedLog::open(path, Retention { max_bytes: 100, keep_files }).unwrap();
        for n in 0..lines {
            log.write(format!("line {n:04}\n").as_bytes());
        }
        (folder, work_dir)
    }

    #[test]
    fn a_full_log_is_rotated_and_old_parts_go() {
        let (_folder, work_dir) = written(2, 95);
        let logs = find(&work_dir);
        assert_eq!((logs.len(), logs[0].task, logs[0].parts.len()), (1, Some(TaskId(7)), 3));
        let mut all = Vec::new();
        logs[0].copy_to(&mut all).unwrap();
        let expected: String = (70..95).map(|n| format!("line {n:04}\n")).collect();
        assert_eq!(String::from_utf8(all).unwrap(), expected);
        assert_eq!(logs[0].last_lines(2).unwrap(), ["line 0093", "line 0094"]);
    }

    #[test]
    fn without_old_parts_the_newest_starts_again() {
        let (_folder, work_dir) = written(0, 25);
        let logs = find(&work_dir);
        assert_eq!(logs[0].parts.len(), 1);
        assert_eq!(logs[0].last_lines(9).unwrap().len(), 5);
    }

    #[test]
    fn a_log_is_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let (_folder, work_dir) = written(1, 15);
        for path in &find(&work_dir)[0].parts {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}
