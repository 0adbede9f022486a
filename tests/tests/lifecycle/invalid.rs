//! Every kind of invalid topology: exit status 2, its file and line, and nothing is started or left, whatever the
//! command. What else each error says is tested beside the loader.

use crate::support::{BEHAVIOURS, state_entries};
use egret_tests::{Cluster, cluster};

/// A document, of which the line with `#!` is wrong; what stands behind is part of the message.
const DOCUMENTS: &[(&str, &str)] = &[
    ("unknown key", "name: t\nspouts:\n  - {id: s, type: sequence}\nbolt: [] #! `bolts`\n"),
    (
        "unknown key of a spout",
        "name: t\nspouts:\n  - {id: s, type: sequence, paralelism: 2} #! `parallelism`\n",
    ),
    (
        "unknown configuration",
        "name: t\nconfig:\n  topology.container: 2 #! `topology.containers`\nspouts:\n  - {id: s, type: sequence}\n",
    ),
    (
        "bad value",
        "name: t\nconfig:\n  topology.containers: many #! whole number\nspouts:\n  - {id: s, type: sequence}\n",
    ),
    (
        "watermarks in the wrong order",
        "name: t\nconfig:\n  egret.streammgr.network.backpressure.lowwatermark.mb: 0.75 #! below the high one\nspouts:\n  - {id: s, type: sequence}\n",
    ),
    ("unknown type", "name: t\nspouts:\n  - {id: s, type: sequenze} #! `sequence`\n"),
    ("unknown argument", "name: t\nspouts:\n  - {id: s, type: sequence, args: {counts: 2}} #! `count`\n"),
    ("missing argument", "name: t\nspouts:\n  - {id: s, type: file-lines} #! `path`\n"),
    ("bad argument", "name: t\nspouts:\n  - {id: s, type: sequence, args: {count: few}} #! `count`\n"),
    ("zero parallelism", "name: t\nspouts:\n  - {id: s, type: sequence, parallelism: 0} #! from 1\n"),
    ("negative parallelism", "name: t\nspouts:\n  - {id: s, type: sequence, parallelism: -1} #! from 1\n"),
    (
        "duplicate ids",
        "name: t\nspouts:\n  - {id: s, type: sequence}\n  - {id: s, type: sequence} #! twice\n",
    ),
    ("no id", "name: t\nspouts:\n  - {type: sequence} #! no `id`\n"),
    ("bad name", "name: a/b #! `a/b`\nspouts:\n  - {id: s, type: sequence}\n"),
    ("no spout", "name: t #! one spout\n"),
    ("no YAML", "name: t\nspouts:\n  - {id: s, type: sequence #! YAML\nbolts: []\n"),
    ("unknown component", "  - {from: x, to: b, grouping: {type: SHUFFLE}} #! component `x`\n"),
    ("unknown target", "  - {from: s, to: x, grouping: {type: SHUFFLE}} #! `x`\n"),
    (
        "unknown stream",
        "  - {from: s, to: b, stream: odd, grouping: {type: SHUFFLE}} #! stream `odd` of `s`\n",
    ),
    ("undeclared field", "  - {from: s, to: b, grouping: {type: FIELDS, args: [colour]}} #! `colour`\n"),
    ("unknown grouping", "  - {from: s, to: b, grouping: {type: SHUFFEL}} #! `SHUFFLE`\n"),
    ("grouping of programs", "  - {from: s, to: b, grouping: {type: DIRECT}} #! program\n"),
    ("no grouping", "  - {from: s, to: b} #! `grouping`\n"),
];

/// What a document of which only a stream is given begins with.
const BEFORE_STREAM: &str =
    "name: t\nspouts:\n  - {id: s, type: sequence}\nbolts:\n  - {id: b, type: identity}\nstreams:\n";

const CYCLE: &str = "name: t
spouts:
  - {id: s, type: sequence}
bolts:
  - {id: a, type: identity} #! cycle
  - {id: b, type: identity}
streams:
  - {from: s, to: a, grouping: {type: SHUFFLE}}
  - {from: b, to: a, grouping: {type: SHUFFLE}}
  - {from: a, to: b, grouping: {type: SHUFFLE}}
";

