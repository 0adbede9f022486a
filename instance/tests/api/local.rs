//! Whole topologies on a simulated host.

use egret::components::{self, NumberAndPayload, Sequence, Sleep};
use egret::local::{Collected, LocalCluster};
use egret::{BasicBolt, BasicCollector, Context, Input, Next, Spout, SpoutCollector, TopologyBuilder, Tuple};
use egret_dataplane::host;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Tuple)]
pub(crate) struct Number {
    pub(crate) n: u64,
}

/// The numbers below `count`, each its own id; failed ones again.
pub(crate) struct Numbers {
    count: u64,
    next: u64,
    again: VecDeque<u64>,
}

impl Numbers {
    pub(crate) fn new(count: u64) -> Self {
        Self { count, next: 0, again: VecDeque::new() }
    }
}

impl Spout for Numbers {
    type Id = u64;

    fn open(&mut self, context: &Context) -> egret::Result<()> {
        assert!(context.incarnation().0 >= 1);
        Ok(())
    }

    fn next_tuple(&mut self, out: &mut SpoutCollector<u64>) -> egret::Result<Next> {
        let n = match self.again.pop_front() {
            Some(n) => n,
            None if self.next < self.count => {
                self.next += 1;
                self.next - 1
            }
            None => return Ok(Next::Exhausted),
        };
        out.emit(&Number { n }).id(n)?;
        Ok(Next::Emitted)
    }

    fn fail(&mut self, id: u64) {
        self.again.push_back(id);
    }
}

struct Pass;

impl BasicBolt for Pass {
    fn execute(&mut self, input: &Input<'_>, out: &mut BasicCollector<'_>) -> egret::Result<()> {
        out.emit(&Number { n: input.get::<Number>()?.n })
    }
}

fn topology(count: u64, mode: &str, collected: &Collected) -> TopologyBuilder {
    let mut t = TopologyBuilder::new("numbers");
    t.config("topology.containers", 3).config("topology.reliability.mode", mode);
    t.spout("numbers", 2, move || Numbers::new(count)).emits::<Number>();
    t.basic_bolt("pass", 3, || Pass).shuffle("numbers").emits::<Number>();
    t.basic_bolt("out", 1, collected.sink()).global("pass");
    t
}

/// How long a topology runs whose spout has a hundred slow tasks below it.
fn time_of_a_hundred_slow_tasks(blocks: Option<u32>) -> Duration {
    let mut t = TopologyBuilder::new("wide");
    if let Some(blocks) = blocks {
        t.config("egret.pool.task.blocks", blocks);
    }
    t.spout("numbers", 1, || Sequence::new().count(20_000)).emits::<components::Number>();
    t.bolt("slow", 100, || Sleep::new(Duration::from_millis(10)))
        .shuffle("numbers")
        .emits::<components::Number>();
    let mut cluster = LocalCluster::new(t, 1).unwrap();
    cluster.run_until_complete().unwrap();
    cluster.now()
}

/// Each task of a bolt has something to do, also where there are more of them than blocks by default.
#[test]
fn a_spout_has_blocks_for_all_tasks_that_it_emits_to() {
    let [few, right] = [Some(32), None].map(time_of_a_hundred_slow_tasks);
    assert!(right < Duration::from_millis(2500), "{right:?} for two seconds of sleep");
    assert!(few > Duration::from_secs(5), "{few:?} with a block for each third one");
}

/// Ten numbers at once, and then nothing for three seconds within one call.
struct Busy {
    calls: u64,
}

impl Spout for Busy {
    type Id = u64;

    fn next_tuple(&mut self, out: &mut SpoutCollector<u64>) -> egret::Result<Next> {
        self.calls += 1;
        match self.calls {
            1 => (0..10).try_for_each(|n| out.emit(&Number { n }).id(n))?,
            2 => return Ok(Next::Wait(Duration::from_millis(50))),
            3 => host::sleep(Duration::from_secs(3)),
            _ => return Ok(Next::Exhausted),
        }
        Ok(Next::Emitted)
    }
}

