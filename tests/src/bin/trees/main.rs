//! One topology for each case about tuple trees: `trees CASE FOLDER`, where the folder gets what the components write
//! down.

mod join;
mod judge;
mod leaf;
mod lines;
mod script;
mod slow;
mod spout;

use egret::components::{FileSink, Identity, Line};
use egret::{Context, Result, TopologyBuilder, Tuple};
use egret_tests::records::Recorder;
use join::Join;
use judge::{Fate, Judge};
use leaf::{FanOut, Leaf};
use lines::PacedLines;
use script::Script;
use slow::Slow;
use spout::Tracked;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What nearly all cases emit: a number, and when it was emitted.
#[derive(Tuple, Clone, Copy)]
pub(crate) struct Item {
    pub(crate) n: u64,
    pub(crate) at_us: u64,
}

/// What a task of this context writes to.
fn recorder(folder: &Path, context: &Context) -> Result<Recorder> {
    Ok(Recorder::open(folder, context.component(), context.index(), context.task().0)?)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [case, folder] = &arguments[..] else {
        eprintln!("usage: trees CASE FOLDER, run by `egret run trees -- CASE FOLDER`");
        return ExitCode::from(2);
    };
    let mut topology = TopologyBuilder::new(case.replace('_', "-"));
    if !build(&mut topology, case, Path::new(folder)) {
        eprintln!("there is no case `{case}`");
        return ExitCode::from(2);
    }
    egret::main(topology)
}

fn build(t: &mut TopologyBuilder, case: &str, folder: &Path) -> bool {
    t.config("topology.reliability.mode", "ATLEAST_ONCE");
    if case != "paced_lines" {
        t.config("topology.tick.tuple.freq.ms", 10);
    }
    match case {
        "ack_each_once" => ack_each_once(t, folder),
        "fan_out_tree" => fan_out_tree(t, folder),
        "fail_replays" => fail_replays(t, folder),
        "errors_fail" => errors_fail(t, folder),
        "timeout_replays" => timeout_replays(t, folder),
        "late_in_time" => late_in_time(t, folder),
        "late_fails" => late_fails(t, folder),
        "no_id_no_tracking" => no_id_no_tracking(t, folder),
        "max_spout_pending" => max_spout_pending(t, folder, 1),
        "max_spout_pending_in_bursts" => max_spout_pending(t, folder, 25),
        "multi_anchor" => multi_anchor(t, folder),
        "successor" => successor(t, folder),
        "unread" => unread(t, folder),
        "many_fails" => many_fails(t, folder),
        "notes_ids_late" => notes_ids_late(t, folder),
        "slow_sink" => slow_sink(t, folder),
        "paced_lines" => paced_lines(t, folder),
        _ => return false,
    }
    true
}

fn tracked(folder: &Path, script: Script) -> impl Fn() -> Tracked + use<> {
    let folder = folder.to_owned();
    move || Tracked::new(folder.clone(), script)
}

fn judge(folder: &Path, fate: fn(u64, u32) -> Fate) -> impl Fn() -> Judge + use<> {
    let folder = folder.to_owned();
    move || Judge::new(folder.clone(), fate)
}

/// Acks, fails and forgets, and says more than it should of some.
fn ack_each_once(t: &mut TopologyBuilder, folder: &Path) {
    let script = Script { count: 3000, per_call: 7, ..Script::default() };
    t.config("topology.message.timeout.secs", 2);
    t.spout("items", 2, tracked(folder, script)).emits::<Item>();
    t.bolt("pass", 2, || Identity).shuffle("items").emits::<Item>();
    t.bolt(
        "judge",
        2,
        judge(folder, |n, _| match n {
            n if n % 500 == 1 => Fate::Never,
            n if n % 7 == 0 => Fate::Fail,
            n if n % 11 == 2 => Fate::AckAndMore,
            n if n % 13 == 3 => Fate::FailAndMore,
            n if n % 17 == 4 => Fate::AckAfter(30_000),
            _ => Fate::Ack,
        }),
    )
    .shuffle("pass");
}

