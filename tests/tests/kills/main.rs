//! Kills under load: `file-lines` → `identity` → `file-sink` over three containers, at half of its full rate. At random
//! moments instances, stmgrs and whole containers are killed with SIGKILL, some of them while the topology has not
//! recovered from the kill before. Nobody does anything about it, and every line arrives.
//!
//! `EGRET_TEST_SEED` repeats the choice of moments and victims; what a process does then is up to the machine.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod evidence;
mod load;
mod output;
mod recovery;
mod victims;

use egret_tests::random::Random;
use egret_tests::{Cluster, cluster, try_for};
use evidence::Evidence;
use load::Load;
use recovery::Recoveries;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use victims::{Victim, victims};

const KILLS_OF_A_RUN: usize = 30;
const KILLS_OF_A_SUBMITTED: usize = 10;
/// The longest time in which the data may not flow: for whoever reads this in despair, not a promise.
const PATIENCE: Duration = Duration::from_secs(90);
/// While data flows, the next kill comes within this.
const CALM: Duration = Duration::from_secs(1);
/// And a second one, if there is one, within this.
const SECOND: Duration = Duration::from_secs(3);
const SECOND_AFTER: Duration = Duration::from_millis(150);

/// One at a time: the rates and times are those of a topology that has the machine to itself.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn a_run_loses_nothing_by_kills() {
    let _alone = ALONE.lock();
    let (cluster, mut random) = begin();
    let load = Load::measured(&cluster, KILLS_OF_A_RUN);
    let run = cluster.egret(["run", "--json"]).args(load.arguments()).spawn();
    let evidence = kill_under_load(&cluster, &load, &mut random, KILLS_OF_A_RUN, || {
        assert!(!run.has_ended(), "the run has ended:\n{}", run.stderr());
    });
    load.go_on_freely();
    let stderr = run.stderr();
    assert!(stderr.matches(" has died").count() >= evidence.containers(), "of each container:\n{stderr}");
    let summary = run.finish_within(PATIENCE).expect(0).json();
    assert_eq!(summary["state"], "completed", "{summary}");
    println!("spouts: {}", summary["spouts"]);
    load.assert_all_arrived(evidence.kills());
    cluster.wait_until_clean(false);
}

#[test]
fn a_submitted_topology_loses_nothing_by_kills() {
    let _alone = ALONE.lock();
    let (cluster, mut random) = begin();
    let load = Load::measured(&cluster, KILLS_OF_A_SUBMITTED);
    let _ = cluster.egret(["submit"]).args(load.arguments()).run().expect(0);
    let evidence = kill_under_load(&cluster, &load, &mut random, KILLS_OF_A_SUBMITTED, || ());
    load.go_on_freely();
    let last = try_for(PATIENCE, || evidence::final_status(&cluster));
    let last = last.unwrap_or_else(|| panic!("it has not ended; status: {:?}", cluster.status(load::NAME)));
    assert_eq!(last["state"], "completed", "{last}");
    println!("spouts: {}", last["spouts"]);
    load.assert_all_arrived(evidence.kills());
    cluster.wait_until_clean(true);
}

fn begin() -> (Cluster, Random) {
    let seed = Random::seed();
    println!("EGRET_TEST_SEED={seed} repeats these kills");
    (cluster!(), Random::new(seed))
}

/// Kills so many times. Each first kill waits until data flows again after the ones before; half of them are followed by
/// a second one soon.
fn kill_under_load(
    cluster: &Cluster,
    load: &Load,
    random: &mut Random,
    kills: usize,
    alive: impl Fn(),
) -> Evidence {
    let mut output = load.output();
    let mut recoveries = Recoveries::default();
    let mut evidence = Evidence::default();
    let begun = Instant::now();
    while evidence.kills() < kills {
        let target = output.newest() + load.lines_in(Duration::from_millis(50));
        let flows = output.wait_for(target, PATIENCE, &alive);
        assert!(flows, "no data flows {PATIENCE:?} after {:?}; {output:?}", evidence.last());
        output.watch_for(part_of(CALM, random), &alive);
        assert!(!load.is_over(&output), "the input was too short for {kills} kills");
        recoveries.kill(kill_one(cluster, random, &mut evidence, begun), &output, load);
        if random.below(2) == 0 && evidence.kills() < kills {
            let pause = SECOND_AFTER + part_of(SECOND - SECOND_AFTER, random);
            recoveries.observe(&mut output, pause, &alive);
            recoveries.disturbed();
            kill_one(cluster, random, &mut evidence, begun);
        }
        recoveries.observe_until_recovered(&mut output, PATIENCE, &alive);
    }
    evidence.assert_told(cluster);
    recoveries.print();
    evidence
}

fn part_of(time: Duration, random: &mut Random) -> Duration {
    time.mul_f64(random.below(1000) as f64 / 1000.0)
}

fn kill_one(cluster: &Cluster, random: &mut Random, evidence: &mut Evidence, begun: Instant) -> Victim {
    let victim = victims(cluster, random);
    victim.kill(random);
    println!("{:7.2} s: killed {victim}", begun.elapsed().as_secs_f64());
    evidence.killed(victim.clone());
    victim
}
