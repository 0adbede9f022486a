//! Every kind of invalid topology with its exact line. A comment `#! TEXT` in a document expects a problem in its line
//! whose message contains TEXT (several: separated by `#!`); no other line may have one.

use super::*;
use crate::components::Args;
use egret_dataplane::plan::{Config, FieldKind, Grouping, Program, config};
use std::fs;

const GOOD: &str = include_str!("../../examples/word-count.yaml");

fn load_text(text: &str, overrides: &[(&str, &str)]) -> Result<Topology, YamlErrors> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.yaml");
    fs::write(&path, text).unwrap();
    let overrides: Vec<_> = overrides.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    load(&path, &overrides)
}

#[track_caller]
fn check(text: &str) {
    let expected = text.lines().enumerate().flat_map(|(i, line)| {
        line.split("#!").skip(1).map(move |fragment| (i + 1, fragment.trim().to_owned()))
    });
    let mut expected: Vec<_> = expected.collect();
    assert!(!expected.is_empty(), "the document marks no line");
    let errors = load_text(text, &[]).expect_err("an invalid topology was accepted");
    for problem in &errors.problems {
        let found =
            expected.iter().position(|(line, part)| *line == problem.line && problem.message.contains(part));
        let Some(found) = found else {
            panic!("unexpected problem:\n{problem}\nstill expected: {expected:?}")
        };
        expected.remove(found);
    }
    assert!(expected.is_empty(), "missing problems: {expected:?}\nfound: {errors}");
}

/// A valid topology around one bolt, whose lines from `bolt` replace it.
fn with_bolt(bolt: &str) -> String {
    format!(
        "name: t\nspouts:\n  - {{id: s, type: sequence}}\nbolts:\n{bolt}\nstreams:\n  - {{from: s, to: b, grouping: {{type: SHUFFLE}}}}\n"
    )
}

fn with_grouping(grouping: &str) -> String {
    format!(
        "name: t\nspouts:\n  - {{id: s, type: sequence}}\nbolts:\n  - {{id: b, type: null-sink}}\nstreams:\n  - from: s\n    to: b\n{grouping}\n"
    )
}

#[test]
fn the_example_is_read() {
    let topology = load_text(GOOD, &[("topology.containers", "3")]).unwrap();
    assert_eq!(topology.name, "word-count");
    assert_eq!(topology.program, Program::Builtin);
    assert_eq!(topology.config.number(config::CONTAINERS), 3);
    let ids: Vec<_> = topology.components.iter().map(|c| c.id.as_str()).collect();
    assert_eq!(ids, ["lines", "split", "count", "top", "out"]);
    let count = &topology.components[2];
    assert_eq!(count.inputs[0].grouping, Grouping::Fields(vec!["word".to_owned()]));
    let fields: Vec<_> = count.outputs[0].schema.fields.iter().map(|f| (f.name.as_str(), f.kind)).collect();
    assert_eq!(fields, [("word", FieldKind::Str), ("count", FieldKind::U64)]);
    assert_eq!(topology.components[3].outputs, count.outputs);
    assert_eq!(count.resources.ram_bytes, Config::default().number(config::COMPONENT_RAM));
}

#[test]
fn paths_are_relative_to_the_file() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    let path = folder.path().join("sub/t.yaml");
    let text = "name: t\nspouts: [{id: l, type: file-lines, args: {path: [a.txt, ../b.txt, /c.txt, \"-\"]}}]\n\
                bolts: [{id: f, type: file-sink, args: {path: out}}]\n\
                streams: [{from: l, to: f, grouping: {type: GLOBAL}}]\n";
    fs::write(&path, text).unwrap();
    let topology = load(&path, &[]).unwrap();
    let root = folder.path().canonicalize().unwrap();
    let at = |rest: &str| root.join(rest).to_str().unwrap().to_owned();
    let args = Args::from_json(&topology.components[0].args).unwrap();
    assert_eq!(args.texts("path"), [&at("sub/a.txt"), &at("b.txt"), "/c.txt", "-"]);
    let args = Args::from_json(&topology.components[1].args).unwrap();
    assert_eq!(args.text("path"), Some(at("sub/out").as_str()));
}

