//! `idle`: 16 instances that have nothing to do.

use super::Bench;
use crate::program::{Load, Spec};
use crate::report::{Better, Kind, Measurement};
use anyhow::Result;
use std::time::Duration;

pub(super) const HELP: &str = "16 instances without a tuple, in 4 containers";

/// Four spouts, which are asked for tuples again and again, and the bolts that read them.
const SOURCES: u32 = 4;
const INSTANCES: u32 = 16;
const CONTAINERS: u32 = 4;
/// All of them; `egret run`; the executors, of container 0 as well; the tmaster; the stmgrs.
const PROCESSES: usize = (INSTANCES + 1 + (CONTAINERS + 1) + 1 + CONTAINERS) as usize;
/// How long after the last of them has started they are still busy with that.
const SETTLES: Duration = Duration::from_secs(2);

pub(super) fn run(bench: &Bench<'_>) -> Result<Vec<Measurement>> {
    let window = Duration::from_secs(if bench.quick { 2 } else { 10 });
    let spec = Spec {
        sources: SOURCES,
        sinks: INSTANCES - SOURCES,
        // It must last until the window is over, also where starting takes its time.
        load: Load::Idle((window + SETTLES).as_secs_f64() + 10.0),
        ..Spec::row("idle", 0, 16)
    };
    let containers = format!("topology.containers={CONTAINERS}");
    let share = || bench.runner.idle_share(&spec, &[&containers], PROCESSES, SETTLES, window);
    let shares = (0..bench.runs).map(|_| Ok(share()? * 100.0)).collect::<Result<Vec<_>>>()?;
    let measured =
        Measurement::new("idle", "16 instances, all processes", "% of a core", Better::Lower, shares);
    Ok(vec![measured.against(Kind::Floor, "1 %", vec![1.0; bench.runs], Some(1.0))])
}
