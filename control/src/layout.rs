//! Where things are in the file system: the home folder, a topology's work folder and a container's folder.
//!
//! ```text
//! $EGRET_HOME or ~/.egret/                     0700
//!   state/CLUSTER/                             the `file:` state manager's tree
//!   topologies/NAME-ID/                        work folder, new for each run or submit
//!     container-N/
//!       stmgr.sock                             0600
//!       pids/PROCESS.pid                       0600; the executor's is locked while it lives
//!       starts.json                            how often each process was started, over all executors
//!       log-files/PROCESS.log[.1 ...]          0600
//!       tmaster.json                           in container 0: what one tmaster leaves to the next
//!       failure.json                           why the executor gave up, if it did
//! ```

use egret_dataplane::ids::{ContainerId, TaskId};
use std::fs::{self, DirBuilder, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The environment variable that names the home folder.
pub const HOME_ENV: &str = "EGRET_HOME";
/// In the environment of every process of a topology: its [`Execution`](crate::state::Execution) id.
pub const TOPOLOGY_ID_ENV: &str = "EGRET_TOPOLOGY_ID";
/// In the environment of every process of a container: the container's number.
pub const CONTAINER_ENV: &str = "EGRET_CONTAINER";
/// In the environment of the executors of `egret run`: the process id of that command.
pub const RUNNER_PID_ENV: &str = "EGRET_RUNNER_PID";

/// The user's folder for everything Egret keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home(PathBuf);

/// The folder of one execution of a topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkDir(PathBuf);

/// The folder of one container of an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerDir(PathBuf);

/// What the pid file of a container's executor tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutorPresence {
    /// It lives.
    Lives,
    /// It died, or was told to end, and the container with it: nothing was cleaned up.
    Died,
    /// There has been none yet, or the container has ended in good order.
    Absent,
}

/// A process of a container, as its files are named.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProcessName {
    /// `executor`
    Executor,
    /// `tmaster`
    Tmaster,
    /// `stmgr`
    Stmgr,
    /// `instance-TASK-COMPONENT`
    Instance(TaskId, String),
}

impl std::fmt::Display for ProcessName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Executor => f.write_str("executor"),
            Self::Tmaster => f.write_str("tmaster"),
            Self::Stmgr => f.write_str("stmgr"),
            Self::Instance(task, component) => write!(f, "instance-{task}-{component}"),
        }
    }
}

impl Home {
    /// The home folder that `$EGRET_HOME` names, or else `~/.egret`; it need not be there yet.
    ///
    /// # Errors
    /// When neither variable is set, or the folder's path is no UTF-8: it stands in state entries.
    pub fn from_env() -> io::Result<Self> {
        let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let path = set(HOME_ENV).or_else(|| set("HOME").map(|home| home.join(".egret")));
        let path = path.ok_or_else(|| {
            io::Error::other("neither $EGRET_HOME nor $HOME is set: set EGRET_HOME to a folder of yours")
        })?;
        let path = std::path::absolute(path)?;
        if path.to_str().is_none() {
            let text =
                format!("the home folder {} is no UTF-8; set {HOME_ENV} to another one", path.display());
            return Err(io::Error::other(text));
        }
        Ok(Self(path))
    }

    /// A home folder at `path`.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// The folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The state URL of a cluster whose state is kept here.
    #[must_use]
    pub fn state_url(&self, cluster: &str) -> String {
        format!("file:{}", self.0.join("state").join(cluster).display())
    }

    /// The work folder of an execution.
    #[must_use]
    pub fn work_dir(&self, topology: &str, id: &str) -> WorkDir {
        WorkDir(self.0.join("topologies").join(format!("{topology}-{id}")))
    }

    /// The work folders of all executions of a topology that left one, or that live, the newest first.
    #[must_use]
    pub fn work_dirs(&self, topology: &str) -> Vec<WorkDir> {
        let is_of_topology = |path: &Path| {
            let file = path.file_name().and_then(|f| f.to_str()).unwrap_or_default();
            let id = file.strip_prefix(topology).and_then(|rest| rest.strip_prefix('-'));
            id.is_some_and(|id| id.len() == 8 && id.bytes().all(|b| b.is_ascii_hexdigit()))
        };
        let folders = fs::read_dir(self.0.join("topologies")).into_iter().flatten().flatten();
        let of_topology = folders.map(|entry| entry.path()).filter(|path| is_of_topology(path));
        let made = |path: &PathBuf| path.metadata().and_then(|m| m.modified()).ok();
        let mut dated: Vec<_> = of_topology.filter_map(|path| Some((made(&path)?, path))).collect();
        dated.sort_unstable_by(|a, b| b.cmp(a));
        dated.into_iter().map(|(_, path)| WorkDir(path)).collect()
    }
}

impl WorkDir {
    /// A work folder at `path`.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// The folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Makes the folder and what it stands in, for this user alone.
    ///
    /// # Errors
    /// When it cannot be made, or belongs to another user.
    pub fn create(&self) -> io::Result<()> {
        create_private_dir_all(&self.0)
    }

    /// The folder of a container.
    #[must_use]
    pub fn container(&self, id: ContainerId) -> ContainerDir {
        ContainerDir(self.0.join(format!("container-{id}")))
    }