#[test]
fn resources_of_a_component_win_over_the_configuration() {
    let bolt = "  - {id: b, type: null-sink, resources: {ram: 256MiB, cpu: 0.5}}";
    let topology = load_text(&with_bolt(bolt), &[("topology.component.cpu", "2")]).unwrap();
    assert_eq!(topology.components[0].resources.cpu_millis, 2000);
    assert_eq!(topology.components[1].resources.cpu_millis, 500);
    assert_eq!(topology.components[1].resources.ram_bytes, 256 << 20);
    check(&with_bolt(
        "  - id: b\n    type: null-sink\n    resources:\n      ram: lots #! `ram` is `lots`\n      cpu: -1 #! `cpu` is `-1`\n      gpu: 1 #! unknown key `gpu`",
    ));
}

#[test]
fn unknown_keys_everywhere() {
    check(
        "name: t
topologyName: x #! unknown key `topologyName` in the topology
spouts:
  - id: s
    type: sequence
    paralelism: 2 #! unknown key `paralelism` in spout `s`; did you mean `parallelism`?
bolts:
  - id: b
    type: null-sink
    class: x #! unknown key `class` in bolt `b`
streams:
  - from: s
    to: b
    via: x #! unknown key `via` in this stream
    grouping:
      type: SHUFFLE
      arg: [n] #! unknown key `arg` in `grouping`; did you mean `args`?
",
    );
}

#[test]
fn keys_are_given_once() {
    check(
        "name: t\nname: u #! has the key `name` twice, first in line 1\nspouts: [{id: s, type: sequence}]\n",
    );
}

#[test]
fn what_is_missing_is_named() {
    check("spouts: [{id: s, type: sequence}] #! the topology has no `name`\n");
    check("name: t #! at least one spout\n");
    check(
        "name: t
spouts:
  - {type: sequence} #! this spout has no `id`
  - {id: s} #! spout `s` has no `type`
bolts:
  - {id: b, type: null-sink}
streams:
  - {to: b, grouping: {type: SHUFFLE}} #! this stream has no `from`
  - {from: s, grouping: {type: SHUFFLE}} #! this stream has no `to`
  - {from: s, to: b} #! this stream has no `grouping`
",
    );
}

#[test]
fn wrong_shapes() {
    check("- a #! the topology must be a mapping of keys to values, not a list\n");
    check("name: t #! at least one spout\nspouts: {id: s} #! `spouts` must be a list, not a mapping\n");
    check(
        "name: [t] #! `name` of the topology must be a word, not a list\nspouts: [{id: s, type: sequence}]\n",
    );
    check("name: t\nconfig: [x] #! `config` must be a mapping\nspouts: [{id: s, type: sequence}]\n");
    check(&with_bolt("  - {id: b, type: null-sink, args: 3} #! `args` of bolt `b` must be a mapping"));
}

#[test]
fn names_and_ids() {
    check("name: a/b #! the topology's name `a/b` must be\nspouts: [{id: s, type: sequence}]\n");
    check(
        "name: t\nspouts:\n  - {id: s, type: sequence}\n  - {id: s, type: sequence} #! component id `s` is used twice\n",
    );
    check("name: t\nspouts:\n  - type: sequence\n    id: a b #! component id `a b` must be\n");
}

#[test]
fn parallelism() {
    for bad in ["0", "10001", "-1", "1.5", "many", "4294967296", "[1]"] {
        check(&with_bolt(&format!(
            "  - id: b\n    type: null-sink\n    parallelism: {bad} #! must be {}from 1 to 10000",
            if bad == "0" || bad == "10001" { "" } else { "a whole number " }
        )));
    }
}

#[test]
fn unknown_types() {
    check(
        "name: t\nspouts:\n  - id: s\n    type: file-line #! spout `s` has the unknown type `file-line`; did you mean `file-lines`?\n",
    );
    check(
        "name: t\nspouts:\n  - id: s\n    type: count #! spout `s` has the type `count`, which belongs under `bolts`\n",
    );
    check(&with_bolt(
        "  - id: b\n    type: sequence #! bolt `b` has the type `sequence`, which belongs under `spouts`",
    ));
}

