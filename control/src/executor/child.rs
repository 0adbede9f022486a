//! A running child: its pidfd, its output and its log.

use super::spawn::spawn_bound;
use super::supervisor::End;
use crate::logs::RotatedLog;
use rustix::fs::OFlags;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};
use std::collections::VecDeque;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Command;

/// How many of the last lines are kept to explain a death.
const LAST_LINES: usize = 20;
/// How much of a line is kept.
const LINE_BYTES: usize = 500;

/// A child that was started and is not reaped yet.
///
/// It is signalled and waited for through its pidfd only, so nothing ever reaches another process that was given the
/// same number.
#[derive(Debug)]
pub(super) struct RunningChild {
    pid: u32,
    fd: OwnedFd,
    output: Option<PipeReader>,
    log: RotatedLog,
    last_lines: LastLines,
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Death {
    /// Its exit status, unless a signal ended it.
    pub(super) code: Option<i32>,
    /// The signal that ended it.
    pub(super) signal: Option<i32>,
}

impl RunningChild {
    /// Starts a command with its output going to `log`, but its standard output to `stdout` where there is one.
    pub(super) fn start(mut command: Command, stdout: Option<OwnedFd>, log: RotatedLog) -> io::Result<Self> {
        let (output, writer) = io::pipe()?;
        // Only this end: the child's writes must block, or it would lose output.
        rustix::fs::fcntl_setfl(&output, OFlags::NONBLOCK)?;
        let stdout =
            stdout.map_or_else(|| writer.try_clone().map(std::process::Stdio::from), |fd| Ok(fd.into()))?;
        command.stdout(stdout).stderr(writer);
        let mut child = spawn_bound(&mut command)?;
        // The child is not reaped by anyone else, so its number is still its own.
        let fd = match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(fd) => fd,
            Err(error) => {
                child.kill()?;
                child.wait()?;
                return Err(error.into());
            }
        };
        Ok(Self { pid: child.id(), fd, output: Some(output), log, last_lines: LastLines::default() })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Becomes readable when the child has ended.
    pub(super) fn death_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Becomes readable when there is output; `None` after its end.
    pub(super) fn output_fd(&self) -> Option<BorrowedFd<'_>> {
        self.output.as_ref().map(AsFd::as_fd)
    }

    /// Sends a signal; that the child has ended already, reaped or not, is fine.
    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        match pidfd_send_signal(&self.fd, signal) {
            Err(rustix::io::Errno::SRCH) => Ok(()),
            other => Ok(other?),
        }
    }

    /// Moves what there is of output into the log, a bounded amount at a time.
    pub(super) fn drain(&mut self) {
        const TURNS: usize = 16;
        let mut buffer = [0; 16 << 10];
        for _ in 0..TURNS {
            let Some(output) = &mut self.output else { return };
            match output.read(&mut buffer) {
                Ok(0) => self.output = None,
                Ok(length) => {
                    self.log.write(&buffer[..length]);
                    self.last_lines.add(&buffer[..length]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.output = None,
            }
        }
    }

    /// Reaps the child if it has ended.
    pub(super) fn try_reap(&mut self) -> io::Result<Option<Death>> {
        let status = waitid(WaitId::PidFd(self.fd.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG)?;
        Ok(status.map(|s| Death { code: s.exit_status(), signal: s.terminating_signal() }))
    }

    /// Takes the child's last words once it is reaped.
    pub(super) fn into_last_lines(mut self) -> Vec<String> {
        self.drain();
        self.last_lines.finish()
    }
}

impl Death {
    /// Whose doing it was.
    pub(super) fn end(&self) -> End {
        match (self.code, self.signal) {
            (Some(0), _) => End::Orderly,
            (_, Some(signal)) if signal == Signal::KILL.as_raw() => End::Killed,
            _ => End::Failed,
        }
    }
}

impl std::fmt::Display for Death {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exited with status {code}"),
            (None, Some(signal)) => write!(f, "was ended by signal {signal}"),
            (None, None) => f.write_str("ended"),
        }
    }
}