/// Every command that takes a topology.
const COMMANDS: [&[&str]; 4] = [&["validate"], &["run"], &["submit"], &["plan", "--dry-run"]];

/// Each command refuses it, saying `expected` on stderr, and leaves nothing.
fn refused(cluster: &Cluster, what: &str, topology: &[&str], expected: &[&str]) {
    for command in COMMANDS {
        let plain = cluster.egret(command).args(topology).run().expect(2);
        assert_eq!(plain.stdout, "", "{what}: {}", plain.line);
        for part in expected {
            assert!(plain.stderr.contains(part), "{what}: no {part:?} in {plain}");
        }
        let json = cluster.egret(command).arg("--json").args(topology).run().expect(2).json();
        assert_eq!((&json["kind"], &json["status"]), (&"usage".into(), &2.into()), "{what}");
        assert!(json["error"].as_str().unwrap().contains(expected[0]), "{what}: {json}");
    }
    let left = cluster.leftovers();
    assert!(left.is_empty() && state_entries(cluster).is_empty(), "{what}:\n{left}");
}

/// With BR-028 for YAML: undeclared stream, component and field; and BR-013: a cycle.
#[test]
fn each_kind_is_refused_with_its_line() {
    let cluster = cluster!();
    let whole = |document: &str| {
        if document.starts_with("name") { document.to_owned() } else { format!("{BEFORE_STREAM}{document}") }
    };
    let documents = DOCUMENTS.iter().map(|(what, document)| (*what, whole(document)));
    for (what, document) in documents.chain([("cycle", CYCLE.to_owned())]) {
        let (index, line) = document.lines().enumerate().find(|(_, line)| line.contains("#!")).unwrap();
        let (_, message) = line.split_once("#! ").unwrap();
        cluster.write("t.yaml", &document);
        refused(&cluster, what, &["t.yaml"], &[&format!("t.yaml:{}: ", index + 1), message]);
    }
}

/// BR-028: a program is held to the same rules, in the same words; the error names component and stream.
#[test]
fn an_invalid_program_is_refused_in_the_same_words() {
    let cluster = cluster!();
    let of = |case: &'static str| [BEHAVIOURS, "--", case, "."];
    let expected = [BEHAVIOURS, "`reader`", "stream `odd` of `numbers`"];
    refused(&cluster, "undeclared stream", &of("undeclared_stream"), &expected);
    let expected = [BEHAVIOURS, "`colour`", "stream `default` of `numbers`"];
    refused(&cluster, "undeclared field", &of("undeclared_field"), &expected);
}

#[test]
fn what_is_no_topology_is_refused() {
    let cluster = cluster!();
    refused(&cluster, "absent", &["absent.yaml"], &["absent.yaml"]);
    refused(&cluster, "a folder", &["."], &["folder"]);
    refused(&cluster, "a program that links no library", &["/bin/true"], &["/bin/true", "egret::main"]);
    cluster.write("t.yaml", format!("{BEFORE_STREAM}  - {{from: s, to: b, grouping: {{type: ALL}}}}\n"));
    refused(&cluster, "-c of no key", &["t.yaml", "-c", "topology.container=1"], &["topology.containers"]);
}

/// BR-031: a container too small for what it must hold.
#[test]
fn a_container_that_is_too_small_is_refused_with_all_figures() {
    let cluster = cluster!();
    cluster.write("t.yaml", format!("{BEFORE_STREAM}  - {{from: s, to: b, grouping: {{type: ALL}}}}\n"));
    let ram = |bytes: &str| format!("topology.container.ram={bytes}");
    // A stmgr and one instance need 256 MiB.
    for bytes in ["1", "192MiB", "255MiB"] {
        let expected = ["container", "needs", "128 MiB", "stmgr", "topology.container.ram"];
        refused(&cluster, bytes, &["t.yaml", "-c", &ram(bytes)], &expected);
    }
    for bytes in ["18446744073709551616", "17179869184GiB", "-1"] {
        refused(&cluster, bytes, &["t.yaml", "-c", &ram(bytes)], &["topology.container.ram"]);
    }
    for bytes in ["0", "256MiB", "18446744073709551615"] {
        let _ = cluster.egret(["validate", "t.yaml", "-c", &ram(bytes)]).run().expect(0);
    }
    cluster.wait_until_clean(false);
}