fn fan_out_tree(t: &mut TopologyBuilder, folder: &Path) {
    t.spout("items", 1, tracked(folder, Script { count: 20, ..Script::default() })).emits::<Item>();
    t.bolt("first", 2, || FanOut { into: 100 }).shuffle("items").emits::<Item>();
    t.bolt("second", 2, || FanOut { into: 100 }).shuffle("first").emits::<Item>();
    let folder = folder.to_owned();
    t.bolt("leaf", 3, move || Leaf::new(folder.clone())).shuffle("second");
}

fn fail_replays(t: &mut TopologyBuilder, folder: &Path) {
    let script = Script { count: 7000, per_call: 10, replays: true, ..Script::default() };
    t.spout("items", 1, tracked(folder, script)).emits::<Item>();
    let fate = |n, nth| if n % 7 == 3 && nth == 1 { Fate::Fail } else { Fate::Ack };
    t.bolt("judge", 2, judge(folder, fate)).fields("items", ["n"]);
}

/// User code gives errors and panics instead of saying `fail`.
fn errors_fail(t: &mut TopologyBuilder, folder: &Path) {
    let script = Script { count: 300, per_call: 10, replays: true, ..Script::default() };
    t.spout("items", 1, tracked(folder, script)).emits::<Item>();
    let fate = |n, nth| match (n % 50, nth) {
        (3, 1) => Fate::Error,
        (7, 1) => Fate::Panic,
        _ => Fate::Ack,
    };
    t.bolt("judge", 1, judge(folder, fate)).shuffle("items");
}

/// Of the tuples that are emitted over one timeout each fourth is forgotten, the first time.
fn timeout_replays(t: &mut TopologyBuilder, folder: &Path) {
    let script = Script { count: 40, every_us: 25_000, replays: true, ..Script::default() };
    t.config("topology.message.timeout.secs", 1);
    t.spout("items", 1, tracked(folder, script)).emits::<Item>();
    let fate = |n, nth| if n % 4 == 1 && nth == 1 { Fate::Never } else { Fate::Ack };
    t.bolt("judge", 1, judge(folder, fate)).shuffle("items");
}

/// T = 3 s. Trees emitted at 40 moments of it are acked after 0.70 T to 0.94 T, or never.
fn late_in_time(t: &mut TopologyBuilder, folder: &Path) {
    let script = Script { count: 40, every_us: 75_000, ..Script::default() };
    t.config("topology.message.timeout.secs", 3);
    t.spout("items", 1, tracked(folder, script)).emits::<Item>();
    let fate = |n: u64, _| match n {
        n if n % 8 == 7 => Fate::Never,
        n => Fate::AckAfter((70 + n % 7 * 4) * 30_000),
    };
    t.bolt("judge", 1, judge(folder, fate)).shuffle("items");
}

/// T = 3 s. The first 200 are kept until they have timed out and others are in flight, in the same slots. Then they are
/// failed, all at once; the others are acked.
fn late_fails(t: &mut TopologyBuilder, folder: &Path) {
    let script = Script { count: 2000, per_call: 8, every_us: 10_000, gates: &[200], ..Script::default() };
    t.config("topology.message.timeout.secs", 3);
    t.spout("items", 1, tracked(folder, script)).emits::<Item>();
    let fate = |n, _| if n < 200 { Fate::FailWith(399) } else { Fate::AckAfter(300_000) };
    t.bolt("judge", 1, judge(folder, fate)).shuffle("items");
}

/// Those without an id are acked, failed and forgotten in turn, and so is what is anchored on them.
fn no_id_no_tracking(t: &mut TopologyBuilder, folder: &Path) {
    let script = Script {
        count: 1000,
        per_call: 5,
        tracks: |n| n % 2 == 0,
        linger_us: 1_500_000,
        ..Script::default()
    };
    t.config("topology.message.timeout.secs", 1);
    t.spout("items", 1, tracked(folder, script)).emits::<Item>();
    t.bolt("pass", 1, || Identity).shuffle("items").emits::<Item>();
    let fate = |n, _| match n % 6 {
        1 => Fate::Ack,
        3 => Fate::Fail,
        5 => Fate::Never,
        _ => Fate::Ack,
    };
    t.bolt("judge", 1, judge(folder, fate)).shuffle("pass");
}

