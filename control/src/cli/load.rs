//! A topology from what was typed: a YAML file, or a program that describes itself.

use super::Context;
use super::args::Source;
use super::failure::Failure;
use crate::executor;
use egret_dataplane::plan::{Config, LinkedProgram, Program, Topology};
use rustix::fs::{MemfdFlags, memfd_create};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a program may take to describe its topology.
const DESCRIBE_LIMIT: Duration = Duration::from_secs(30);
/// How much of a failed program's last words is shown.
const WORDS_MAX_BYTES: u64 = 16 << 10;

/// Reads, configures and checks the topology that was typed.
///
/// # Errors
/// Wrong usage, with every problem that was found.
pub(crate) fn topology(context: &Context, source: &Source) -> Result<Topology, Failure> {
    let overrides = context.overrides()?;
    let is_stdin = source.topology.as_os_str() == "-";
    let path = if is_stdin { Path::new("/dev/stdin") } else { &source.topology };
    let metadata = fs::metadata(path).map_err(|error| {
        let hint = "; give a YAML file, or a program that links the library";
        Failure::usage(format!("cannot read topology {}: {error}{hint}", path.display()))
    })?;
    if metadata.is_dir() {
        return Err(Failure::usage(format!("{} is a folder; give a YAML file or a program", path.display())));
    }
    if is_yaml(path) || metadata.permissions().mode() & 0o111 == 0 {
        return yaml(path, &source.args, &overrides);
    }
    program(path, &source.args, &overrides)
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("yaml") || e.eq_ignore_ascii_case("yml"))
}

fn yaml(path: &Path, args: &[OsString], overrides: &Config) -> Result<Topology, Failure> {
    if !args.is_empty() {
        return Err(Failure::usage(format!(
            "{} is YAML and takes no arguments; what stands behind `--` is for a program",
            path.display()
        )));
    }
    load_yaml(path, overrides)
}

/// The one door to the YAML loader.
fn load_yaml(path: &Path, overrides: &Config) -> Result<Topology, Failure> {
    let overrides: Vec<_> =
        overrides.entries().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    egret::yaml::load(path, &overrides).map_err(Failure::usage)
}

/// Lets a program describe its topology, and notes how its instances are started.
fn program(path: &Path, args: &[OsString], overrides: &Config) -> Result<Topology, Failure> {
    let path =
        fs::canonicalize(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    let text = describe(&path, args).map_err(Failure::usage)?;
    let invalid = |problems: &[String]| {
        let lines: Vec<_> = problems.iter().map(|problem| format!("{}: {problem}", path.display())).collect();
        Failure::usage(lines.join("\n"))
    };
    let mut topology = egret::runtime::read_description(&text).map_err(|problems| invalid(&problems))?;
    topology.program = Program::Linked(LinkedProgram {
        path: utf8(path.clone().into_os_string())?,
        args: args.iter().cloned().map(utf8).collect::<Result<_, _>>()?,
    });
    topology.config.overlay(overrides);
    let problems: Vec<_> = topology.validate().iter().map(ToString::to_string).collect();
    if problems.is_empty() { Ok(topology) } else { Err(invalid(&problems)) }
}

fn utf8(text: OsString) -> Result<String, Failure> {
    text.into_string().map_err(|text| Failure::usage(format!("{} is not UTF-8", text.display())))
}

/// What the program writes when it is asked to describe itself. It writes into memory of this process, and the kernel
/// ends it with this process: nothing is left, however this ends.
fn describe(path: &Path, args: &[OsString]) -> Result<Vec<u8>, String> {
    let named = |error: std::io::Error| format!("cannot run {}: {error}", path.display());
    let mut answer = memory("egret-topology").map_err(named)?;
    // Into a file, so that a program that says much neither waits for a reader nor mixes with the result.
    let mut words = memory("egret-words").map_err(named)?;
    let describe_to = format!("/proc/{}/fd/{}", std::process::id(), answer.as_raw_fd());
    let mut command = Command::new(path);
    command
        .args(args)
        .env("EGRET_ROLE", "describe")
        .env("EGRET_DESCRIBE_TO", describe_to)
        .stdin(Stdio::null());
    command.stdout(words.try_clone().map_err(named)?).stderr(words.try_clone().map_err(named)?);
    let mut child = executor::spawn_bound(&mut command).map_err(named)?;
    let status = wait(&mut child, DESCRIBE_LIMIT).map_err(named)?;
    let said = last_words(&mut words);
    match status {
        None => Err(format!(
            "{} did not describe its topology within {} s; before `egret::main` it should only build it{said}",
            path.display(),
            DESCRIBE_LIMIT.as_secs()
        )),
        Some(status) if !status.success() => {
            Err(format!("{} could not describe its topology ({status}){said}", path.display()))
        }
        Some(_) => {
            let mut text = Vec::new();
            answer.read_to_end(&mut text).map_err(named)?;
            if text.is_empty() {
                return Err(format!(
                    "{} described no topology: it must end its `main` with `egret::main(topology)`{said}",
                    path.display()
                ));
            }
            Ok(text)
        }
    }
}

/// A file without a name.
fn memory(name: &str) -> std::io::Result<File> {
    Ok(memfd_create(name, MemfdFlags::CLOEXEC)?.into())
}

/// Waits for the child, and kills one that takes longer than `limit`.
fn wait(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The end of what a program said, as lines to be put behind an error.
fn last_words(words: &mut File) -> String {
    let mut text = Vec::new();
    let length = words.metadata().map_or(0, |m| m.len());
    let start = length.saturating_sub(WORDS_MAX_BYTES);
    if words.seek(SeekFrom::Start(start)).is_ok() {
        let _ = words.take(WORDS_MAX_BYTES).read_to_end(&mut text);
    }
    let text = String::from_utf8_lossy(&text);
    if text.trim().is_empty() { String::new() } else { format!("; it said:\n{}", text.trim_end()) }
}