#[test]
fn arguments() {
    check(&with_bolt("  - id: b #! component `b` (file-sink): `path` is missing\n    type: file-sink"));
    check(&with_bolt(
        "  - id: b
    type: file-sink
    args:
      path: [x] #! component `b` (file-sink): `path` is a list, but must be the path of a file
      fromat: json #! there is no argument `fromat`; did you mean `format`?
      format: xml #! `format` is `xml`, but must be one of tsv, json",
    ));
    check(&with_bolt(
        "  - {id: b, type: null-sink, args: {x: 1}} #! there is no argument `x`; it takes none",
    ));
    check(
        "name: t\nspouts:\n  - {id: s, type: sequence, args: {rate: 0}} #! `rate` is `0`, but must be a number above 0\n",
    );
    check(
        "name: t\nspouts:\n  - id: l\n    type: file-lines\n    args:\n      path: \"-\"\n      repeat: 2 #! standard input `-` can be read once\n",
    );
    check(&with_bolt(
        "  - id: b\n    type: file-sink\n    parallelism: 2\n    args: {path: \"-\"} #! set `parallelism: 1`",
    ));
}

#[test]
fn schemas_of_inputs() {
    check(&with_bolt(
        "  - id: b\n    type: count\n    args:\n      by: word #! `by` names the field `word`, but `s` has `n` (u64)",
    ));
    check(
        "name: t
spouts:
  - {id: s, type: sequence}
  - {id: w, type: random-words}
bolts:
  - {id: b, type: identity}
  - {id: c, type: split-words}
  - {id: d, type: null-sink}
streams:
  - {from: s, to: b, grouping: {type: SHUFFLE}}
  - {from: w, to: b, grouping: {type: SHUFFLE}} #! `s` has `n` (u64) and `w` has `word` (str)
  - {from: w, to: c, grouping: {type: SHUFFLE}} #! it reads the field `line` (str), but `w` has `word` (str)
  - {from: b, to: d, grouping: {type: FIELDS, args: [n]}}
  - {from: c, to: d, grouping: {type: FIELDS, args: [n]}}
",
    );
}

#[test]
fn unknown_components_and_streams() {
    check(
        "name: t
spouts:
  - {id: lines, type: sequence}
bolts:
  - {id: split, type: identity}
streams:
  - from: line #! bolt `split` reads component `line`, which does not exist; did you mean `lines`?
    to: split
    grouping: {type: SHUFFLE}
  - from: lines
    to: splits #! goes to `splits`, which does not exist; did you mean `split`?
    grouping: {type: SHUFFLE}
  - from: lines
    to: split
    stream: words #! bolt `split` reads stream `words` of `lines`, which declares `default`
    grouping: {type: SHUFFLE}
  - from: lines
    to: lines #! goes to spout `lines`, but only bolts read
    grouping: {type: SHUFFLE}
",
    );
}

#[test]
fn an_unread_bolt_and_a_stream_read_twice() {
    check(
        "name: t\nspouts: [{id: s, type: sequence}]\nbolts:\n  - {id: b, type: identity} #! bolt `b` reads no stream\n",
    );
    check(
        "name: t
spouts: [{id: s, type: sequence}]
bolts: [{id: b, type: identity}]
streams:
  - {from: s, to: b, grouping: {type: SHUFFLE}}
  - {from: s, to: b, grouping: {type: ALL}} #! reads stream `default` of `s` twice
",
    );
}

#[test]
fn cycles() {
    check(
        "name: t
spouts: [{id: s, type: sequence}]
bolts:
  - {id: a, type: identity} #! `a` <- `b` <- `a` read each other in a cycle
  - {id: b, type: identity}
  - {id: c, type: null-sink}
streams:
  - {from: s, to: a, grouping: {type: SHUFFLE}}
  - {from: b, to: a, grouping: {type: SHUFFLE}}
  - {from: a, to: b, grouping: {type: FIELDS, args: [n]}}
  - {from: b, to: c, grouping: {type: SHUFFLE}}
",
    );
    check(
        "name: t\nspouts: [{id: s, type: sequence}]\nbolts:\n  - {id: a, type: identity} #! cycle\nstreams:\n  - {from: a, to: a, grouping: {type: SHUFFLE}}\n",
    );
}