#[test]
fn trees_whose_acks_wait_for_a_busy_spout_do_not_time_out() {
    let collected = Collected::new();
    let mut t = TopologyBuilder::new("busy");
    t.config("topology.reliability.mode", "ATLEAST_ONCE").config("topology.message.timeout.secs", 1);
    t.spout("numbers", 1, || Busy { calls: 0 }).emits::<Number>();
    t.basic_bolt("out", 1, collected.sink()).shuffle("numbers");
    let mut cluster = LocalCluster::new(t, 1).unwrap();
    cluster.run_until_complete().unwrap();
    let numbers = cluster.counted("numbers");
    assert_eq!((numbers.acked, numbers.failed, numbers.timed_out), (10, 0, 0));
}

/// One number, and then nothing for longer than there is time.
struct Once {
    done: bool,
}

impl Spout for Once {
    type Id = ();

    fn next_tuple(&mut self, out: &mut SpoutCollector<()>) -> egret::Result<Next> {
        if !std::mem::replace(&mut self.done, true) {
            out.emit(&Number { n: 1 }).untracked()?;
        }
        Ok(Next::Wait(Duration::MAX))
    }
}

#[test]
fn a_spout_may_wait_for_ever() {
    let collected = Collected::new();
    let mut t = TopologyBuilder::new("once");
    t.spout("numbers", 1, || Once { done: false }).emits::<Number>();
    t.basic_bolt("out", 1, collected.sink()).shuffle("numbers");
    let mut cluster = LocalCluster::new(t, 1).unwrap();
    cluster.run_for(Duration::from_secs(5));
    assert_eq!((cluster.counted("numbers").emitted, collected.sorted().len()), (1, 1));
    cluster.drain();
    cluster.run_until_complete().unwrap();
}

/// A bolt that takes 10 ms for each tuple and counts its ticks.
struct Ticking {
    ticks: Arc<AtomicU64>,
}

impl BasicBolt for Ticking {
    fn execute(&mut self, _: &Input<'_>, _: &mut BasicCollector<'_>) -> egret::Result<()> {
        host::sleep(Duration::from_millis(10));
        Ok(())
    }

