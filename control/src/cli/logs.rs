//! `egret logs`: what the processes of a topology wrote, also when it has ended and was not a run.

use super::failure::{Failure, Kind, Outcome};
use super::output::{Audience, write};
use super::{Context, check_name};
use crate::layout::WorkDir;
use crate::logs::{self, LogFile};
use crate::scheduler::sweep;
use crate::state::Execution;
use serde_json::json;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

/// How often a followed log is looked at.
const FOLLOW_EVERY: Duration = Duration::from_millis(200);
/// How much of a log is read at once.
const PIECE_BYTES: u64 = 1 << 20;

/// What to show.
pub(crate) struct Wanted<'a> {
    /// A task's number or a process's name; everything when `None`.
    pub(crate) process: Option<&'a str>,
    /// Only so many lines of each log.
    pub(crate) tail: Option<usize>,
    /// Go on with what is added.
    pub(crate) follow: bool,
}

/// Runs the command.
pub(crate) fn run(context: &Context, name: &str, wanted: &Wanted<'_>) -> Outcome {
    if context.output.json && wanted.follow {
        return Err(Failure::usage(
            "--json prints one document and cannot be followed; leave out one of the two",
        ));
    }
    check_name(context, name)?;
    let execution = context.state()?.execution(name)?;
    let work_dir = find_work_dir(context, name, execution.as_ref())?;
    let found = find_logs(&work_dir, wanted)?;
    if context.output.json {
        return show_json(context, name, &found, wanted.tail);
    }
    let titled = found.len() > 1;
    let mut followed = Vec::new();
    for log in found {
        // Opened before it is shown, so that nothing is missed between the two.
        let followed_log = Followed::open(&log);
        let mut text = if titled { title(&log).into_bytes() } else { Vec::new() };
        text.extend(contents(&log, wanted.tail)?);
        if write(&text)? == Audience::HasLeft {
            return Ok(());
        }
        followed.push(followed_log);
    }
    if wanted.follow { follow(&mut followed, titled, execution.as_ref()) } else { Ok(()) }
}

/// The folder of the execution that is, or else of the newest one that was.
fn find_work_dir(context: &Context, name: &str, execution: Option<&Execution>) -> Result<WorkDir, Failure> {
    if let Some(execution) = execution {
        return Ok(WorkDir::at(&execution.work_dir));
    }
    let newest = context.home()?.work_dirs(name).into_iter().next();
    newest.ok_or_else(|| Failure::absent(name, context.global.cluster()))
}

fn find_logs(work_dir: &WorkDir, wanted: &Wanted<'_>) -> Result<Vec<LogFile>, Failure> {
    let mut found = logs::find(work_dir);
    let Some(process) = wanted.process else { return Ok(found) };
    let known: Vec<String> = found.iter().map(name_of).collect();
    found.retain(|log| is_called(log, process));
    if found.is_empty() {
        let text = format!("no log of task or process `{process}`; there are: {}", known.join(", "));
        return Err(Failure::new(Kind::Absent, text));
    }
    Ok(found)
}

/// `instance-3-split`, or `stmgr-1` with its container.
fn name_of(log: &LogFile) -> String {
    if log.task.is_some() { log.process.clone() } else { format!("{}-{}", log.process, log.container) }
}

fn is_called(log: &LogFile, wanted: &str) -> bool {
    let task = log.task.map(|task| task.to_string());
    log.process == wanted || name_of(log) == wanted || task.as_deref() == Some(wanted)
}

fn title(log: &LogFile) -> String {
    format!("==> container-{}/{} <==\n", log.container, log.process)
}

/// A log is bounded by its rotation, so it is read whole.
fn contents(log: &LogFile, tail: Option<usize>) -> Result<Vec<u8>, Failure> {
    let read = match tail {
        Some(lines) => log.last_lines(lines).map(|lines| {
            lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect::<String>().into_bytes()
        }),
        None => {
            let mut bytes = Vec::new();
            log.copy_to(&mut bytes).map(|()| bytes)
        }
    };
    read.map_err(|error| Failure::failed(format!("cannot read the log of {}: {error}", name_of(log))))
}

