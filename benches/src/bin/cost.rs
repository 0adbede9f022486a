//! What a tuple costs: CPU time per tuple of `sequence` → `identity` → `null-sink` in one container, over both hops,
//! and how much more it costs when its tree is tracked.
//!
//! Two runs of different length are subtracted, so starting and ending cost nothing here. `--quick` makes both short.

use anyhow::{Result, ensure};
use egret_benches::run::measure;
use std::path::Path;
use std::process::ExitCode;

const TOPOLOGY: &str = "
name: cost
config: {topology.containers: 1}
spouts:
  - {id: numbers, type: sequence, args: {count: COUNT, bytes: BYTES}}
bolts:
  - {id: pass, type: identity}
  - {id: sink, type: null-sink}
streams:
  - {from: numbers, to: pass, grouping: {type: SHUFFLE}}
  - {from: pass, to: sink, grouping: {type: SHUFFLE}}
";

/// A number and so many bytes of payload make a tuple of 16 bytes.
const PAYLOAD_BYTES: u32 = 8;
/// Each tracked measurement stands beside an untracked one; the median of their ratios counts.
const PAIRS: usize = 3;

/// The lengths of the two runs that are subtracted, in tuples.
#[derive(Clone, Copy)]
struct Lengths {
    short: u64,
    long: u64,
}

/// What a tuple costs.
struct Cost {
    cpu_ns: f64,
    per_second: f64,
}

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        None => report(Lengths { short: 1_000_000, long: 41_000_000 }),
        Some("--quick") => report(Lengths { short: 500_000, long: 10_500_000 }),
        // Started by a run of this program as one of its roles.
        Some(_) => return egret_control::main(),
    }
    .map_or_else(
        |error| {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

fn report(lengths: Lengths) -> Result<()> {
    let folder = tempfile::tempdir()?;
    println!("CPU time per 16-byte tuple, sequence -> identity -> null-sink, one container, both hops:");
    for policy in ["none", "auto"] {
        let affinity = format!("egret.affinity.policy={policy}");
        let mut ratios = Vec::new();
        for _ in 0..PAIRS {
            let untracked = cost(folder.path(), lengths, &[&affinity])?;
            let tracked =
                cost(folder.path(), lengths, &[&affinity, "topology.reliability.mode=ATLEAST_ONCE"])?;
            show(policy, "untracked", &untracked);
            show(policy, "tracked", &tracked);
            ratios.push(tracked.cpu_ns / untracked.cpu_ns);
        }
        ratios.sort_by(f64::total_cmp);
        let (least, median, most) = (ratios[0], ratios[PAIRS / 2], ratios[PAIRS - 1]);
        println!("  affinity {policy:<5} tracked over untracked: {median:.2} ({least:.2} to {most:.2})");
    }
    Ok(())
}

fn show(policy: &str, what: &str, cost: &Cost) {
    let Cost { cpu_ns, per_second } = cost;
    println!(
        "  affinity {policy:<5} {what:<9} {cpu_ns:6.1} ns CPU per tuple, {:6.2} M tuples/s",
        per_second / 1e6
    );
}

/// Measures a run of each length.
fn cost(folder: &Path, lengths: Lengths, config: &[&str]) -> Result<Cost> {
    let [few, many] = [lengths.short, lengths.long].map(|count| {
        let topology = folder.join(format!("cost-{count}.yaml"));
        let text = TOPOLOGY.replace("COUNT", &count.to_string());
        std::fs::write(&topology, text.replace("BYTES", &PAYLOAD_BYTES.to_string()))?;
        let measured = measure(&topology, &folder.join("home"), config)?;
        let executed = &measured.summary["components"]["sink"]["executed"];
        ensure!(*executed == count, "the sink executed {executed} of {count} tuples");
        Ok(measured)
    });
    let (few, many) = (few?, many?);
    let tuples = (lengths.long - lengths.short) as f64;
    let elapsed = |m: &egret_benches::run::Measured| m.summary["elapsed_s"].as_f64().unwrap_or(f64::NAN);
    Ok(Cost {
        cpu_ns: (many.cpu_s - few.cpu_s) * 1e9 / tuples,
        per_second: tuples / (elapsed(&many) - elapsed(&few)),
    })
}