/// The last lines of an output, each cut to a bounded length.
#[derive(Debug, Default)]
struct LastLines {
    lines: VecDeque<String>,
    unfinished: Vec<u8>,
    /// The lines at hand are frames of a backtrace: the log has them; what was said before is worth more here.
    in_backtrace: bool,
}

impl LastLines {
    fn add(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            let room = LINE_BYTES.saturating_sub(self.unfinished.len());
            self.unfinished.extend_from_slice(&text[..text.len().min(room)]);
            if text.len() < piece.len() {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let is_frame = self.in_backtrace && self.unfinished.starts_with(b"  ");
        self.in_backtrace = is_frame || self.unfinished == b"stack backtrace:";
        if self.in_backtrace {
            self.unfinished.clear();
            return;
        }
        if self.lines.len() == LAST_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(String::from_utf8_lossy(&self.unfinished).into_owned());
        self.unfinished.clear();
    }

    fn finish(mut self) -> Vec<String> {
        if !self.unfinished.is_empty() {
            self.end_line();
        }
        self.lines.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::Retention;
    use rustix::event::{PollFd, PollFlags, poll};

    #[test]
    fn a_backtrace_does_not_push_the_message_out() {
        let mut last = LastLines::default();
        last.add(b"thread 'task' panicked at src/a.rs:1:2:\nno such key\nstack backtrace:\n");
        (0..50).for_each(|i| last.add(format!("  {i}: frame\n             at ./src/a.rs:{i}\n").as_bytes()));
        last.add(b"note: some details are omitted\n");
        let said = last.finish();
        assert_eq!(said.len(), 3, "{said:?}");
        assert_eq!(said[1], "no such key");
    }

    fn start(script: &str) -> (tempfile::TempDir, RunningChild) {
        let folder = tempfile::tempdir().unwrap();
        let retention = Retention { max_bytes: 1 << 20, keep_files: 1 };
        let log = RotatedLog::open(folder.path().join("child.log"), retention).unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        (folder, RunningChild::start(command, None, log).unwrap())
    }

    /// Waits until the child has ended, without reaping it.
    fn wait_for_death(child: &RunningChild) {
        let fd = child.death_fd();
        let deadline = rustix::event::Timespec { tv_sec: 20, tv_nsec: 0 };
        assert_eq!(poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&deadline)), Ok(1));
    }

    #[test]
    fn a_child_that_ends_before_it_is_signalled_counts_as_ended() {
        let (_folder, mut child) = start("exit 7");
        wait_for_death(&child);
        child.signal(Signal::TERM).unwrap();
        assert_eq!(child.try_reap().unwrap(), Some(Death { code: Some(7), signal: None }));
        // Its number is free now, and may be another process's: the signal must reach nobody.
        child.signal(Signal::KILL).unwrap();
    }

    #[test]
    fn a_signal_is_told_from_an_exit() {
        let (_folder, mut child) = start("exec sleep 600");
        assert_eq!(child.try_reap().unwrap(), None);
        child.signal(Signal::KILL).unwrap();
        wait_for_death(&child);
        assert_eq!(child.try_reap().unwrap(), Some(Death { code: None, signal: Some(9) }));
    }

    #[test]
    fn the_last_lines_of_both_outputs_are_kept() {
        let (folder, mut child) =
            start("for i in $(seq 30); do echo out $i; done; echo oops >&2; printf 'no newline'");
        wait_for_death(&child);
        child.try_reap().unwrap();
        let lines = child.into_last_lines();
        assert_eq!(lines.len(), LAST_LINES);
        assert_eq!(lines[LAST_LINES - 2..], ["oops", "no newline"]);
        let log = std::fs::read_to_string(folder.path().join("child.log")).unwrap();
        assert!(log.starts_with("out 1\n") && log.ends_with("oops\nno newline"), "{log}");
    }

    #[test]
    fn a_line_without_end_takes_bounded_memory() {
        let mut lines = LastLines::default();
        for _ in 0..1000 {
            lines.add(&[b'x'; 1000]);
        }
        assert_eq!(lines.finish(), ["x".repeat(LINE_BYTES)]);
    }
}
