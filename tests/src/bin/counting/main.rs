//! `egret` and a topology in one program whose allocator counts: for the test that the data path allocates nothing.
//!
//! The topology is `source` → `pass` → `sink`, tracked, without end. Each of its processes, and each stmgr, keeps writing
//! lines into a file of its own in the folder that [`SAMPLES`] names: the time in nanoseconds, how often its other threads
//! have allocated, and how many tuples the sink has executed in it.

mod allocator;
mod components;

use components::{Pass, Sink, Source};
use egret::{TopologyBuilder, Tuple};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Names the folder for samples.
const SAMPLES: &str = "EGRET_TEST_SAMPLES";
const EVERY: Duration = Duration::from_millis(5);

/// Tuples that the sink has executed in this process.
static EXECUTED: AtomicU64 = AtomicU64::new(0);

/// What flows.
#[derive(Tuple)]
struct Item<'a> {
    n: u64,
    payload: &'a [u8],
}

fn main() -> ExitCode {
    let role = std::env::args().nth(1);
    match std::env::var("EGRET_ROLE") {
        Ok(role) => {
            if role == "instance" {
                sample(&format!("task-{}", std::env::var("EGRET_TASK").unwrap_or_default()));
            }
            egret::main(topology())
        }
        Err(_) => {
            if role.as_deref() == Some("stmgr") {
                sample("stmgr");
            }
            egret_control::main()
        }
    }
}

fn topology() -> TopologyBuilder {
    let mut topology = TopologyBuilder::new("counting");
    topology.config("topology.reliability.mode", "ATLEAST_ONCE");
    // So low that queues keep crossing them.
    topology.config("egret.streammgr.network.backpressure.highwatermark.mb", 0.05);
    topology.config("egret.streammgr.network.backpressure.lowwatermark.mb", 0.02);
    topology.spout("source", 1, Source::default).emits::<Item>();
    topology.bolt("pass", 1, || Pass).shuffle("source").emits::<Item>();
    topology.bolt("sink", 1, || Sink).shuffle("pass");
    topology
}

/// Starts the thread that writes samples, if the test asks for them.
fn sample(who: &str) {
    let Some(folder) = std::env::var_os(SAMPLES) else { return };
    let path = Path::new(&folder).join(format!("{who}.{}", std::process::id()));
    let file = File::create(&path);
    let Ok(mut file) = file.inspect_err(|error| eprintln!("cannot create {}: {error}", path.display()))
    else {
        return;
    };
    std::thread::spawn(move || {
        allocator::exempt_this_thread();
        loop {
            let executed = EXECUTED.load(Ordering::Relaxed);
            let line = format!("{} {} {executed}\n", now_ns(), allocator::allocations());
            if let Err(error) = file.write_all(line.as_bytes()) {
                eprintln!("no more samples: {error}");
                return;
            }
            egret_tests::let_time_pass(EVERY);
        }
    });
}

fn now_ns() -> u128 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u128 * 1_000_000_000 + now.tv_nsec as u128
}
