//! A cluster of a test's own.

use crate::command::{Command, Finished};
use crate::gate::Permit;
use crate::leftovers::{Leftovers, Process, processes_of};
use crate::wait::{DEADLINE, try_for, wait_for};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;

/// Everything `egret` keeps, in a folder that vanishes with this value, after every process that knows the folder
/// was killed. At most two clusters exist at a time; another one waits.
#[derive(Debug)]
pub struct Cluster {
    egret: PathBuf,
    root: TempDir,
    /// Whose cluster it is, if not this process's own user's.
    user: Option<u32>,
    commands: AtomicUsize,
    permit: Arc<Permit>,
}

impl Cluster {
    /// A cluster run by the multi-call binary `egret`; [`cluster!`](crate::cluster) knows it.
    ///
    /// # Panics
    /// When there is no room for a temporary folder.
    #[must_use]
    pub fn new(egret: impl Into<PathBuf>) -> Self {
        Self::with_permit(egret.into(), Arc::new(Permit::take()))
    }

    /// A second, separate cluster in the same test. It shares the first one's turn.
    #[must_use]
    pub fn beside(&self) -> Self {
        Self::with_permit(self.egret.clone(), self.permit.clone())
    }

    fn with_permit(egret: PathBuf, permit: Arc<Permit>) -> Self {
        let root = tempfile::Builder::new().prefix("egret-test-").tempdir().unwrap();
        for folder in ["home", "work", "printed"] {
            fs::create_dir(root.path().join(folder)).unwrap();
        }
        Self { egret, root, user: None, commands: AtomicUsize::new(0), permit }
    }

    /// Such a second cluster, all of which belongs to another user, who also runs its commands. Only root can have one.
    ///
    /// # Panics
    /// When this is not root.
    #[must_use]
    pub fn beside_as(&self, user: u32) -> Self {
        let mut cluster = self.beside();
        // The user may not be able to reach the program where it is.
        let egret = cluster.root.path().join("egret");
        fs::copy(&self.egret, &egret).unwrap();
        for name in ["", "home", "work", "egret"] {
            std::os::unix::fs::chown(cluster.root.path().join(name), Some(user), Some(user)).unwrap();
        }
        (cluster.egret, cluster.user) = (egret, Some(user));
        cluster
    }

    /// Its `EGRET_HOME`.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// A path in the folder for topologies, inputs and results, which is also every command's working folder.
    #[must_use]
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.path().join("work").join(name)
    }

    /// Writes a file of this name there.
    ///
    /// # Panics
    /// When it cannot.
    pub fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// Reads the text file of this name there.
    ///
    /// # Panics
    /// When it cannot.
    #[must_use]
    pub fn read(&self, name: impl AsRef<Path>) -> String {
        let path = self.path(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
    }

    /// The command `egret ARGS`, with this cluster's home and nothing else of Egret's in its environment.
    #[must_use]
    pub fn egret(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        self.command(&self.egret).args(args)
    }

    /// A command of another program, in the same surroundings.
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = process::Command::new(program);
        let foreign = std::env::vars_os().map(|(name, _)| name);
        for name in foreign.filter(|name| name.as_encoded_bytes().starts_with(b"EGRET_")) {
            command.env_remove(name);
        }
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command.env("EGRET_HOME", self.home()).env("NO_COLOR", "1").current_dir(self.path(""));
        // A panic's message should be among the last lines that a dying process is quoted with.
        command.env("RUST_BACKTRACE", "0");
        let number = self.commands.fetch_add(1, Ordering::Relaxed);
        let printed = self.root.path().join("printed");
        Command::new(command, printed.join(format!("{number}.out")), printed.join(format!("{number}.err")))
    }

    /// `egret status NAME --json`, or `None` when that fails: there is no such topology (yet), or no tmaster.
    #[must_use]
    pub fn status(&self, topology: &str) -> Option<Value> {
        let finished = self.egret(["status", topology, "--json"]).run();
        (finished.code() == 0).then(|| finished.json())
    }

    /// Waits until the topology is in `state` (`running`, `draining`, …), and gives its status then.
    ///
    /// # Panics
    /// When it is not by the usual deadline.
    pub fn wait_until(&self, topology: &str, state: &str) -> Value {
        wait_for(&format!("{topology} to be {state}"), DEADLINE, || {
            self.status(topology).filter(|status| status["state"] == state)
        })
    }

    /// `egret run ARGS --json`, which must complete, and what it prints at its end.
    ///
    /// # Panics
    /// When it does not exit with 0 by the usual deadline.
    #[track_caller]
    pub fn run_to_the_end(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Finished {
        self.egret(["run", "--json"]).args(args).run().expect(0)
    }

    /// The living processes of this cluster.
    #[must_use]
    pub fn processes(&self) -> Vec<Process> {
        processes_of(&self.home())
    }

    /// What is there of this cluster now.
    #[must_use]
    pub fn leftovers(&self) -> Leftovers {
        Leftovers::of(&self.home())
    }

    /// Waits until nothing of the cluster is left but, where `logs` says so, log files.
    ///
    /// # Panics
    /// When something stays.
    pub fn wait_until_clean(&self, logs: bool) {
        let clean = |left: &Leftovers| if logs { left.only_logs() } else { left.is_empty() };
        let cleaned = try_for(DEADLINE, || clean(&self.leftovers()).then_some(()));
        assert!(cleaned.is_some(), "this is left:\n{}", self.leftovers());
    }

    fn kill_all(&self) {
        wait_for("killed processes to be gone", DEADLINE, || {
            let alive = self.processes();
            alive.iter().for_each(Process::kill);
            alive.is_empty().then_some(())
        });
    }

    /// Shows the ends of all logs; a failed test needs them and they are about to vanish.
    fn show_logs(&self) {
        for file in self.leftovers().files.iter().filter(|file| file.extension().is_some_and(|e| e == "log"))
        {
            let log = fs::read(file).unwrap_or_default();
            let tail = String::from_utf8_lossy(&log[log.len().saturating_sub(4096)..]).into_owned();
            eprintln!("--- {}\n{tail}", file.display());
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.show_logs();
        }
        self.kill_all();
    }
}
