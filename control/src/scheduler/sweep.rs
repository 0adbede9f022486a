//! Finding the processes of an execution by what cannot be taken from them: the environment they were started with.
//!
//! Every process of a topology inherits `EGRET_TOPOLOGY_ID`, and `EGRET_CONTAINER` with it, also one whose executor was
//! killed, and one that user code started. A process that changed its environment but stayed in the session of one that did not is found too.
//! Processes of other users are never looked at.

use crate::layout::{CONTAINER_ENV, RUNNER_PID_ENV, TOPOLOGY_ID_ENV};
use egret_dataplane::ids::ContainerId;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};
use std::{fs, io};

/// A process that was found; held by a pidfd, so that signals never reach another process with the same number.
#[derive(Debug)]
pub struct Process {
    /// Its process id.
    pub pid: u32,
    /// Whether it is an executor (the leader of its session).
    pub leads_session: bool,
    /// The container that its environment names.
    pub container: Option<ContainerId>,
    fd: OwnedFd,
}

impl Process {
    /// Sends a signal. That the process has ended is fine.
    ///
    /// # Errors
    /// When it may not be signalled.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        match pidfd_send_signal(&self.fd, signal) {
            Err(Errno::SRCH) => Ok(()),
            other => Ok(other?),
        }
    }

    /// Becomes readable when it has ended.
    #[must_use]
    pub fn into_death_fd(self) -> OwnedFd {
        self.fd
    }
}

/// Whose processes are looked for.
#[derive(Clone, Copy, Debug)]
struct Mark<'a> {
    execution_id: &'a str,
    container: Option<ContainerId>,
}

/// One line of the process table.
#[derive(Clone, Copy, Debug)]
struct Row {
    pid: u32,
    parent: u32,
    session: u32,
    container: Option<ContainerId>,
    marked: bool,
    /// Its parent is still the `egret run` that its environment names.
    by_its_runner: bool,
}

/// Every living process of the execution but this one.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn find(execution_id: &str) -> io::Result<Vec<Process>> {
    find_marked(Mark { execution_id, container: None })
}

/// Kills every process of one container but this one, waits until none is left, and says how many there were.
///
/// # Errors
/// When `/proc` cannot be read, or some do not end within `patience`.
pub fn clear_container(execution_id: &str, container: ContainerId, patience: Duration) -> io::Result<usize> {
    let deadline = Instant::now() + patience;
    let mut killed = BTreeSet::new();
    loop {
        let left = find_marked(Mark { execution_id, container: Some(container) })?;
        if left.is_empty() {
            return Ok(killed.len());
        }
        if Instant::now() >= deadline {
            let pids: Vec<u32> = left.iter().map(|p| p.pid).collect();
            return Err(io::Error::other(format!("processes {pids:?} do not end although killed")));
        }
        killed.extend(left.iter().map(|p| p.pid));
        left.iter().try_for_each(|p| p.signal(Signal::KILL))?;
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The process of this number, if it lives and belongs to the execution, and can be looked at.
#[must_use]
pub fn process(execution_id: &str, pid: u32) -> Option<Process> {
    let mark = Mark { execution_id, container: None };
    let row = look(pid, mark).ok()??;
    hold(&row, |row| row.marked, mark).ok()?
}

fn find_marked(mark: Mark<'_>) -> io::Result<Vec<Process>> {
    let rows = table(mark)?;
    // A session's number is not given again while anyone is in it, so all who share it with a marked one belong to it.
    // This process's own session is the user's shell, whatever is marked in it. So is one whose leader lives and is not
    // marked: an executor may not have left yet the session of whoever started it, and anybody can set a variable.
    let own = std::process::id();
    let own_session = rows.iter().find(|r| r.pid == own).map_or(0, |r| r.session);
    let strange = |session: u32| rows.iter().any(|r| r.pid == session && !r.marked);
    let whole = |r: &&Row| r.session != own_session && !strange(r.session);
    let sessions: BTreeSet<u32> = rows.iter().filter(|r| r.marked).filter(whole).map(|r| r.session).collect();
    let ours = |r: &Row| r.pid != own && (r.marked || sessions.contains(&r.session));
    rows.iter().filter(|r| ours(r)).filter_map(|row| hold(row, ours, mark).transpose()).collect()
}

/// The executions whose executors live and were started for this topology in this state: what finds the processes of one
/// whose entries are gone or damaged.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn executions_of(state_url: &str, topology: &str) -> io::Result<BTreeSet<String>> {
    process_ids()?.into_iter().filter_map(|pid| execution_of(pid, state_url, topology).transpose()).collect()
}

fn execution_of(pid: u32, state_url: &str, topology: &str) -> io::Result<Option<String>> {
    let folder = format!("/proc/{pid}");
    if !owned_by_this_user(&folder) {
        return Ok(None);
    }
    let command_line = seen(fs::read(format!("{folder}/cmdline")))?.unwrap_or_default();
    let args: Vec<&[u8]> = command_line.split(|byte| *byte == 0).collect();
    let option = |name: &str| args.windows(2).find(|pair| pair[0] == name.as_bytes()).map(|pair| pair[1]);
    let is_executor = args.get(1) == Some(&b"executor".as_slice());
    if !is_executor
        || option("--state") != Some(state_url.as_bytes())
        || option("--topology") != Some(topology.as_bytes())
    {
        return Ok(None);
    }
    let environment = seen(fs::read(format!("{folder}/environ")))?.unwrap_or_default();
    Ok(variable(&environment, TOPOLOGY_ID_ENV).map(str::to_owned))
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
    let rows = table(Mark { execution_id, container: None })?;
    Ok(rows.iter().any(|row| row.marked && row.by_its_runner))
}

/// The living children of this process: for a subreaper, also those that its dead descendants left.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn own_children() -> io::Result<Vec<Process>> {
    let own = std::process::id();
    let nobody = Mark { execution_id: "", container: None };
    let rows = table(nobody)?;
    let children = rows.iter().filter(|r| r.parent == own);
    // Whoever has this process as parent, also when looked at again, is no stranger.
    children.filter_map(|row| hold(row, |again| again.parent == own, nobody).transpose()).collect()
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
    Ok(process_ids()?.into_iter().filter(is_zombie).collect())
}