    fn tick(&mut self, _: &mut BasicCollector<'_>) -> egret::Result<()> {
        self.ticks.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// 200 tuples, all in one block, take two seconds.
#[test]
fn ticks_come_in_the_middle_of_a_block() {
    let ticks = Arc::new(AtomicU64::new(0));
    let mut t = TopologyBuilder::new("ticks");
    t.config("topology.tick.tuple.freq.ms", 50);
    t.spout("numbers", 1, || Sequence::new().count(200)).emits::<components::Number>();
    let counted = ticks.clone();
    t.basic_bolt("slow", 1, move || Ticking { ticks: counted.clone() }).shuffle("numbers");
    LocalCluster::new(t, 1).unwrap().run_until_complete().unwrap();
    assert!((30..=41).contains(&ticks.load(Ordering::Relaxed)), "{ticks:?} ticks of 50 ms in two seconds");
}

/// A bolt that cannot be made.
#[test]
fn a_panic_of_a_constructor_is_reported() {
    let mut t = TopologyBuilder::new("unmade");
    t.spout("numbers", 1, || Sequence::new().count(1)).emits::<components::Number>();
    t.basic_bolt("out", 1, || -> Pass { panic!("no key") }).shuffle("numbers");
    let mut cluster = LocalCluster::new(t, 1).unwrap();
    cluster.run_for(Duration::from_secs(1));
    let reports = cluster.reports();
    assert!(reports.iter().any(|report| report.contains("no key")), "{reports:?}");
}

/// Four spouts emit 400 tuples a second, each in a larger block of its own, and sometimes two at a time to the same one of
/// eight tasks, which take 5 ms.
#[test]
fn nothing_is_dropped_of_a_bolt_that_keeps_up_with_large_tuples() {
    for seed in 0..5 {
        let mut t = TopologyBuilder::new("large");
        t.config("topology.droptuples.upon.backpressure", "true");
        let numbers = || Sequence::new().count(800).rate(400.0).bytes(20_000);
        t.spout("numbers", 4, numbers).emits::<NumberAndPayload<'_>>();
        t.bolt("slow", 8, || Sleep::new(Duration::from_millis(5)))
            .shuffle("numbers")
            .emits::<NumberAndPayload<'_>>();
        let mut cluster = LocalCluster::new(t, seed).unwrap();
        cluster.run_until_complete().unwrap();
        assert_eq!(cluster.counted("slow").executed, 800, "seed {seed}");
    }
}

pub(crate) fn distinct(collected: &Collected) -> usize {
    let mut rows = collected.sorted();
    rows.dedup();
    rows.len()
}

#[test]
fn a_topology_over_three_containers_completes_and_counts() {
    for mode in ["ATMOST_ONCE", "ATLEAST_ONCE"] {
        let collected = Collected::new();
        let mut cluster = LocalCluster::new(topology(3000, mode, &collected), 1).unwrap();
        cluster.run_until_complete().unwrap();
        assert_eq!((collected.rows().len(), distinct(&collected)), (6000, 3000), "{mode}");
        assert_eq!(cluster.counted("pass").executed, 6000);
        assert_eq!(cluster.counted("numbers").acked, 6000);
        assert!(cluster.reports().is_empty(), "{:?}", cluster.reports());
    }
}

#[test]
fn a_run_repeats_with_its_seed() {
    let run = |seed| {
        let collected = Collected::new();
        let mut cluster = LocalCluster::new(topology(500, "ATLEAST_ONCE", &collected), seed).unwrap();
        cluster.set_delay(Duration::from_micros(10), Duration::from_millis(20));
        cluster.run_for(Duration::from_millis(15));
        cluster.kill_task("pass", 1);
        cluster.reset_connection();
        cluster.run_until_complete().unwrap();
        (cluster.trace(), cluster.now(), collected.rows())
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5).0, run(6).0);
}

#[test]
fn acks_make_up_for_what_is_killed_and_broken() {
    for seed in 0..20 {
        let collected = Collected::new();
        let mut cluster = LocalCluster::new(topology(2000, "ATLEAST_ONCE", &collected), seed).unwrap();
        cluster.run_for(Duration::from_millis(5 + seed));
        cluster.kill_task("pass", (seed % 3) as u32);
        cluster.run_for(Duration::from_millis(200));
        cluster.reset_connection();
        cluster.run_for(Duration::from_millis(300));
        cluster.kill_container(1 + (seed % 3) as u32);
        cluster.run_until_complete().unwrap();
        assert_eq!(distinct(&collected), 2000, "seed {seed}");
    }
}

#[test]
fn an_error_of_user_code_is_reported_with_its_component() {
    struct Picky;
    impl BasicBolt for Picky {
        fn execute(&mut self, input: &Input<'_>, _: &mut BasicCollector<'_>) -> egret::Result<()> {
            assert!(input.get::<Number>()?.n != 3, "it is a three");
            Ok(())
        }
    }
    let mut t = TopologyBuilder::new("picky");
    t.spout("numbers", 1, || Numbers::new(5)).emits::<Number>();
    t.basic_bolt("picky", 1, || Picky).shuffle("numbers");
    let mut cluster = LocalCluster::new(t, 1).unwrap();
    cluster.run_until_complete().unwrap();
    let reports = cluster.reports();
    assert!(
        matches!(&reports[..], [report] if report.starts_with("picky (task 2)") && report.contains("it is a three")),
        "{reports:?}"
    );
    assert_eq!(cluster.counted("picky").failed, 1);
}

#[test]
fn an_endless_topology_does_not_complete_until_it_is_drained() {
    let collected = Collected::new();
    let mut cluster = LocalCluster::new(topology(u64::MAX, "ATLEAST_ONCE", &collected), 3).unwrap();
    assert!(!cluster.run_for(Duration::from_millis(5)));
    cluster.drain();
    cluster.run_until_complete().unwrap();
    assert_eq!(cluster.counted("numbers").acked, collected.rows().len() as u64);
}

#[test]
fn what_is_invalid_is_said_as_the_command_line_says_it() {
    let mut t = TopologyBuilder::new("invalid");
    t.basic_bolt("pass", 1, || Pass).shuffle("nobody").emits::<Number>();
    let problems = LocalCluster::new(t, 1).err().unwrap();
    assert!(problems.iter().any(|problem| problem.to_string().contains("nobody")), "{problems:?}");
}