    /// The container folders that are there, by ascending number.
    #[must_use]
    pub fn containers(&self) -> Vec<(ContainerId, ContainerDir)> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let number = |e: &fs::DirEntry| e.file_name().to_str()?.strip_prefix("container-")?.parse().ok();
        let mut found: Vec<_> =
            entries.filter_map(|e| Some((ContainerId(number(&e)?), ContainerDir(e.path())))).collect();
        found.sort_unstable_by_key(|(id, _)| *id);
        found
    }

    /// Whether one of its containers has an executor, as far as the operating system can tell.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        let unused = [ExecutorPresence::Absent, ExecutorPresence::Died];
        self.containers().iter().any(|(_, dir)| !dir.executor().is_ok_and(|e| unused.contains(&e)))
    }

    /// Removes the folder, and the folder of all work folders when this was the last. What is gone already is fine.
    ///
    /// # Errors
    /// When something in it cannot be removed.
    pub fn remove(&self) -> io::Result<()> {
        gone_is_fine(fs::remove_dir_all(&self.0))?;
        if let Some(parent) = self.0.parent().filter(|p| p.ends_with("topologies")) {
            let _ = fs::remove_dir(parent);
        }
        Ok(())
    }

    /// Removes everything but the logs: what a submitted topology leaves.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub fn remove_all_but_logs(&self) -> io::Result<()> {
        self.containers().iter().try_for_each(|(_, dir)| dir.remove_all_but_logs())
    }
}

impl ContainerDir {
    /// A container folder at `path`.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// The folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Makes the folder and those in it. The work folder must be there: nobody brings back one that was removed.
    ///
    /// # Errors
    /// When they cannot be made.
    pub fn create(&self) -> io::Result<()> {
        for dir in [self.0.clone(), self.log_dir(), self.pid_dir()] {
            match private_dir().create(&dir) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// The socket that the stmgr takes its instances' registrations on.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.0.join("stmgr.sock")
    }

    /// The folder of the logs.
    #[must_use]
    pub fn log_dir(&self) -> PathBuf {
        self.0.join("log-files")
    }

    /// The newest log of a process; older ones have `.1`, `.2` ... behind it.
    #[must_use]
    pub fn log(&self, process: &ProcessName) -> PathBuf {
        self.log_dir().join(format!("{process}.log"))
    }

    /// Where the tmaster writes the last status of the topology (in container 0).
    #[must_use]
    pub fn final_status(&self) -> PathBuf {
        self.log_dir().join("final-status.json")
    }

    /// The folder of the pid files.
    #[must_use]
    pub fn pid_dir(&self) -> PathBuf {
        self.0.join("pids")
    }

    /// The file that holds the process id of a process while it lives.
    #[must_use]
    pub fn pid_file(&self, process: &ProcessName) -> PathBuf {
        self.pid_dir().join(format!("{process}.pid"))
    }

    /// The process id in the pid file of `process`. It is only a hint: the process may be gone.
    #[must_use]
    pub fn pid(&self, process: &ProcessName) -> Option<u32> {
        fs::read_to_string(self.pid_file(process)).ok()?.trim().parse().ok()
    }

    /// Whether the container has an executor: it locks its pid file before it does anything, and removes it last of all.
    ///
    /// # Errors
    /// When the operating system cannot tell.
    pub fn executor(&self) -> io::Result<ExecutorPresence> {
        let file = match fs::File::open(self.pid_file(&ProcessName::Executor)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ExecutorPresence::Absent),
            other => other?,
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(ExecutorPresence::Died),
            Err(TryLockError::WouldBlock) => Ok(ExecutorPresence::Lives),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Removes what the dead processes of a container left that the next ones would stumble over: the socket, and all
    /// pid files but the executor's.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub fn remove_stale(&self) -> io::Result<()> {
        gone_is_fine(fs::remove_file(self.socket()))?;
        let own = self.pid_file(&ProcessName::Executor);
        let pids = fs::read_dir(self.pid_dir())?.flatten().map(|entry| entry.path());
        pids.filter(|path| *path != own).try_for_each(|path| gone_is_fine(fs::remove_file(path)))
    }

    /// What one tmaster leaves to the next (in container 0).
    #[must_use]
    pub fn tmaster_memory(&self) -> PathBuf {
        self.0.join("tmaster.json")
    }

    /// Where it is kept how often each process was started.
    #[must_use]
    pub fn starts(&self) -> PathBuf {
        self.0.join("starts.json")
    }

    /// Where an executor that gives up says why.
    #[must_use]
    pub fn failure(&self) -> PathBuf {
        self.0.join("failure.json")
    }

    /// Removes everything but the logs. What is gone already is fine.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub fn remove_all_but_logs(&self) -> io::Result<()> {
        let Ok(entries) = fs::read_dir(&self.0) else { return Ok(()) };
        for entry in entries.flatten().filter(|e| e.path() != self.log_dir()) {
            let is_dir = entry.file_type().is_ok_and(|t| t.is_dir());
            let removed =
                if is_dir { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) };
            gone_is_fine(removed)?;
        }
        Ok(())
    }

    /// Removes the folder. What is gone already is fine.
    ///
    /// # Errors
    /// When something in it cannot be removed.
    pub fn remove(&self) -> io::Result<()> {
        gone_is_fine(fs::remove_dir_all(&self.0))
    }
}

/// A builder of folders that only this user may enter.
fn private_dir() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// Makes a folder (and its parents) with mode 0700. One that is there must be this user's own.
///
/// # Errors
/// When it cannot be made, or belongs to another user.
pub fn create_private_dir_all(path: &Path) -> io::Result<()> {
    private_dir().recursive(true).create(path).map_err(|e| named(&e, path))?;
    let owner = fs::metadata(path).map_err(|e| named(&e, path))?.uid();
    let own = rustix::process::geteuid().as_raw();
    if owner != own {
        let text =
            format!("{} belongs to user {owner}, not to {own}: choose a folder of yours", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(())
}

/// The same error with the path in its text.
fn named(error: &io::Error, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn gone_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
