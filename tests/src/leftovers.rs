//! What belongs to a cluster: processes that carry its `EGRET_HOME`, what they hold, and files below it.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A process of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its process id.
    pub pid: u32,
    /// Its arguments; empty for a process that has ended and was not waited for.
    pub args: Vec<String>,
    /// Its environment.
    environment: Vec<Vec<u8>>,
}

/// What is there of a cluster. See [`Cluster::leftovers`](crate::Cluster::leftovers).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Processes whose environment names the cluster's home.
    pub processes: Vec<Process>,
    /// Anonymous shared memory that they hold.
    pub memory: Vec<String>,
    /// Unix sockets below the home.
    pub sockets: Vec<PathBuf>,
    /// All other files below the home; folders do not count.
    pub files: Vec<PathBuf>,
}

impl Process {
    /// The process `pid`, or `None` when there is none or it is not ours to look at.
    #[must_use]
    pub fn read(pid: u32) -> Option<Self> {
        let of = |file: &str| fs::read(format!("/proc/{pid}/{file}")).ok();
        let environment = split(&of("environ")?).map(<[u8]>::to_vec).collect();
        let args = split(&of("cmdline")?).map(|a| String::from_utf8_lossy(a).into_owned()).collect();
        Some(Self { pid, args, environment })
    }

    /// The value of a variable in the environment it was started with.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<String> {
        let value =
            self.environment.iter().find_map(|v| v.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    /// Kills it (SIGKILL), unless its number belongs to another process by now.
    pub fn kill(&self) {
        use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return };
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        if Self::read(self.pid).is_some_and(|now| now.environment == self.environment) {
            let _ = pidfd_send_signal(handle, Signal::KILL);
        }
    }

    /// What its file descriptors point to.
    #[must_use]
    pub fn open_files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(format!("/proc/{}/fd", self.pid)).into_iter().flatten().flatten();
        entries.filter_map(|entry| fs::read_link(entry.path()).ok()).collect()
    }
}

fn split(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|b| *b == 0).filter(|part| !part.is_empty())
}

/// Every process whose environment names `home`. One that has ended but not been waited for has no environment left
/// and does not count.
pub(crate) fn processes_of(home: &Path) -> Vec<Process> {
    let mut wanted = OsString::from("EGRET_HOME=");
    wanted.push(home);
    let wanted = wanted.into_vec();
    let entries = fs::read_dir("/proc").expect("/proc is mounted").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(Process::read).filter(|process| process.environment.contains(&wanted)).collect()
}

impl Leftovers {
    pub(crate) fn of(home: &Path) -> Self {
        let processes = processes_of(home);
        let open = processes.iter().flat_map(Process::open_files);
        let memory = open.map(|target| target.to_string_lossy().into_owned());
        let memory = memory.filter(|target| target.starts_with("/memfd:")).collect();
        let (mut sockets, mut files) = (Vec::new(), Vec::new());
        walk(home, &mut |path, is_socket| if is_socket { &mut sockets } else { &mut files }.push(path));
        Self { processes, memory, sockets, files }
    }

    /// Whether there is no process, memory or socket, and no file but logs.
    #[must_use]
    pub fn only_logs(&self) -> bool {
        let is_log = |file: &PathBuf| file.components().any(|part| part.as_os_str() == "log-files");
        self.processes.is_empty()
            && self.memory.is_empty()
            && self.sockets.is_empty()
            && self.files.iter().all(is_log)
    }

    /// Whether there is nothing at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Leftovers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for process in &self.processes {
            writeln!(f, "process {}: {}", process.pid, process.args.join(" "))?;
        }
        self.memory.iter().try_for_each(|memory| writeln!(f, "memory {memory}"))?;
        self.sockets.iter().try_for_each(|socket| writeln!(f, "socket {}", socket.display()))?;
        self.files.iter().try_for_each(|file| writeln!(f, "file {}", file.display()))
    }
}

/// Shows `found` every file below `folder`, and whether it is a socket. What vanishes meanwhile is not there.
fn walk(folder: &Path, found: &mut dyn FnMut(PathBuf, bool)) {
    use std::os::unix::fs::FileTypeExt;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => walk(&entry.path(), found),
            Ok(kind) => found(entry.path(), kind.is_socket()),
            Err(_) => {}
        }
    }
}