#[test]
fn groupings() {
    check(&with_grouping(
        "    grouping:\n      type: FIELDS\n      args: [m] #! groups stream `default` of `s` by field `m`, but the stream declares `n`",
    ));
    check(&with_grouping(
        "    grouping:\n      type: FIELD #! unknown grouping `FIELD`; did you mean `FIELDS`?",
    ));
    check(&with_grouping("    grouping: {type: FIELDS} #! grouping FIELDS needs `args`"));
    check(&with_grouping(
        "    grouping:\n      type: PARTIAL_KEY\n      args: n #! grouping PARTIAL_KEY needs `args`",
    ));
    check(&with_grouping(
        "    grouping:\n      type: FIELDS\n      args: [] #! grouping FIELDS needs `args`",
    ));
    check(&with_grouping("    grouping:\n      type: ALL\n      args: [n] #! grouping ALL takes no `args`"));
    check(&with_grouping("    grouping: {type: CUSTOM} #! only in a program that links the library"));
    check(&with_grouping("    grouping: {type: DIRECT} #! only in a program that links the library"));
    check(&with_grouping("    grouping: SHUFFLE #! `grouping` must be a mapping"));
    check(&with_grouping(
        "    stream: default\n    grouping:\n      type: ALL\n      stream: other #! name it once",
    ));
}

#[test]
fn every_plain_grouping_is_read() {
    let names = ["SHUFFLE", "LOCAL_OR_SHUFFLE", "ALL", "GLOBAL", "NONE", "shuffle"];
    for name in names {
        load_text(&with_grouping(&format!("    grouping: {{type: {name}, stream: default}}")), &[]).unwrap();
    }
    let topology = load_text(&with_grouping("    grouping: {type: PARTIAL_KEY, args: [n]}"), &[]).unwrap();
    assert_eq!(topology.components[1].inputs[0].grouping, Grouping::PartialKey(vec!["n".to_owned()]));
}

#[test]
fn configuration() {
    check(
        "name: t
config:
  topology.container: 2 #! unknown configuration key `topology.container`, did you mean `topology.containers`?
  topology.max.spout.pending: 0 #! `topology.max.spout.pending` is `0`, but must be a whole number from 1
  topology.reliability.mode: EFFECTIVELY_ONCE #! not supported yet
  egret.network.reactor: kqueue #! must be one of auto, uring, epoll
  egret.tuple.max.bytes: [1] #! must be a number or a word, not a list
  user.anything: goes
spouts: [{id: s, type: sequence}]
",
    );
    check(
        "name: t\nconfig:\n  topology.reliability.mode: EFFECTIVELY_ONCE #! not supported yet\nspouts: [{id: s, type: sequence}]\n",
    );
    let text = "name: t\nconfig:\n  topology.reliability.mode: EFFECTIVELY_ONCE\n  user.v: 1.0\nspouts: [{id: s, type: sequence}]\n";
    let topology = load_text(text, &[("topology.reliability.mode", "ATMOST_ONCE")]).unwrap();
    assert_eq!(topology.config.text("user.v"), Some("1.0"));
}

#[test]
fn overrides_are_checked_too() {
    let text = "name: t\nspouts: [{id: s, type: sequence}]\n";
    let errors = load_text(text, &[("topology.containers", "many"), ("nonsense", "1")]).unwrap_err();
    assert_eq!(errors.problems.len(), 2);
    assert!(
        errors.problems.iter().all(|p| p.file.is_none() && p.message.starts_with("--config ")),
        "{errors}"
    );
}

#[test]
fn watermarks_in_the_wrong_order_are_found_wherever_they_are_set() {
    let (high, low) = (config::HIGH_WATERMARK_MB, config::LOW_WATERMARK_MB);
    let rest = "spouts: [{id: s, type: sequence}]\n";
    check(&format!("name: t\nconfig:\n  {high}: 0.1 #! below the high one\n{rest}"));
    check(&format!("name: t\nconfig:\n  {low}: 2 #! below the high one\n  {high}: 2\n{rest}"));
    check(&format!("name: t\nconfig:\n  {low}: -1 #! a decimal number\n{rest}"));
    let errors = load_text(&format!("name: t\n{rest}"), &[(high, "0.25")]).unwrap_err();
    assert!(errors.to_string().starts_with(&format!("--config {high}=0.25: ")), "{errors}");
    load_text(&format!("name: t\nconfig: {{{high}: 0.1}}\n{rest}"), &[(low, "0.05")]).unwrap();
}

