//! The `egret` command as a script sees it: exit statuses, JSON documents, what goes where.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use egret_tests::{Cluster, Command, DEADLINE, cluster, wait_for};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Write};
use std::process::Stdio;

/// A spout that never ends, over two containers.
const ENDLESS: &str = "name: endless
config: {topology.containers: 2}
spouts:
  - {id: numbers, type: sequence, args: {rate: 500}}
bolts:
  - {id: pass, type: identity, parallelism: 2}
  - {id: out, type: null-sink}
streams:
  - {from: numbers, to: pass, grouping: {type: SHUFFLE}}
  - {from: pass, to: out, grouping: {type: SHUFFLE}}
";

/// Ten numbers to standard output.
const TEN: &str = "name: ten
spouts:
  - {id: numbers, type: sequence, args: {count: 10}}
bolts:
  - {id: out, type: file-sink, args: {path: \"-\"}}
streams:
  - {from: numbers, to: out, grouping: {type: SHUFFLE}}
";

/// A bolt that cannot begin.
const BROKEN: &str = "name: broken
spouts:
  - {id: numbers, type: sequence}
bolts:
  - {id: out, type: file-sink, args: {path: no/such/folder/out.tsv}}
streams:
  - {from: numbers, to: out, grouping: {type: SHUFFLE}}
";

/// The command ends with this status, says why on stderr, and with `--json` says the same as a document.
#[track_caller]
fn fails_with(cluster: &Cluster, args: &[&str], status: i32, kind: &str) {
    let plain = cluster.egret(args).run().expect(status);
    assert!(!plain.stderr.trim().is_empty(), "{} says nothing on stderr", plain.line);
    assert_eq!(plain.stdout, "", "{} prints a result", plain.line);
    let json = cluster.egret(["--json"]).args(args).run().expect(status);
    let document = json.json();
    assert_eq!((&document["kind"], &document["status"]), (&Value::from(kind), &Value::from(status)));
    let message = document["error"].as_str().unwrap();
    assert!(
        json.stderr.contains(message.lines().next().unwrap()),
        "{} on stderr: {}",
        json.line,
        json.stderr
    );
}

/// BR-047.
#[test]
fn each_way_to_fail_has_its_status_for_each_command() {
    let cluster = cluster!();
    cluster.write("endless.yaml", ENDLESS);
    cluster.write("file", "not a folder");
    let down = format!("--state=file:{}", cluster.path("file").display());
    for command in ["status", "plan", "logs", "kill"] {
        fails_with(&cluster, &[command, "absent"], 3, "absent");
        fails_with(&cluster, &[&down, command, "absent"], 4, "store");
        fails_with(&cluster, &["--state=nonsense", command, "absent"], 2, "usage");
        fails_with(&cluster, &[command], 2, "usage");
        fails_with(&cluster, &[command, "absent", "--no-such-option"], 2, "usage");
    }
    fails_with(&cluster, &[&down, "list"], 4, "store");
    fails_with(&cluster, &["list", "more"], 2, "usage");
    for command in ["run", "submit"] {
        fails_with(&cluster, &[&down, command, "endless.yaml"], 4, "store");
        fails_with(&cluster, &[command, "absent.yaml"], 2, "usage");
        fails_with(&cluster, &[command, "file"], 2, "usage");
        fails_with(&cluster, &[command, "endless.yaml", "-c", "topology.container=2"], 2, "usage");
        fails_with(&cluster, &[command, "endless.yaml", "-c", "topology.containers"], 2, "usage");
        fails_with(&cluster, &[command, "endless.yaml", "--", "argument"], 2, "usage");
    }
    fails_with(&cluster, &["validate", "absent.yaml"], 2, "usage");
    fails_with(&cluster, &["plan", "--dry-run", "absent.yaml"], 2, "usage");
    fails_with(&cluster, &["config", "absent"], 2, "usage");
    fails_with(&cluster, &[], 2, "usage");
    cluster.wait_until_clean(false);
}

#[test]
fn what_is_not_built_yet_says_so() {
    let cluster = cluster!();
    cluster.write("endless.yaml", ENDLESS);
    let lines = [
        "activate x",
        "deactivate x",
        "restart x 1",
        "update x --parallelism a=2",
        "list --state zk://127.0.0.1:2181/egret",
        "run endless.yaml -c topology.reliability.mode=EFFECTIVELY_ONCE",
        "run endless.yaml -c topology.reliability.mode=EFFECTIVELY_ONCE",
    ];
    for line in lines {
        let finished = cluster.egret(line.split(' ')).run().expect(2);
        assert!(finished.stderr.contains("not supported yet"), "{line}: {}", finished.stderr);
    }
}

#[test]
fn a_topology_in_the_background_from_submit_to_kill() {
    let cluster = cluster!();
    cluster.write("endless.yaml", ENDLESS);
    let submitted = cluster.egret(["submit", "endless.yaml", "--json"]).run().expect(0).json();
    assert_eq!((&submitted["topology"], &submitted["state"]), (&"endless".into(), &"running".into()));
    fails_with(&cluster, &["submit", "endless.yaml"], 3, "exists");
    fails_with(&cluster, &["run", "endless.yaml"], 3, "exists");

    let list = cluster.egret(["list", "--json"]).run().expect(0).json();
    assert_eq!(
        (&list[0]["topology"], &list[0]["state"], &list[0]["tasks"]),
        (&"endless".into(), &"running".into(), &4.into())
    );
    let plan = cluster.egret(["plan", "endless", "--json"]).run().expect(0).json();
    assert_eq!(plan["containers"].as_array().unwrap().len(), 2);
    let logs = cluster.egret(["logs", "endless", "tmaster", "--json"]).run().expect(0).json();
    assert!(logs["logs"][0]["text"].as_str().unwrap().contains("tmaster of `endless` listens"), "{logs}");
    fails_with(&cluster, &["logs", "endless", "99"], 3, "absent");
    for command in ["status", "plan", "logs"] {
        let text = cluster.egret([command, "endless"]).run().expect(0).stdout;
        assert!(text.contains("numbers"), "{command} names no component: {text}");
    }

    let killed = cluster.egret(["kill", "endless", "--json"]).run().expect(0).json();
    assert_eq!((&killed["state"], &killed["forced"]), (&"killed".into(), &false.into()));
    cluster.wait_until_clean(true);
    fails_with(&cluster, &["kill", "endless"], 3, "absent");
    let logs = cluster.egret(["logs", "endless", "tmaster"]).run().expect(0);
    assert!(logs.stdout.contains("Killed"), "the logs stay: {}", logs.stdout);
}

#[test]
fn status_shows_every_process_and_each_is_real() {
    let cluster = cluster!();
    cluster.write("endless.yaml", ENDLESS);
    let _ = cluster.egret(["submit", "endless.yaml"]).run().expect(0);
    let status = egret_tests::wait_for("every process to be known", egret_tests::DEADLINE, || {
        let status = cluster.status("endless")?;
        (status["processes"].as_array()?.len() == 10).then_some(status)
    });
    let mut known: Vec<_> =
        status["processes"].as_array().unwrap().iter().map(|p| p["pid"].as_u64().unwrap()).collect();
    let mut real: Vec<_> = cluster.processes().iter().map(|p| u64::from(p.pid)).collect();
    known.sort_unstable();
    real.sort_unstable();
    assert_eq!(known, real, "3 executors, tmaster, 2 stmgrs, 4 instances");
}

#[test]
fn a_run_that_completes_leaves_its_results_only() {
    let cluster = cluster!();
    cluster.write("ten.yaml", TEN);
    let finished = cluster.egret(["run", "ten.yaml", "-q"]).run().expect(0);
    let (numbers, summary) = finished.stdout.split_at(finished.stdout.find("ten completed").unwrap());
    assert_eq!(numbers, (0..10).map(|n| format!("{n}\n")).collect::<String>());
    assert!(summary.contains("lost 0"), "{summary}");
    assert_eq!(finished.stderr, "", "no progress line where there is no terminal");
    cluster.wait_until_clean(false);
}

#[test]
fn the_document_of_a_run_has_its_keys() {
    let cluster = cluster!();
    cluster.write("ten.yaml", TEN);
    let finished = cluster.run_to_the_end(["ten.yaml"]);
    let document = finished.json();
    let keys = |value: &Value| {
        let mut keys: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
        keys.sort_unstable();
        keys.join(" ")
    };
    assert_eq!(
        keys(&document),
        "backpressure components copied_bytes cpu_s elapsed_s lost restarts spouts state topology",
        "{document:#}"
    );
    assert_eq!(keys(&document["components"]), "numbers out");
    assert_eq!(
        keys(&document["components"]["out"]),
        "acked backpressure emitted executed failed pending timed_out"
    );
    assert_eq!(keys(&document["components"]["out"]["backpressure"]), "starts time_s");
    assert_eq!(keys(&document["spouts"]), "acked complete_latency_us failed pending timed_out");
    assert_eq!(keys(&document["spouts"]["complete_latency_us"]), "max p50 p90 p99 p999");
    assert_eq!(keys(&document["backpressure"]), "starts time_s");
    assert_eq!(keys(&document["restarts"]), "executor instance stmgr tmaster");
    assert_eq!(keys(&document["cpu_s"]), "executor instance stmgr tmaster");
    assert_eq!((&document["state"], &document["lost"]), (&"completed".into(), &0.into()));
    assert!(finished.stderr.starts_with("0\n1\n"), "what a topology prints is not the document");
}

#[test]
fn a_run_that_cannot_start_says_why_and_leaves_nothing() {
    let cluster = cluster!();
    cluster.write("broken.yaml", BROKEN);
    let finished = cluster.egret(["run", "broken.yaml", "--json"]).run().expect(1);
    assert_eq!(finished.json()["state"], "failed");
    assert!(finished.stderr.contains("`out` task 2 in container 1"), "{}", finished.stderr);
    assert!(finished.stderr.contains("no/such/folder/out.tsv"), "{}", finished.stderr);
    cluster.wait_until_clean(false);

    let finished = cluster.egret(["submit", "broken.yaml"]).run().expect(1);
    assert!(finished.stderr.contains("no/such/folder/out.tsv"), "{}", finished.stderr);
    cluster.wait_until_clean(true);
}

#[test]
fn the_first_ctrl_c_drains() {
    let cluster = cluster!();
    cluster.write("endless.yaml", ENDLESS);
    let running = cluster.egret(["run", "endless.yaml", "--json"]).spawn();
    let _ = cluster.wait_until("endless", "running");
    running.signal(Signal::INT);
    let finished = running.finish().expect(130);
    let document = finished.json();
    assert_eq!((&document["state"], &document["lost"]), (&"interrupted".into(), &0.into()));
    let count = |component: &str, what: &str| document["components"][component][what].as_u64().unwrap();
    assert_eq!(count("numbers", "emitted"), count("out", "executed"));
    cluster.wait_until_clean(false);
}

#[test]
fn the_second_ctrl_c_stops_at_once() {
    let cluster = cluster!();
    // Each tuple takes a minute, so a drain takes hours.
    let slow =
        ENDLESS.replace("{id: out, type: null-sink}", "{id: out, type: sleep, args: {micros: 60000000}}");
    cluster.write("slow.yaml", slow);
    let running = cluster.egret(["run", "slow.yaml", "--json"]).spawn();
    let _ = cluster.wait_until("endless", "running");
    running.signal(Signal::INT);
    running.wait_for_stderr("draining");
    running.signal(Signal::INT);
    assert_eq!(running.finish().expect(130).json()["state"], "interrupted");
    cluster.wait_until_clean(false);
}

#[test]
fn a_terminal_gets_a_live_line_that_is_gone_at_the_end() {
    let cluster = cluster!();
    cluster.write("endless.yaml", ENDLESS);
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let terminal = File::options().read(true).write(true).open(name).unwrap();
    // Wide enough for the whole line.
    let size = Winsize { ws_row: 24, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal, size).unwrap();
    let mut command = cluster.egret(["run", "endless.yaml"]).env("TERM", "xterm");
    command.inner().stderr(Stdio::from(terminal));
    let running = command.spawn();
    let mut master = File::from(master);
    let (mut seen, mut piece) = (String::new(), [0; 4096]);
    while !seen.contains("endless running") {
        let read = master.read(&mut piece).unwrap();
        seen.push_str(&String::from_utf8_lossy(&piece[..read]));
    }
    assert!(seen.contains("tuples") && seen.contains("pending 0 · backpressure none"), "{seen:?}");
    running.signal(Signal::INT);
    // An error is how the end of the other side shows.
    while let Ok(read @ 1..) = master.read(&mut piece) {
        seen.push_str(&String::from_utf8_lossy(&piece[..read]));
    }
    assert!(seen.contains("draining"), "{seen:?}");
    assert!(running.finish().expect(130).stdout.starts_with("endless interrupted"));
}

/// A reader that goes away early is no failure of the command.
#[test]
fn a_closed_pipe_is_no_failure() {
    let cluster = cluster!();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = cluster.egret(["config"]);
    command.inner().stdout(Stdio::from(writer));
    let _ = command.run().expect(0);
}

/// Waits for the end of a command whose standard output is this pipe, of which nobody reads more than the first byte;
/// `grow` makes it write more.
fn ends_when_nobody_reads(mut command: Command, grow: impl Fn()) {
    let (mut reader, writer) = std::io::pipe().unwrap();
    command.inner().stdout(Stdio::from(writer));
    let running = command.spawn();
    reader.read_exact(&mut [0]).unwrap();
    drop(reader);
    wait_for("the command to end", DEADLINE, || {
        grow();
        running.has_ended().then_some(())
    });
    let _ = running.finish().expect(0);
}

/// `egret logs -f endless | head -1`, and likewise `egret top`.
#[test]
fn what_goes_on_for_ever_ends_when_nobody_reads() {
    let cluster = cluster!();
    cluster.write("endless.yaml", ENDLESS);
    let _ = cluster.egret(["submit", "endless.yaml"]).run().expect(0);
    let files = cluster.leftovers().files;
    let log = files.iter().find(|file| file.ends_with("container-1/log-files/stmgr.log")).unwrap();
    ends_when_nobody_reads(cluster.egret(["logs", "--follow", "endless", "stmgr-1"]), || {
        File::options().append(true).open(log).unwrap().write_all(b"one line more\n").unwrap();
    });
    ends_when_nobody_reads(cluster.egret(["top", "endless", "--delay", "0.1"]), || ());
    let _ = cluster.egret(["kill", "endless"]).run().expect(0);
}

/// Such a name fits no file.
#[test]
fn a_name_that_is_too_long_is_absent() {
    let cluster = cluster!();
    for name in ["x".repeat(201), "x".repeat(100_000)] {
        for command in ["status", "metrics", "plan", "logs", "kill"] {
            fails_with(&cluster, &[command, &name], 3, "absent");
        }
    }
}

#[test]
fn a_patience_without_end_is_one() {
    let cluster = cluster!();
    cluster.write("endless.yaml", ENDLESS);
    let _ = cluster.egret(["submit", "endless.yaml"]).run().expect(0);
    let all = u64::MAX.to_string();
    let killed = cluster.egret(["kill", "endless", "--json", "--timeout", &all]).run().expect(0).json();
    assert_eq!(killed["forced"], false);
    cluster.wait_until_clean(true);
}

/// 1,024 descriptors, the usual soft limit, are not enough for a large container.
#[test]
fn a_topology_may_open_as_many_files_as_the_system_lets_it() {
    let cluster = cluster!();
    cluster.write("endless.yaml", ENDLESS);
    let mut submit = cluster.egret(["submit", "endless.yaml"]);
    let limited = cluster.command("prlimit").args(["--nofile=200:1000", "--"]);
    let limited = limited.arg(submit.inner().get_program()).args(submit.inner().get_args());
    let _ = limited.run().expect(0);
    for process in cluster.processes() {
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", process.pid)).unwrap();
        let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
        let soft = files.split_whitespace().nth(3).unwrap();
        assert_eq!(soft, "1000", "{process:?}");
    }
    let _ = cluster.egret(["kill", "endless"]).run().expect(0);
}

/// BR-059. The host's own name leads nowhere in a namespace of the test's own; needs the right to make one.
#[test]
fn a_host_name_that_does_not_resolve_is_nobodys_business() {
    let cluster = cluster!();
    cluster.write("ten.yaml", TEN);
    let may = std::process::Command::new("unshare").args(["--uts", "hostname", "nowhere.invalid"]).status();
    if !may.is_ok_and(|status| status.success()) {
        eprintln!("no right to a namespace here: only looked at by the addresses of a plan");
        return;
    }
    let egret = cluster.egret(["--version"]).inner().get_program().to_owned();
    let script = r#"hostname nowhere.invalid && exec "$0" run ten.yaml -q"#;
    let command = cluster.command("unshare").args(["--uts", "sh", "-c", script]).arg(egret);
    let finished = command.run().expect(0);
    assert!(finished.stdout.contains("ten completed"), "{}", finished.stdout);
}
