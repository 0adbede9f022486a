//! One topology for each case of the behaviour suite: `behaviours CASE FOLDER`, where the folder gets what the
//! components write down.

mod bolts;
mod in_place;
mod large;
mod spouts;
mod tuples;

use bolts::{
    CheckOrder, CountWords, EmitAtTick, Identity, Join, Moody, PassNumbers, Recording, SumCounts, Tally,
};
use egret::{Context, Result, TopologyBuilder};
use egret_tests::records::Recorder;
use in_place::{Locating, Marking};
use large::{CheckBytes, LargeSpout};
use spouts::{AwkwardKeys, Direct, OneThenSilence, Silent, UntilTold};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tuples::{Blob, Key, Keyed, Number, Pair, Word, WordCount};

const FEW: u64 = 10;

/// What a task of this context writes to.
fn recorder(folder: &Path, context: &Context) -> Result<Recorder> {
    Ok(Recorder::open(folder, context.component(), context.index(), context.task().0)?)
}

/// Writes a line.
fn note(record: &mut Option<Recorder>, line: impl std::fmt::Display) -> Result<()> {
    record.as_mut().map_or(Ok(()), |record| Ok(record.write(line)?))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [case, folder] = &arguments[..] else {
        eprintln!("usage: behaviours CASE FOLDER, run by `egret run behaviours -- CASE FOLDER`");
        return ExitCode::from(2);
    };
    let mut topology = TopologyBuilder::new(case.replace('_', "-"));
    let folder = PathBuf::from(folder);
    if !build(&mut topology, case, &folder) {
        eprintln!("there is no case `{case}`");
        return ExitCode::from(2);
    }
    egret::main(topology)
}

fn build(t: &mut TopologyBuilder, case: &str, folder: &Path) -> bool {
    match case {
        "basic_one_task" => basic_one_task(t, folder),
        "all_grouping" => all_grouping(t, folder),
        "fields_grouping" => fields_grouping(t, folder),
        "shuffle_grouping" => shuffle_grouping(t, folder),
        "one_spout_two_bolts" => one_spout_two_bolts(t, folder),
        "one_spout_multi_tasks" => one_spout_multi_tasks(t, folder),
        "multi_spouts_multi_tasks" => multi_spouts_multi_tasks(t, folder),
        "direct_grouping" => direct_grouping(t, folder),
        "custom_grouping" => custom_grouping(t, folder),
        "local_or_shuffle" => local_or_shuffle(t, folder),
        "partial_key" => partial_key(t, folder),
        "many_streams" => many_streams(t, folder),
        "multi_anchor" => multi_anchor(t, folder),
        "route_exact_shuffle" => route_exact_shuffle(t, folder),
        "route_exact_fields" => route_exact_fields(t, folder, 20_000),
        "route_exact_small" => route_exact_fields(t, folder, 2000),
        "order" => order(t, folder),
        "large_tuples" => large_tuples(t, folder),
        "one_then_silence" => one_then_silence(t, folder),
        "emit_at_tick" => emit_at_tick(t, folder),
        "awkward_keys" => awkward_keys(t, folder),
        "in_place" => in_place(t, folder),
        "until_told" => until_told(t, folder),
        "idle_16" => idle_16(t),
        "panicking" => panicking(t),
        "undeclared_stream" => undeclared_stream(t),
        "undeclared_field" => undeclared_field(t),
        _ => return false,
    }
    true
}

