//! What a tuple costs: CPU time per tuple of `sequence` → `identity` → `null-sink` in one container, over both hops.
//!
//! Two runs of different length are subtracted, so starting and ending cost nothing here. `--quick` makes both short.

use anyhow::{Result, ensure};
use egret_benches::run::measure;
use std::process::ExitCode;

const TOPOLOGY: &str = "
name: cost
config: {topology.containers: 1}
spouts:
  - {id: numbers, type: sequence, args: {count: COUNT}}
bolts:
  - {id: pass, type: identity}
  - {id: sink, type: null-sink}
streams:
  - {from: numbers, to: pass, grouping: {type: SHUFFLE}}
  - {from: pass, to: sink, grouping: {type: SHUFFLE}}
";

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        None => report(1_000_000, 41_000_000),
        Some("--quick") => report(500_000, 10_500_000),
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

fn report(short: u64, long: u64) -> Result<()> {
    let folder = tempfile::tempdir()?;
    println!("CPU time per 8-byte tuple, sequence -> identity -> null-sink, one container, both hops:");
    for policy in ["none", "auto"] {
        let [few, many] = [short, long].map(|count| {
            let topology = folder.path().join(format!("cost-{count}.yaml"));
            std::fs::write(&topology, TOPOLOGY.replace("COUNT", &count.to_string()))?;
            let measured = measure(
                &topology,
                &folder.path().join("home"),
                &[&format!("egret.affinity.policy={policy}")],
            )?;
            let executed = &measured.summary["components"]["sink"]["executed"];
            ensure!(*executed == count, "the sink executed {executed} of {count} tuples");
            Ok(measured)
        });
        let (few, many) = (few?, many?);
        let tuples = (long - short) as f64;
        let elapsed = |m: &egret_benches::run::Measured| m.summary["elapsed_s"].as_f64().unwrap_or(f64::NAN);
        println!(
            "  affinity {policy:<5} {:6.1} ns CPU per tuple, {:6.2} M tuples/s",
            (many.cpu_s - few.cpu_s) * 1e9 / tuples,
            tuples / (elapsed(&many) - elapsed(&few)) / 1e6
        );
    }
    Ok(())
}