fn show_json(context: &Context, name: &str, logs: &[LogFile], tail: Option<usize>) -> Outcome {
    let entries = logs.iter().map(|log| {
        let text = String::from_utf8_lossy(&contents(log, tail)?).into_owned();
        Ok(json!({"container": log.container, "process": log.process, "task": log.task, "text": text}))
    });
    let entries = entries.collect::<Result<Vec<_>, Failure>>()?;
    context.output.result(&json!({"topology": name, "logs": entries}), String::new)
}

/// A log that is read as it grows.
struct Followed {
    title: String,
    path: PathBuf,
    file: Option<File>,
}

impl Followed {
    /// From the present end on.
    fn open(log: &LogFile) -> Self {
        let path = log.parts.last().cloned().unwrap_or_default();
        let mut file = File::open(&path).ok();
        if let Some(file) = &mut file {
            let _ = file.seek(SeekFrom::End(0));
        }
        Self { title: title(log), path, file }
    }

    /// What was added since it was last read. A log that was rotated goes on in a new file.
    fn added(&mut self) -> Vec<u8> {
        let text = read_some(self.file.as_mut());
        if !text.is_empty() {
            return text;
        }
        let present = fs::metadata(&self.path).map(|m| m.ino()).ok();
        let opened = self.file.as_ref().and_then(|file| file.metadata().ok()).map(|m| m.ino());
        if present.is_some() && present != opened {
            self.file = File::open(&self.path).ok();
        }
        read_some(self.file.as_mut())
    }
}

fn read_some(file: Option<&mut File>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(file) = file {
        let _: io::Result<usize> = file.take(PIECE_BYTES).read_to_end(&mut bytes);
    }
    bytes
}

/// Shows what is added, until no process of the execution is left, or nobody reads it any more.
fn follow(logs: &mut [Followed], titled: bool, execution: Option<&Execution>) -> Outcome {
    let mut shown_last = logs.len().checked_sub(1);
    loop {
        // Asked before the logs are read: what was written before the end is still shown.
        let alive = execution.is_some_and(|execution| sweep::any(&execution.id).unwrap_or(false));
        let mut quiet = true;
        for (i, log) in logs.iter_mut().enumerate() {
            let mut text = log.added();
            if text.is_empty() {
                continue;
            }
            quiet = false;
            if titled && shown_last != Some(i) {
                text.splice(..0, format!("\n{}", log.title).into_bytes());
            }
            shown_last = Some(i);
            if write(&text)? == Audience::HasLeft {
                return Ok(());
            }
        }
        if quiet && !alive {
            return Ok(());
        }
        if quiet {
            std::thread::sleep(FOLLOW_EVERY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use egret_dataplane::ids::{ContainerId, TaskId};
    use std::path::Path;

    fn log(dir: &Path, process: &str, task: Option<u32>) -> LogFile {
        let path = dir.join(format!("{process}.log"));
        fs::write(&path, "a\n").unwrap();
        LogFile {
            container: ContainerId(1),
            process: process.to_owned(),
            task: task.map(TaskId),
            parts: vec![path],
        }
    }

    #[test]
    fn a_log_is_found_by_task_by_process_and_by_full_name() {
        let dir = tempfile::tempdir().unwrap();
        let (instance, stmgr) =
            (log(dir.path(), "instance-3-split", Some(3)), log(dir.path(), "stmgr", None));
        assert!(is_called(&instance, "3") && is_called(&instance, "instance-3-split"));
        assert!(!is_called(&instance, "1"));
        assert!(is_called(&stmgr, "stmgr") && is_called(&stmgr, "stmgr-1") && !is_called(&stmgr, "stmgr-2"));
    }

    #[test]
    fn following_goes_over_a_rotation() {
        let dir = tempfile::tempdir().unwrap();
        let log = log(dir.path(), "stmgr", None);
        let mut followed = Followed::open(&log);
        assert_eq!(followed.added(), b"");
        fs::rename(&log.parts[0], dir.path().join("stmgr.log.1")).unwrap();
        fs::write(&log.parts[0], "b\n").unwrap();
        assert_eq!(followed.added(), b"b\n");
        assert_eq!(followed.added(), b"");
    }
}