/// A factory of bolts that write down their inputs as `show` puts them.
fn recording(folder: &Path, show: fn(&egret::Input<'_>) -> Result<String>) -> impl Fn() -> Recording + use<> {
    let folder = folder.to_owned();
    move || Recording::new(folder.clone(), show)
}

fn basic_one_task(t: &mut TopologyBuilder, folder: &Path) {
    t.spout("words", 1, || spouts::numbered_words(FEW)).emits::<Word<'_>>();
    t.basic_bolt("identity", 2, || Identity).shuffle("words").emits::<Word<'_>>();
    t.basic_bolt("record", 1, recording(folder, bolts::word)).global("identity");
}

fn all_grouping(t: &mut TopologyBuilder, folder: &Path) {
    t.spout("words", 1, || spouts::numbered_words(FEW)).emits::<Word<'_>>();
    t.basic_bolt("record", 2, recording(folder, bolts::word)).all("words");
}

fn fields_grouping(t: &mut TopologyBuilder, folder: &Path) {
    t.spout("words", 1, || spouts::words(400)).emits::<Word<'_>>();
    t.basic_bolt("count", 2, CountWords::default).fields("words", ["word"]).emits::<WordCount<'_>>();
    let folder = folder.to_owned();
    t.basic_bolt("sum", 1, move || SumCounts { folder: folder.clone(), record: None, sum: 0 })
        .global("count");
}

fn shuffle_grouping(t: &mut TopologyBuilder, folder: &Path) {
    t.spout("words", 1, || spouts::numbered_words(FEW)).emits::<Word<'_>>();
    t.basic_bolt("record", 3, recording(folder, bolts::word)).shuffle("words");
}

fn one_spout_two_bolts(t: &mut TopologyBuilder, folder: &Path) {
    t.spout("words", 1, || spouts::numbered_words(FEW)).emits::<Word<'_>>();
    t.basic_bolt("first", 1, recording(folder, bolts::word)).shuffle("words");
    t.basic_bolt("second", 1, recording(folder, bolts::word)).shuffle("words");
}

fn one_spout_multi_tasks(t: &mut TopologyBuilder, folder: &Path) {
    t.spout("words", 3, || spouts::numbered_words(FEW)).emits::<Word<'_>>();
    t.basic_bolt("record", 1, recording(folder, bolts::word)).shuffle("words");
}

fn multi_spouts_multi_tasks(t: &mut TopologyBuilder, folder: &Path) {
    t.spout("words", 3, || spouts::numbered_words(FEW)).emits::<Word<'_>>();
    t.spout("more", 3, || spouts::numbered_words(FEW)).emits::<Word<'_>>();
    t.basic_bolt("record", 1, recording(folder, bolts::word)).shuffle("words").shuffle("more");
}

/// `other` is a bolt too, but does not read `numbers`: its task is no target.
fn direct_grouping(t: &mut TopologyBuilder, folder: &Path) {
    let of_spout = folder.to_owned();
    let direct = move || Direct {
        left: 0..30,
        bad: Vec::new(),
        readers: Vec::new(),
        folder: of_spout.clone(),
        record: None,
    };
    t.spout("numbers", 1, direct).emits::<Number>();
    t.basic_bolt("record", 3, recording(folder, bolts::number)).direct("numbers");
    t.spout("nothing", 1, || spouts::numbers(0)).emits::<Number>();
    t.basic_bolt("other", 1, recording(folder, bolts::number)).shuffle("nothing");
}

/// Even numbers to the tasks 0 and 2, odd ones to task 1, nothing to task 3.
fn custom_grouping(t: &mut TopologyBuilder, folder: &Path) {
    t.spout("numbers", 1, || spouts::numbers(100)).emits::<Number>();
    t.basic_bolt("record", 4, recording(folder, bolts::number)).custom("numbers", |targets| {
        match targets.field("n") {
            Some(egret::Value::U64(n)) if n % 2 == 1 => targets.choose(1),
            _ => {
                targets.choose(0);
                targets.choose(2);
            }
        }
    });
}

fn local_or_shuffle(t: &mut TopologyBuilder, folder: &Path) {
    t.spout("numbers", 3, || spouts::numbers(100)).emits::<Number>();
    t.basic_bolt("record", 3, recording(folder, bolts::source_task)).local_or_shuffle("numbers");
}

fn partial_key(t: &mut TopologyBuilder, folder: &Path) {
    t.spout("words", 1, || spouts::one_hot_word(10_000)).emits::<Word<'_>>();
    t.basic_bolt("record", 4, recording(folder, bolts::word)).partial_key("words", ["word"]);
}

fn many_streams(t: &mut TopologyBuilder, folder: &Path) {
    t.spout("source", 1, || spouts::on_three_streams(FEW))
        .emits_on::<Word<'_>>("words")
        .emits_on::<Number>("numbers")
        .emits_on::<Pair>("pairs");
    t.basic_bolt("word", 2, recording(folder, bolts::word)).shuffle_on("source", "words");
    t.basic_bolt("number", 2, recording(folder, bolts::number)).shuffle_on("source", "numbers");
    t.basic_bolt("pair", 2, recording(folder, bolts::pair)).shuffle_on("source", "pairs");
}

fn multi_anchor(t: &mut TopologyBuilder, folder: &Path) {
    t.spout("left", 1, || spouts::numbers(100)).emits::<Number>();
    t.spout("right", 1, || spouts::numbers(100)).emits::<Number>();
    t.bolt("join", 2, Join::default).fields("left", ["n"]).fields("right", ["n"]).emits::<Pair>();
    t.basic_bolt("record", 1, recording(folder, bolts::pair)).shuffle("join");
}

fn tally(folder: &Path) -> impl Fn() -> Tally + use<> {
    let folder = folder.to_owned();
    move || Tally { folder: folder.clone(), record: None, keys: BTreeMap::new() }
}

fn route_exact_shuffle(t: &mut TopologyBuilder, folder: &Path) {
    t.spout("keyed", 5, || spouts::keyed(20_000)).emits::<Keyed>();
    t.basic_bolt("tally", 10, tally(folder)).shuffle("keyed");
}

fn route_exact_fields(t: &mut TopologyBuilder, folder: &Path, count: u64) {
    t.spout("keyed", 5, move || spouts::keyed(count)).emits::<Keyed>();
    t.basic_bolt("tally", 10, tally(folder)).fields("keyed", ["key"]);
}

fn order(t: &mut TopologyBuilder, folder: &Path) {
    t.spout("numbers", 1, || spouts::numbers(1_000_000)).emits::<Number>();
    let folder = folder.to_owned();
    t.basic_bolt("check", 1, move || CheckOrder { folder: folder.clone(), record: None, expected: 0 })
        .shuffle("numbers");
}

fn large_tuples(t: &mut TopologyBuilder, folder: &Path) {
    let (of_spout, of_bolt) = (folder.to_owned(), folder.to_owned());
    t.spout("blobs", 1, move || LargeSpout { folder: of_spout.clone(), record: None, left: Vec::new() })
        .emits::<Blob<'_>>();
    t.basic_bolt("check", 1, move || CheckBytes { folder: of_bolt.clone(), record: None }).shuffle("blobs");
}

fn one_then_silence(t: &mut TopologyBuilder, folder: &Path) {
    t.spout("numbers", 1, OneThenSilence::default).emits::<Number>();
    t.basic_bolt("record", 1, recording(folder, bolts::number)).shuffle("numbers");
}

fn emit_at_tick(t: &mut TopologyBuilder, folder: &Path) {
    t.spout("numbers", 1, OneThenSilence::default).emits::<Number>();
    t.bolt("tick", 1, EmitAtTick::default).shuffle("numbers").emits::<Number>();
    t.basic_bolt("record", 1, recording(folder, bolts::number)).shuffle("tick");
}

fn awkward_keys(t: &mut TopologyBuilder, folder: &Path) {
    t.spout("keys", 1, AwkwardKeys::default)
        .emits_on::<Key<'_>>("text")
        .emits_on::<Key<'_>>("whole")
        .emits_on::<Key<'_>>("float");
    t.basic_bolt("record", 4, recording(folder, bolts::key_name))
        .fields_on("keys", "text", ["text"])
        .fields_on("keys", "whole", ["whole"])
        .fields_on("keys", "float", ["float"]);
}

fn in_place(t: &mut TopologyBuilder, folder: &Path) {
    let (of_spout, of_bolt) = (folder.to_owned(), folder.to_owned());
    t.spout("mark", 1, move || Marking { folder: of_spout.clone(), record: None, left: Vec::new() })
        .emits::<Blob<'_>>();
    t.basic_bolt("locate", 1, move || Locating { folder: of_bolt.clone(), record: None }).shuffle("mark");
}

/// Numbers flow until a file beside the folder says that it is enough.
fn until_told(t: &mut TopologyBuilder, folder: &Path) {
    let enough = folder.with_extension("enough");
    t.spout("numbers", 1, move || UntilTold::new(enough.clone())).emits::<Number>();
    t.basic_bolt("pass", 2, || PassNumbers).shuffle("numbers").emits::<Number>();
    t.basic_bolt("record", 1, recording(folder, bolts::number)).shuffle("pass");
}

/// Sixteen tasks, of which none has anything to do.
fn idle_16(t: &mut TopologyBuilder) {
    t.spout("silent", 4, || Silent).emits::<Number>();
    t.basic_bolt("pass", 8, || PassNumbers).shuffle("silent").emits::<Number>();
    t.basic_bolt("out", 4, || PassNumbers).shuffle("pass").emits::<Number>();
}

/// A bolt that panics at one of ten numbers.
fn panicking(t: &mut TopologyBuilder) {
    t.spout("numbers", 1, || spouts::numbers(FEW)).emits::<Number>();
    t.basic_bolt("moody", 1, || Moody).shuffle("numbers");
}

fn undeclared_stream(t: &mut TopologyBuilder) {
    t.spout("numbers", 1, || spouts::numbers(FEW)).emits::<Number>();
    t.basic_bolt("reader", 1, || PassNumbers).shuffle_on("numbers", "odd");
}

fn undeclared_field(t: &mut TopologyBuilder) {
    t.spout("numbers", 1, || spouts::numbers(FEW)).emits::<Number>();
    t.basic_bolt("reader", 1, || PassNumbers).fields("numbers", ["colour"]);
}