/// Takes hold of a process and looks at it again: between the first look and the hold, its number may have gone to
/// another one.
fn hold(row: &Row, ours: impl Fn(&Row) -> bool, mark: Mark<'_>) -> io::Result<Option<Process>> {
    let Some(number) = Pid::from_raw(row.pid as i32) else { return Ok(None) };
    let Some(fd) = seen(pidfd_open(number, PidfdFlags::empty()).map_err(io::Error::from))? else {
        return Ok(None);
    };
    let Some(again) = look(row.pid, mark)? else { return Ok(None) };
    let (pid, leads_session, container) = (row.pid, again.session == row.pid, again.container);
    Ok(ours(&again).then_some(Process { pid, leads_session, container, fd }))
}

fn table(mark: Mark<'_>) -> io::Result<Vec<Row>> {
    process_ids()?.into_iter().filter_map(|pid| look(pid, mark).transpose()).collect()
}

fn process_ids() -> io::Result<Vec<u32>> {
    let mut ids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        ids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(ids)
}

/// What could not be looked at has ended, or is another user's; unless there is no descriptor left to look with.
fn seen<T>(looked: io::Result<T>) -> io::Result<Option<T>> {
    let blind = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    match looked {
        Ok(what) => Ok(Some(what)),
        Err(error) if error.raw_os_error().is_some_and(|code| blind.contains(&code)) => Err(error),
        Err(_) => Ok(None),
    }
}

/// What a process is; `None` when it has ended or is another user's.
fn look(pid: u32, mark: Mark<'_>) -> io::Result<Option<Row>> {
    let folder = format!("/proc/{pid}");
    let stat = seen(fs::read_to_string(format!("{folder}/stat")))?;
    let Some((state, parent, session)) = stat.as_deref().and_then(parse_stat) else { return Ok(None) };
    if matches!(state, 'Z' | 'X') || !owned_by_this_user(&folder) {
        return Ok(None);
    }
    let environment = seen(fs::read(format!("{folder}/environ")))?.unwrap_or_default();
    let variable = |name: &str| variable(&environment, name);
    let container = variable(CONTAINER_ENV).and_then(|text| text.parse().ok()).map(ContainerId);
    let in_execution = variable(TOPOLOGY_ID_ENV) == Some(mark.execution_id) && !mark.execution_id.is_empty();
    let marked = in_execution && mark.container.is_none_or(|wanted| container == Some(wanted));
    let by_its_runner = variable(RUNNER_PID_ENV).is_some_and(|runner| runner == parent.to_string());
    Ok(Some(Row { pid, parent, session, container, marked, by_its_runner }))
}

fn owned_by_this_user(folder: &str) -> bool {
    fs::metadata(folder).is_ok_and(|m| m.uid() == rustix::process::geteuid().as_raw())
}

/// The value of a variable in the contents of `/proc/PID/environ`.
fn variable<'a>(environment: &'a [u8], name: &str) -> Option<&'a str> {
    let entry = |entry: &'a [u8]| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=");
    let value = environment.split(|byte| *byte == 0).find_map(entry)?;
    std::str::from_utf8(value).ok()
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

    #[test]
    fn without_descriptors_nobody_counts_as_gone() {
        assert_eq!(seen(Ok(7)).unwrap(), Some(7));
        assert_eq!(seen::<u32>(Err(io::ErrorKind::NotFound.into())).unwrap(), None);
        assert_eq!(seen::<u32>(Err(Errno::SRCH.into())).unwrap(), None);
        for errno in [Errno::MFILE, Errno::NFILE] {
            assert!(seen::<u32>(Err(errno.into())).is_err());
        }
    }

    #[test]
    fn a_variable_is_found_by_its_whole_name() {
        let environment = b"XEGRET_CONTAINER=1\0EGRET_CONTAINER_DIR=/x\0EGRET_CONTAINER=2\0";
        assert_eq!(variable(environment, CONTAINER_ENV), Some("2"));
        assert_eq!(variable(b"", CONTAINER_ENV), None);
    }
}
