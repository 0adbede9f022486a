//! The builder: it describes what was wired, and refuses what the validator refuses (BR-028).

use crate::kit::{Ignore, Nothing, Word, one_reader};
use egret::topology::Metrics;
use egret::{Blueprint, Context, TaskId, TopologyBuilder, Tuple};
use egret_dataplane::plan::{Grouping, Problem, Subject};
use std::sync::Arc;

fn problems(wire: impl FnOnce(&mut TopologyBuilder)) -> Vec<Problem> {
    let mut t = TopologyBuilder::new("wrong");
    t.spout("source", 1, || Nothing).emits::<Word>();
    wire(&mut t);
    t.build().map(drop).unwrap_err()
}

fn only(wire: impl FnOnce(&mut TopologyBuilder)) -> String {
    let found = problems(wire);
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].message.clone()
}

/// BR-028: the library finds an undeclared stream, component or field as the command line does, in its words.
#[test]
fn undeclared_names_are_refused() {
    let message = only(|t| {
        t.basic_bolt("sink", 1, || Ignore).shuffle_on("source", "words");
    });
    assert_eq!(message, "bolt `sink` reads stream `words` of `source`, which declares `default`");
    let message = only(|t| {
        t.basic_bolt("sink", 1, || Ignore).shuffle("sourse");
    });
    assert_eq!(message, "bolt `sink` reads component `sourse`, which does not exist; did you mean `source`?");
    let message = only(|t| {
        t.basic_bolt("sink", 1, || Ignore).fields("source", ["words"]);
    });
    assert_eq!(
        message,
        "bolt `sink` groups stream `default` of `source` by field `words`, but the stream declares `word`, `n`"
    );
}

/// Hazard 2: a grouping without fields does not send everything to one task.
#[test]
fn a_grouping_without_fields_is_refused() {
    let message = only(|t| {
        t.basic_bolt("sink", 1, || Ignore).fields("source", [""; 0]);
    });
    assert_eq!(message, "the grouping of `sink` on `source` names no field");
}

#[test]
fn what_the_library_finds_is_what_the_validator_finds() {
    let mut t = TopologyBuilder::new("no good name");
    t.spout("a", 0, || Nothing);
    t.basic_bolt("b", 1, || Ignore).shuffle("c").emits::<Word>();
    t.basic_bolt("c", 1, || Ignore).shuffle("b").emits::<Word>();
    t.basic_bolt("c", 1, || Ignore);
    let found = t.build().map(drop).unwrap_err();
    let mut topology = one_reader(1, |b| b.shuffle("source")).topology().clone();
    topology.name = "no good name".to_owned();
    let by_validator = topology.validate();
    assert!(by_validator.iter().all(|p| found.contains(p)), "{found:?}");
    assert!(found.len() >= 5, "{found:?}");
}

#[test]
fn a_bad_setting_is_refused() {
    let message = only(|t| {
        t.config("topology.containers", "many");
        t.basic_bolt("sink", 1, || Ignore).shuffle("source");
    });
    assert_eq!(message, "`topology.containers` is `many`, but must be a whole number from 0 to 10000");
    let found = problems(|t| {
        t.config("topology.container", 2);
        t.basic_bolt("sink", 0, || Ignore).shuffle("source");
    });
    assert_eq!((found.len(), &found[0].subject), (2, &Subject::Topology));
}

#[test]
fn a_blueprint_describes_what_was_wired() {
    let mut t = TopologyBuilder::new("wired");
    t.config("user.city", "Salzburg").config("topology.component.ram", "64MiB");
    t.spout("source", 2, || Nothing).emits::<Word>().ram_bytes(1 << 30).cpu_millis(500).disk_bytes(7);
    t.basic_bolt("sink", 3, || Ignore).partial_key("source", ["word"]).emits_on::<Word>("again");
    let blueprint = t.build().unwrap();
    let [source, sink] = &blueprint.topology().components[..] else { panic!("two components") };
    assert_eq!((source.resources.ram_bytes, source.resources.cpu_millis), (1 << 30, 500));
    assert_eq!((sink.resources.ram_bytes, sink.resources.cpu_millis), (64 << 20, 100));
    assert_eq!(source.outputs[0].schema, Word::schema());
    assert_eq!(sink.outputs[0].name, "again");
    assert_eq!(sink.inputs[0].grouping, Grouping::PartialKey(vec!["word".to_owned()]));
    assert!(sink.kind.ends_with("Ignore"), "{}", sink.kind);
    assert!(blueprint.factory(TaskId(5)).is_some() && blueprint.factory(TaskId(6)).is_none());
}

#[test]
fn a_context_knows_its_task() {
    let mut t = TopologyBuilder::new("context");
    t.config("user.city", "Salzburg");
    t.spout("source", 2, || Nothing).emits::<Word>();
    t.basic_bolt("sink", 3, || Ignore).shuffle("source");
    let blueprint: Blueprint = t.build().unwrap();
    let topology = Arc::new(blueprint.topology().clone());
    let metrics = Metrics::default();
    let context = Context::new(topology.clone(), TaskId(4), metrics.clone()).unwrap();
    assert_eq!((context.component(), context.index(), context.parallelism()), ("sink", 1, 3));
    assert!(context.tasks("sink").eq([3, 4, 5].map(TaskId)));
    assert_eq!(context.tasks("nobody").count(), 0);
    assert_eq!((context.user_config("city"), context.user_config("country")), (Some("Salzburg"), None));
    context.counter("seen").add(3);
    assert_eq!(metrics.snapshot(), [("seen".to_owned(), 3)]);
    assert!(Context::new(topology, TaskId(6), metrics).is_none());
}
