//! One command of a cluster: prepared, running, finished.

use crate::wait::{DEADLINE, wait_for};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{self, Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A command to be started. What it prints goes to files, so that nobody has to read along.
#[derive(Debug)]
pub struct Command {
    command: process::Command,
    stdout: PathBuf,
    stderr: PathBuf,
}

/// A command that was started. Killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    handle: OwnedFd,
    line: String,
    stdout: PathBuf,
    stderr: PathBuf,
}

/// A command that has ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The command, as typed.
    pub line: String,
    /// How it ended.
    pub status: ExitStatus,
    /// Everything on its standard output.
    pub stdout: String,
    /// Everything on its standard error.
    pub stderr: String,
}

impl Command {
    pub(crate) fn new(mut command: process::Command, stdout: PathBuf, stderr: PathBuf) -> Self {
        command.stdin(Stdio::null());
        command.stdout(File::create_new(&stdout).unwrap()).stderr(File::create_new(&stderr).unwrap());
        Self { command, stdout, stderr }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(args);
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Gives it something else than `/dev/null` as standard input.
    #[must_use]
    pub fn stdin(mut self, from: impl Into<Stdio>) -> Self {
        self.command.stdin(from);
        self
    }

    /// The command itself, for what has no method here.
    pub fn inner(&mut self) -> &mut process::Command {
        &mut self.command
    }

    /// Starts it.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn spawn(mut self) -> Running {
        let words = std::iter::once(self.command.get_program()).chain(self.command.get_args());
        let line = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let child = self.command.spawn().unwrap_or_else(|error| panic!("cannot start {line}: {error}"));
        let handle = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        Running { child, handle, line, stdout: self.stdout, stderr: self.stderr }
    }

    /// Starts it and waits for its end.
    ///
    /// # Panics
    /// When it has not ended by the usual deadline.
    #[must_use]
    pub fn run(self) -> Finished {
        self.spawn().finish()
    }
}

impl Running {
    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal; a process that has ended does not mind.
    pub fn signal(&self, signal: Signal) {
        let _ = pidfd_send_signal(&self.handle, signal);
    }

    /// What it has printed to its standard output so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        read(&self.stdout)
    }

    /// What it has printed to its standard error so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        read(&self.stderr)
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ends_within(Duration::ZERO)
    }

    /// Waits until its standard error contains `text`.
    ///
    /// # Panics
    /// When it does not by the usual deadline, or the command ends without.
    pub fn wait_for_stderr(&self, text: &str) {
        wait_for(&format!("{text:?} on stderr of {}", self.line), DEADLINE, || {
            let ended = self.has_ended();
            let stderr = self.stderr();
            assert!(
                !ended || stderr.contains(text),
                "{} ended without saying {text:?}:\n{stderr}",
                self.line
            );
            stderr.contains(text).then_some(())
        });
    }

    /// Waits for its end, until the usual deadline.
    ///
    /// # Panics
    /// When that passes.
    #[must_use]
    pub fn finish(self) -> Finished {
        self.finish_within(DEADLINE)
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When the deadline passes.
    #[must_use]
    pub fn finish_within(mut self, deadline: Duration) -> Finished {
        let ended = self.ends_within(deadline);
        let (stdout, stderr) = (self.stdout(), self.stderr());
        let line = self.line.clone();
        assert!(ended, "{line} has not ended after {deadline:?}\nstdout: {stdout}\nstderr: {stderr}");
        Finished { line, status: self.child.wait().unwrap(), stdout, stderr }
    }

    fn ends_within(&self, deadline: Duration) -> bool {
        let end = Instant::now() + deadline;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).unwrap();
            let mut ended = [PollFd::new(&self.handle, PollFlags::IN)];
            match poll(&mut ended, Some(&timeout)) {
                Ok(0) if left.is_zero() => return false,
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return true,
                Err(error) => panic!("cannot wait for {}: {error}", self.line),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Finished {
    /// Its exit status; 128 and the signal's number when a signal ended it, as shells count.
    #[must_use]
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or_default())
    }

    /// Fails the test, with all that was printed, unless the exit status is `code`.
    ///
    /// # Panics
    /// When it is not.
    #[must_use]
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code(), code, "exit status of {self}");
        self
    }

    /// Its standard output, which must be one JSON document.
    ///
    /// # Panics
    /// When it is not.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("not JSON: {error}\n{self}"))
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\nstatus: {}\nstdout: {}\nstderr: {}", self.line, self.status, self.stdout, self.stderr)
    }
}

fn read(path: &PathBuf) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned()
}