#[test]
fn a_component_may_have_a_configuration_of_its_own() {
    let spout = |config: &str| {
        format!(
            "name: t\nspouts:\n  - id: s\n    type: sequence\n    config:\n      {config}\n  - {{id: u, type: sequence}}\n"
        )
    };
    let key = config::OUTPUT_BPS;
    let topology = load_text(&spout(&format!("{key}: 64KiB")), &[(key, "1000")]).unwrap();
    let limits = [0, 1].map(|i| topology.output_bps(egret_dataplane::ids::ComponentIndex(i)));
    assert_eq!(limits, [Some(65_536), Some(1000)]);
    check(&spout(&format!("{key}: fast #! number of bytes")));
    check(&spout(&format!("{}: 1 #! for the whole topology", config::TICK_MS)));
    check(&spout("topology.component.output.bpm: 1 #! `topology.component.output.bps`"));
    check(&spout(&format!("{key}: [1] #! a number or a word")));
}

#[test]
fn one_load_reports_everything() {
    let text = "name: t
config: {topology.containers: x}
spouts:
  - {id: s, type: sequenc}
bolts:
  - {id: b, type: count}
  - {id: b, type: identity, parallelism: 0}
streams:
  - {from: q, to: b, grouping: {type: SHUFFLE}}
";
    let lines: Vec<_> = load_text(text, &[]).unwrap_err().problems.iter().map(|p| p.line).collect();
    assert_eq!(lines, [2, 4, 6, 7, 7, 7, 9]);
}

#[test]
fn a_problem_shows_file_line_and_snippet() {
    let errors = load_text("name: t\nspouts:\n  - {id: s, type: seq}\n", &[]).unwrap_err();
    let text = errors.to_string();
    let (first, rest) = text.split_once('\n').unwrap();
    assert!(first.contains("/t.yaml:3: spout `s` has the unknown type `seq`"), "{first}");
    assert_eq!(rest, "  |\n3 |   - {id: s, type: seq}\n  |                   ^");
}

#[test]
fn a_name_is_a_file_that_is_seen_and_a_word_that_is_no_option() {
    let refused = |name: &str| {
        let text = format!("name: \"{name}\"\nspouts:\n  - {{id: s, type: sequence}}\n");
        load_text(&text, &[]).is_err_and(|e| e.to_string().contains("`_` or `.`, the first a letter"))
    };
    for name in ["", "-x", ".x", "..", "a/b", "a b", "ä", &"x".repeat(101)] {
        assert!(refused(name), "{name:?}");
    }
    for name in ["x", "_x", "9", "a-b_c.d", &"x".repeat(100)] {
        assert!(!refused(name), "{name:?}");
    }
}

#[test]
fn a_monstrous_line_is_shown_in_part_and_moves_no_cursor() {
    let id = "s".repeat(1 << 20);
    let text = format!("name: t\nspouts:\n  - {{id: {id}, parallelism: 0, type: sequence}}\n");
    let shown = load_text(&text, &[]).unwrap_err().to_string();
    assert!(shown.len() < 3000, "{} bytes", shown.len());
    assert!(shown.contains("ss … ss") && shown.contains("must be 1 to 100 letters"), "{shown}");
    let (line, caret) = shown.rsplit_once('\n').unwrap();
    let line = line.rsplit_once('\n').unwrap().1;
    assert!(line.starts_with("3 | …ss") && line.contains("ss, parallelism: 0, type"), "{line}");
    assert_eq!(line.chars().nth(caret.chars().count() - 1), Some('0'), "{line}\n{caret}");

    let shown = load_text("name: \u{1b}[31mred\n", &[]).unwrap_err().to_string();
    assert!(!shown.contains('\u{1b}') && shown.contains("[31mred"), "{shown:?}");
}

#[test]
fn what_is_no_yaml() {
    let line = |text: &str| load_text(text, &[]).unwrap_err().problems[0].line;
    assert_eq!(line("name: t\nspouts: [\n"), 2);
    assert_eq!(line("name: t\nconfig:\n\ta: 1\n"), 3);
    assert_eq!(line("name: t\n---\nname: u\n"), 3);
    let empty = load_text("", &[]).unwrap_err();
    assert!(empty.to_string().contains("must be a mapping"), "{empty}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.yaml");
    assert!(
        load(&path, &[]).unwrap_err().to_string().contains("x.yaml: cannot read the topology: No such file")
    );
    fs::write(&path, [b'a', 0xff]).unwrap();
    assert!(load(&path, &[]).unwrap_err().to_string().contains("no UTF-8"));
}