/// Everything is acked 20 ms late, so that all that may be in flight is.
fn max_spout_pending(t: &mut TopologyBuilder, folder: &Path, per_call: u64) {
    let script = Script { count: 400, per_call, ..Script::default() };
    t.config("topology.max.spout.pending", 10);
    t.spout("items", 1, tracked(folder, script)).emits::<Item>();
    t.bolt("judge", 1, judge(folder, |_, _| Fate::AckAfter(20_000))).shuffle("items");
}

/// Both trees of a pair fail the first time for each tenth pair, and time out for each 25th.
fn multi_anchor(t: &mut TopologyBuilder, folder: &Path) {
    let script = Script { count: 100, per_call: 3, replays: true, ..Script::default() };
    t.config("topology.message.timeout.secs", 3);
    t.spout("left", 1, tracked(folder, script)).emits::<Item>();
    t.spout("right", 1, tracked(folder, script)).emits::<Item>();
    t.bolt("join", 2, Join::default).fields("left", ["n"]).fields("right", ["n"]).emits::<Item>();
    let fate = |n, nth| match n {
        n if n % 10 == 3 && nth == 1 => Fate::Fail,
        n if n % 25 == 7 && nth == 1 => Fate::Never,
        _ => Fate::Ack,
    };
    t.bolt("judge", 1, judge(folder, fate)).shuffle("join");
}

/// Everything is acked 2 s late; the spout's process is killed meanwhile.
fn successor(t: &mut TopologyBuilder, folder: &Path) {
    t.spout("items", 1, tracked(folder, Script { count: 200, per_call: 10, ..Script::default() }))
        .emits::<Item>();
    t.bolt("judge", 1, judge(folder, |_, _| Fate::AckAfter(2_000_000))).shuffle("items");
}

/// Nobody reads what it emits.
fn unread(t: &mut TopologyBuilder, folder: &Path) {
    t.spout("items", 1, tracked(folder, Script { count: 100, per_call: 3, ..Script::default() }))
        .emits::<Item>();
    t.spout("others", 1, tracked(folder, Script { count: 1, ..Script::default() })).emits::<Item>();
    t.bolt("judge", 1, judge(folder, |_, _| Fate::Ack)).shuffle("others");
}

/// Stops at each gate until the test has looked.
fn many_fails(t: &mut TopologyBuilder, folder: &Path) {
    let script =
        Script { count: 500_000, per_call: 10, gates: &[100_000, 500_000], quiet: true, ..Script::default() };
    t.spout("items", 1, tracked(folder, script)).emits::<Item>();
    t.bolt("judge", 1, || Judge::forgetful(|_, _| Fate::Fail)).shuffle("items");
}

fn notes_ids_late(t: &mut TopologyBuilder, folder: &Path) {
    let script = Script { count: 50_000, per_call: 3, quiet: true, ..Script::default() };
    t.spout("items", 1, tracked(folder, script)).emits::<Item>();
    t.bolt("judge", 1, || Judge::forgetful(|_, _| Fate::Ack)).shuffle("items");
}

/// As many tuples as the sink takes a minute for, as fast as they go out; T = 2 s.
fn slow_sink(t: &mut TopologyBuilder, folder: &Path) {
    let script = Script { count: 60_000, per_call: 10, replays: true, quiet: true, ..Script::default() };
    t.config("topology.message.timeout.secs", 2);
    t.spout("items", 1, tracked(folder, script)).emits::<Item>();
    let folder = folder.to_owned();
    t.bolt("slow", 1, move || Slow::new(folder.clone())).shuffle("items");
}

/// `file-lines` → `identity` → `file-sink`, from `FOLDER/input` to `FOLDER/output`; [`PacedLines`] says how fast.
fn paced_lines(t: &mut TopologyBuilder, folder: &Path) {
    let (from, output): (PathBuf, PathBuf) = (folder.to_owned(), folder.join("output"));
    t.spout("lines", 1, move || PacedLines::new(&from)).emits::<Line<'_>>();
    t.bolt("pass", 2, || Identity).shuffle("lines").emits::<Line<'_>>();
    t.bolt("out", 1, move || FileSink::new(&output)).shuffle("pass");
}
