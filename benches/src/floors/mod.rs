//! Floors: the least code that does the same physical work as a suite, without Egret.
//!
//! * [`row`]: (a) three processes in a row pass block descriptors through shared rings, the payload written once and read
//!   once, with or without an xor per tuple; (c) the same with one tuple at a time, which times how long one takes.
//! * [`link`]: (b) two processes over loopback TCP on io_uring.
//! * [`words`]: (d) the word-count loop, in one thread.
//!
//! The rows' pool, blocks, rings, parkers and wakers are the dataplane's own, at a few dozen nanoseconds for each batch, so a
//! ratio does not show when those become slower. What happens to each tuple is written here, and knows nothing of schemas,
//! groupings, plans, peers or failures.

pub mod link;
pub mod row;
pub mod words;

use crate::run::reaped_cpu_s;
use crate::sample::Cost;
use anyhow::{Result, ensure};
use egret_dataplane::affinity::{self, Policy};
use egret_dataplane::ids::ContainerId;
use serde::{Deserialize, Serialize};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How often it is looked whether a process has ended: little beside the seconds that a run takes.
const LOOKS_EVERY: Duration = Duration::from_millis(1);

/// What one process of a floor does.
#[derive(Debug, Serialize, Deserialize)]
pub enum Stage {
    /// Of a row.
    Row(row::Part, row::Row, row::Shared),
    /// Of a link; the listening socket is the receiver's standard input.
    Link(link::Part, link::Link),
    /// The whole loop.
    Words(u64, words::Lookups),
}

/// A process to start: what it does, where it is pinned, and its standard input.
type Start = (Stage, ContainerId, Stdio);

/// Does what the command line of a floor's process says: its argument is a policy of pinning, a container whose place it
/// takes, and a stage, as JSON.
///
/// # Errors
/// When the stage fails.
pub fn run_stage(arg: &str) -> Result<()> {
    let (policy, container, stage): (String, u32, Stage) = serde_json::from_str(arg)?;
    affinity::pin(&Policy::parse(&policy).unwrap_or(Policy::None), ContainerId(container));
    match stage {
        Stage::Row(part, row, shared) => row.run(part, &shared),
        Stage::Link(part, link) => link.run(part),
        Stage::Words(count, lookups) => {
            std::hint::black_box(words::count(count, lookups));
            Ok(())
        }
    }
}

/// The cost of running these stages side by side, each in a process of its own.
fn run_stages(policy: &str, stages: Vec<Start>) -> Result<Cost> {
    let (before, start) = (reaped_cpu_s()?, Instant::now());
    let spawn = |(stage, container, stdin): Start| -> Result<Child> {
        let arg = serde_json::to_string(&(policy, container.0, stage))?;
        let mut command = Command::new(std::env::current_exe()?);
        Ok(command.args(["floor", &arg]).stdin(stdin).spawn()?)
    };
    let mut running = Running(Vec::new());
    for stage in stages {
        running.0.push(spawn(stage)?);
    }
    running.wait()?;
    Ok(Cost { cpu_s: reaped_cpu_s()? - before, elapsed_s: start.elapsed().as_secs_f64() })
}

/// Processes that wait for each other: when it is dropped, those that are left are ended.
struct Running(Vec<Child>);

impl Running {
    /// Waits until all have ended, or the first has failed, for which the others would wait for ever.
    fn wait(mut self) -> Result<()> {
        while !self.0.is_empty() {
            let mut index = 0;
            while index < self.0.len() {
                match self.0[index].try_wait()? {
                    None => index += 1,
                    Some(status) => {
                        let pid = self.0.swap_remove(index).id();
                        ensure!(status.success(), "process {pid} of the floor ended with {status}");
                    }
                }
            }
            std::thread::sleep(LOOKS_EVERY);
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Reads every byte: the xor of its words.
#[inline]
#[must_use]
pub fn xor_of(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let all = words.iter().fold(0, |sum, word| sum ^ u64::from_le_bytes(*word));
    rest.iter().fold(all, |sum, &byte| sum ^ u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn shell(script: &str) -> Child {
        Command::new("sh").args(["-c", script]).stdin(Stdio::null()).spawn().unwrap()
    }

    #[test]
    fn all_are_waited_for() {
        Running(vec![shell("exit 0"), shell("exec sleep 0.1"), shell("exit 0")]).wait().unwrap();
    }

    #[test]
    fn the_first_that_fails_ends_the_others_and_is_reported() {
        let running = Running(vec![shell("exec sleep 100000"), shell("exit 7"), shell("exec sleep 100000")]);
        let pids: Vec<u32> = running.0.iter().map(Child::id).collect();
        let error = running.wait().unwrap_err().to_string();
        assert_eq!(error, format!("process {} of the floor ended with exit status: 7", pids[1]));
        assert!(pids.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()));
    }
}
