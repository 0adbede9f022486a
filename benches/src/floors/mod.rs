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
use std::time::Instant;

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
    let mut children = Vec::new();
    for stage in stages {
        match spawn(stage) {
            Ok(child) => children.push(child),
            Err(error) => {
                children.iter_mut().for_each(|child| drop(child.kill()));
                return Err(error);
            }
        }
    }
    // A stage that fails would leave the others waiting for it.
    let mut failed = None;
    for mut child in children {
        if failed.is_some() {
            child.kill()?;
        }
        let status = child.wait()?;
        failed = failed.or((!status.success()).then_some(status));
    }
    ensure!(failed.is_none(), "a process of the floor ended with {failed:?}");
    Ok(Cost { cpu_s: reaped_cpu_s()? - before, elapsed_s: start.elapsed().as_secs_f64() })
}

/// Reads every byte: the xor of its words.
#[inline]
#[must_use]
pub fn xor_of(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let all = words.iter().fold(0, |sum, word| sum ^ u64::from_le_bytes(*word));
    rest.iter().fold(all, |sum, &byte| sum ^ u64::from(byte))
}
