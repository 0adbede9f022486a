//! Finding the processes of an execution by what cannot be taken from them: the environment they were started with.
//!
//! Every process of a topology inherits `EGRET_TOPOLOGY_ID`, also one whose executor was killed, and one that user code
//! started. A process that changed its environment but stayed in the session of one that did not is found too.
//! Processes of other users are never looked at.

use crate::layout::{RUNNER_PID_ENV, TOPOLOGY_ID_ENV};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::{fs, io};

/// A process that was found; held by a pidfd, so that signals never reach another process with the same number.
#[derive(Debug)]
pub struct Process {
    /// Its process id.
    pub pid: u32,
    /// Whether it is an executor (the leader of its session).
    pub leads_session: bool,
    fd: OwnedFd,
}

impl Process {
    /// Sends a signal. That the process has ended is fine.
    ///
    /// # Errors
    /// When it may not be signalled.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        match pidfd_send_signal(&self.fd, signal) {
            Err(rustix::io::Errno::SRCH) => Ok(()),
            other => Ok(other?),
        }
    }
}

/// One line of the process table.
#[derive(Clone, Copy, Debug)]
struct Row {
    pid: u32,
    parent: u32,
    session: u32,
    marked: bool,
}

/// Every living process of the execution but this one.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn find(execution_id: &str) -> io::Result<Vec<Process>> {
    let rows = table(execution_id)?;
    // A session's number is not given again while anyone is in it, so all who share it with a marked one belong to it.
    // This process's own session is the user's shell, whatever is marked in it.
    let own = std::process::id();
    let own_session = rows.iter().find(|r| r.pid == own).map_or(0, |r| r.session);
    let sessions: BTreeSet<u32> =
        rows.iter().filter(|r| r.marked && r.session != own_session).map(|r| r.session).collect();
    let ours = |r: &Row| r.pid != own && (r.marked || sessions.contains(&r.session));
    Ok(rows.iter().filter(|r| ours(r)).filter_map(|row| hold(row, ours, execution_id)).collect())
}

/// Whether any process of the execution lives, this one aside.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn any(execution_id: &str) -> io::Result<bool> {
    Ok(!find(execution_id)?.is_empty())
}

/// Whether the `egret run` that started the execution lives: it is still the parent of one of its executors.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn is_attended(execution_id: &str) -> io::Result<bool> {
    let by_its_runner = |row: &Row| {
        let runner = variable(&format!("/proc/{}", row.pid), RUNNER_PID_ENV);
        runner.is_some_and(|runner| runner == row.parent.to_string().as_bytes())
    };
    Ok(table(execution_id)?.iter().any(|row| row.marked && by_its_runner(row)))
}

/// The living children of this process: for a subreaper, also those that its dead descendants left.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn own_children() -> io::Result<Vec<Process>> {
    let own = std::process::id();
    let rows = table("")?;
    let children = rows.iter().filter(|r| r.parent == own);
    // Whoever has this process as parent, also when looked at again, is no stranger.
    Ok(children.filter_map(|row| hold(row, |again| again.parent == own, "")).collect())
}

/// The children of this process that have ended and are not reaped.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn zombie_children() -> io::Result<Vec<u32>> {
    let own = std::process::id();
    let is_zombie = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok();
        stat.as_deref().and_then(parse_stat).is_some_and(|(state, parent, _)| state == 'Z' && parent == own)
    };
    Ok(process_ids()?.filter(is_zombie).collect())
}

/// Takes hold of a process and looks at it again: between the first look and the hold, its number may have gone to
/// another one.
fn hold(row: &Row, ours: impl Fn(&Row) -> bool, execution_id: &str) -> Option<Process> {
    let fd = pidfd_open(Pid::from_raw(row.pid as i32)?, PidfdFlags::empty()).ok()?;
    let again = look(row.pid, execution_id)?;
    ours(&again).then(|| Process { pid: row.pid, leads_session: again.session == row.pid, fd })
}

fn table(execution_id: &str) -> io::Result<Vec<Row>> {
    Ok(process_ids()?.filter_map(|pid| look(pid, execution_id)).collect())
}

fn process_ids() -> io::Result<impl Iterator<Item = u32>> {
    let entries = fs::read_dir("/proc")?.flatten();
    Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()))
}

/// What a process is; `None` when it has ended or is another user's.
fn look(pid: u32, execution_id: &str) -> Option<Row> {
    let folder = format!("/proc/{pid}");
    let stat = fs::read_to_string(format!("{folder}/stat")).ok()?;
    let (state, parent, session) = parse_stat(&stat)?;
    if matches!(state, 'Z' | 'X') || !owned_by_this_user(&folder) {
        return None;
    }
    let marked = !execution_id.is_empty() && is_marked(&folder, execution_id);
    Some(Row { pid, parent, session, marked })
}

fn owned_by_this_user(folder: &str) -> bool {
    fs::metadata(folder).is_ok_and(|m| m.uid() == rustix::process::geteuid().as_raw())
}

fn is_marked(folder: &str, execution_id: &str) -> bool {
    variable(folder, TOPOLOGY_ID_ENV).is_some_and(|id| id == execution_id.as_bytes())
}

/// A variable of the environment that the process was started with.
fn variable(folder: &str, name: &str) -> Option<Vec<u8>> {
    let environment = fs::read(format!("{folder}/environ")).ok()?;
    let mut entries = environment.split(|byte| *byte == 0);
    entries.find_map(|entry| Some(entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.to_vec()))
}

/// State, parent and session of a line of `/proc/PID/stat`. The name in it is in brackets and may hold anything.
fn parse_stat(stat: &str) -> Option<(char, u32, u32)> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    Some((state, parent, session))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_with_brackets_does_not_confuse_the_parser() {
        assert_eq!(parse_stat("12 (a) Z 1 (b) S 3 4 5 6 7"), Some(('S', 3, 5)));
        assert_eq!(parse_stat("12"), None);
    }
}
