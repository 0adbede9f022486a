//! What is lost with a process or a connection fails at once: a topology whose trees may take an hour completes long before,
//! and none times out. On a simulated host, so each of these runs repeats exactly.

use crate::local::{Number, Numbers, distinct};
use egret::local::{Collected, LocalCluster};
use egret::{Bolt, BoltCollector, Held, Input, TopologyBuilder};
use egret_dataplane::host;
use std::time::Duration;

const COUNT: u64 = 400;
/// What the bolt in the middle takes for each tuple: so much that it always has the next one at hand.
const TAKES: Duration = Duration::from_micros(100);

/// Passes on what it gets, and keeps so many inputs before it acks them, but none while it has nothing to do.
struct Keeper {
    keeps: usize,
    kept: Vec<Held>,
}

impl Keeper {
    fn ack_all(&mut self, out: &mut BoltCollector) -> egret::Result<()> {
        self.kept.drain(..).try_for_each(|input| out.ack(&input))
    }
}

impl Bolt for Keeper {
    fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> egret::Result<()> {
        host::sleep(TAKES);
        out.emit(&Number { n: input.get::<Number>()?.n }).anchor(input)?;
        if self.keeps == 0 {
            return out.ack(input);
        }
        self.kept.push(input.hold());
        if self.kept.len() > self.keeps { self.ack_all(out) } else { Ok(()) }
    }

    fn idle(&mut self, out: &mut BoltCollector) -> egret::Result<()> {
        self.ack_all(out)
    }
}

/// Spouts in all three containers, `keeper` in 2, `out` in 3.
fn cluster(keeps: usize, flush_ms: u64, seed: u64) -> (LocalCluster, Collected) {
    let collected = Collected::new();
    let mut t = TopologyBuilder::new("losses");
    t.config("topology.containers", 3)
        .config("topology.reliability.mode", "ATLEAST_ONCE")
        .config("topology.message.timeout.secs", 3600)
        .config("topology.max.spout.pending", 200)
        .config("egret.flush.interval.ms", flush_ms);
    t.spout("numbers", 4, || Numbers::new(COUNT)).emits::<Number>();
    t.bolt("keeper", 1, move || Keeper { keeps, kept: Vec::new() }).shuffle("numbers").emits::<Number>();
    t.basic_bolt("out", 1, collected.sink()).shuffle("keeper");
    (LocalCluster::new(t, seed).unwrap(), collected)
}

/// Lets `strike` hit at a hundred moments, each in a run of its own, and says how many trees failed in all.
fn strike_at_any_time(keeps: usize, flush_ms: u64, strike: impl Fn(&mut LocalCluster)) -> u64 {
    let one = |seed: u64| {
        let (mut cluster, collected) = cluster(keeps, flush_ms, seed);
        cluster.run_for(Duration::from_micros(20_000 + 700 * seed));
        strike(&mut cluster);
        cluster.run_until_complete().unwrap();
        let numbers = cluster.counted("numbers");
        assert_eq!(numbers.timed_out, 0, "struck at moment {seed}");
        assert_eq!(distinct(&collected) as u64, COUNT);
        numbers.failed
    };
    (0..100).map(one).sum()
}

fn kill_keeper(cluster: &mut LocalCluster) {
    cluster.kill_task("keeper", 0);
}

#[test]
fn inputs_that_a_bolt_kept_fail_with_it() {
    assert!(strike_at_any_time(50, 1, kill_keeper) > 0);
}

#[test]
fn emissions_in_open_blocks_fail_with_their_bolt_though_it_had_acked() {
    assert!(strike_at_any_time(0, 60_000, kill_keeper) > 0);
}

#[test]
fn what_was_on_a_broken_link_fails_wherever_its_spout_is() {
    let failed = strike_at_any_time(0, 1, |cluster| {
        (0..3).for_each(|_| {
            cluster.reset_connection();
        });
    });
    assert!(failed > 0);
}
