//! What a person is told, and what is not left behind, when something from outside gets in the way.

use crate::flow::{self, Flow, NAME};
use crate::processes::QUIET;
use crate::support::{letter, one, signal, state_entries};
use egret_tests::{DEADLINE, cluster, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Its only error comes with its end, and nobody has time to ask before the processes are gone.
const NO_SPACE: &str = "name: no-space
spouts:
  - {id: numbers, type: sequence, args: {count: 1}}
bolts:
  - {id: out, type: file-sink, args: {path: /dev/full}}
streams:
  - {from: numbers, to: out, grouping: {type: SHUFFLE}}
";

#[test]
fn a_topology_that_fails_at_its_very_end_says_why() {
    let cluster = cluster!();
    cluster.write("t.yaml", NO_SPACE);
    let run = cluster.egret(["run", "t.yaml"]).run().expect(1);
    let reason =
        "incomplete: out (task 2): finish: cannot write `/dev/full`: No space left on device (os error 28)";
    assert_eq!(run.stderr.matches(reason).count(), 1, "{run}");
    cluster.wait_until_clean(false);
}

#[test]
fn a_process_that_ends_too_early_is_named() {
    let cluster = cluster!();
    let flow = Flow::start(&cluster, &[]);
    let victim = one(&flow.first, |p| p.component.as_deref() == Some("pass") && p.container == 1);
    signal(victim.pid, Signal::KILL);
    let (task, pid) = (victim.task.unwrap(), victim.pid);
    flow.run.wait_for_stderr(&format!("warning: pass (task {task}): its process {pid} ended too early"));
    flow.complete(1);
}

/// As `nohup` starts it.
#[test]
fn a_hang_up_that_is_ignored_stays_ignored() {
    let cluster = cluster!();
    let mut script = cluster.command("sh").args(["-c", r#"trap '' HUP; exec "$@""#, "sh"]);
    let (mut run, folder) = flow::command(&cluster, "run", &[]);
    script = script.arg(run.inner().get_program()).args(run.inner().get_args());
    let flow = Flow::of(&cluster, script, folder);
    flow.run.signal(Signal::HUP);
    flow.more_arrive();
    assert_eq!(flow.complete(0)["lost"], 0);
}

#[test]
fn a_program_that_does_not_describe_itself_ends_with_egret() {
    let cluster = cluster!();
    let program =
        cluster.write("program", "#!/bin/sh\necho $$ > pid.new && mv pid.new pid\nexec sleep 1000\n");
    fs::set_permissions(program, Permissions::from_mode(0o700)).unwrap();
    let validate = cluster.egret(["validate", "./program"]).env("TMPDIR", cluster.path("")).spawn();
    let pid: u32 = wait_for("the program to begin", DEADLINE, || {
        fs::read_to_string(cluster.path("pid")).ok().map(|pid| pid.trim().parse().unwrap())
    });
    validate.signal(Signal::KILL);
    let _ = validate.finish();
    wait_for("the program to end", DEADLINE, || matches!(letter(pid), None | Some('Z')).then_some(()));
    let names: Vec<_> =
        fs::read_dir(cluster.path("")).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "the program, its pid and nothing else: {names:?}");
}

/// It has no folder, so its paths are relative to where it was typed.
#[test]
fn a_topology_may_come_from_standard_input() {
    let cluster = cluster!();
    let topology = NO_SPACE.replace("/dev/full", "out.tsv");
    let from_pipe = || {
        let (reader, mut writer) = std::io::pipe().unwrap();
        std::io::Write::write_all(&mut writer, topology.as_bytes()).unwrap();
        reader
    };
    for name in ["-", "/dev/stdin"] {
        let _ = cluster.egret(["run", name]).stdin(from_pipe()).run().expect(0);
        assert_eq!(cluster.read("out.tsv"), "0\n", "{name}");
        fs::remove_file(cluster.path("out.tsv")).unwrap();
    }
    cluster.write("t.yaml", &topology);
    let _ = cluster.egret(["run", "-"]).stdin(File::open(cluster.path("t.yaml")).unwrap()).run().expect(0);
    assert_eq!(cluster.read("out.tsv"), "0\n");
    let wrong = cluster.egret(["validate", "-"]).run().expect(2);
    assert!(wrong.stderr.contains("/dev/stdin:1: the topology must be a mapping"), "{wrong}");
}

/// The processes are found by the execution's id.
#[test]
fn a_topology_whose_scheduler_record_is_damaged_can_be_killed() {
    let cluster = cluster!();
    cluster.write("t.yaml", QUIET);
    let _ = cluster.egret(["submit", "t.yaml"]).run().expect(0);
    fs::write(cluster.home().join("state/local/schedulers/quiet"), "no record").unwrap();
    let _ = cluster.egret(["kill", "quiet"]).run().expect(0);
    assert!(cluster.leftovers().only_logs(), "{}", cluster.leftovers());
    assert_eq!(state_entries(&cluster), [""; 0]);
}

/// The executors' command lines name the topology and the state, so its processes are found without any entry.
#[test]
fn a_topology_whose_execution_is_damaged_or_removed_can_be_killed() {
    let cluster = cluster!();
    cluster.write("t.yaml", QUIET);
    let entry = cluster.home().join("state/local/executionstate/quiet");
    for damage in [|path: &Path| fs::write(path, "no entry"), |path: &Path| fs::remove_file(path)] {
        let _ = cluster.egret(["submit", "t.yaml"]).run().expect(0);
        damage(&entry).unwrap();
        let refused = cluster.egret(["submit", "t.yaml"]).run();
        assert!(matches!(refused.status.code(), Some(3 | 4)), "{refused}");
        let kill = cluster.egret(["kill", "quiet"]).run().expect(0);
        assert!(kill.stdout.contains("by force"), "{kill}");
        assert!(cluster.leftovers().only_logs(), "{}", cluster.leftovers());
        assert_eq!(state_entries(&cluster), [""; 0]);
    }
}

#[test]
fn of_a_topology_whose_tmaster_does_not_answer_only_what_is_known_is_shown() {
    let cluster = cluster!();
    let flow = Flow::start(&cluster, &[]);
    let tmaster = one(&flow.first, |p| p.role == "tmaster");
    signal(tmaster.pid, Signal::STOP);
    let status = cluster.status(NAME).unwrap();
    assert_eq!((&status["state"], &status["topology"]), (&"recovering".into(), &NAME.into()));
    assert_eq!((&status["components"], &status["lost"]), (&Value::Null, &Value::Null), "{status}");
    assert!(status["processes"].as_array().is_some_and(|executors| !executors.is_empty()), "{status}");
    let text = cluster.egret(["status", NAME]).run().expect(0).stdout;
    let row = text.lines().find(|line| line.starts_with("numbers")).unwrap();
    assert_eq!(row.split_whitespace().skip(2).collect::<String>(), "------", "{text}");
    assert!(text.contains("the tmaster does not answer"), "{text}");
    flow.more_arrive();
    signal(tmaster.pid, Signal::CONT);
    assert_eq!(flow.complete(0)["lost"], 0);
}

/// Its path stands in state entries, which are text.
#[test]
fn a_home_whose_path_is_no_text_is_refused() {
    let cluster = cluster!();
    cluster.write("t.yaml", QUIET);
    let home = OsStr::from_bytes(b"/tmp/no\xfftext");
    let refused = cluster.egret(["run", "t.yaml"]).env("EGRET_HOME", home).run().expect(4);
    assert!(refused.stderr.contains("is no UTF-8; set EGRET_HOME to another one"), "{refused}");
}
