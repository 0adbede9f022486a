//! A disk that is full, and files that cannot be written: what runs goes on, and what is asked for is done or says why not.

use crate::processes::QUIET;
use crate::support::{Seen, all_seen, one, seen, signal};
use egret_tests::{Cluster, Command, DEADLINE, cluster, wait_for};
use rustix::process::Signal;
use std::fs;
use std::io::Read;
use std::process::Stdio;

/// The command, started by a shell that first does as `script` says.
fn after(cluster: &Cluster, script: &str, mut command: Command) -> Command {
    let script = format!("{script}; exec \"$0\" \"$@\"");
    let shell = cluster.command("sh").args(["-c", &script]).arg(command.inner().get_program());
    shell.args(command.inner().get_args())
}

/// A write beyond the limit of a file's length fails as on a full disk, where its signal is ignored.
#[test]
fn an_executor_whose_log_cannot_grow_goes_on() {
    let cluster = cluster!();
    cluster.write("quiet.yaml", QUIET);
    let _ = after(&cluster, "trap '' XFSZ", cluster.egret(["submit", "quiet.yaml"])).run().expect(0);
    let before = all_seen(&cluster, "quiet", 10);
    let executor = one(&before, |p| p.role == "executor" && p.container == 1);
    let full = ["--fsize=0:0", "--pid", &executor.pid.to_string()];
    let _ = cluster.command("prlimit").args(full).run().expect(0);
    let victim = one(&before, |p| p.component.as_deref() == Some("pass") && p.container == 1);
    signal(victim.pid, Signal::KILL);
    let now = wait_for("the instance to come back", DEADLINE, || {
        let now = seen(&cluster.status("quiet")?);
        let is_back = |p: &Seen| p.task == victim.task && p.pid != victim.pid;
        now.iter().any(is_back).then_some(now)
    });
    assert_eq!(one(&now, |p| p.role == "executor" && p.container == 1), executor);
    let _ = cluster.egret(["kill", "quiet"]).run().expect(0);
    cluster.wait_until_clean(true);
}

#[test]
fn kill_needs_no_room_on_the_disk() {
    let cluster = cluster!();
    cluster.write("quiet.yaml", QUIET);
    let _ = cluster.egret(["submit", "quiet.yaml"]).run().expect(0);
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut kill = after(&cluster, "trap '' XFSZ; ulimit -f 0", cluster.egret(["kill", "quiet"]));
    kill.inner().stdout(Stdio::from(writer.try_clone().unwrap())).stderr(Stdio::from(writer));
    let finished = kill.run();
    let mut said = String::new();
    reader.read_to_string(&mut said).unwrap();
    assert_eq!(finished.code(), 0, "{said}");
    assert!(said.contains("without its lock") && said.contains("quiet is killed"), "{said}");
    assert!(cluster.processes().is_empty(), "{}", cluster.leftovers());
    cluster.wait_until_clean(true);
}

/// What goes wrong once an executor has its container is not left to a log that vanishes with the run.
#[test]
fn a_run_says_why_an_executor_cannot_set_up_its_container() {
    let cluster = cluster!();
    cluster.write("quiet.yaml", QUIET);
    let run = cluster.egret(["run", "quiet.yaml"]).spawn();
    let executor = one(&all_seen(&cluster, "quiet", 10), |p| p.role == "executor" && p.container == 1);
    let files = cluster.leftovers().files;
    let starts = files.iter().find(|file| file.ends_with("container-1/starts.json")).unwrap();
    // A folder is where the next executor writes.
    fs::create_dir(starts.with_extension("tmp")).unwrap();
    signal(executor.pid, Signal::KILL);
    let finished = run.finish().expect(1);
    assert!(finished.stderr.contains("cannot note this start"), "{finished}");
    cluster.wait_until_clean(false);
}

/// The command's document is one, and its exit status that of the failure.
#[test]
fn a_run_that_cannot_clean_up_prints_one_document() {
    let cluster = cluster!();
    cluster.write("quiet.yaml", QUIET);
    let run = cluster.egret(["run", "--json", "quiet.yaml"]).spawn();
    let _ = cluster.wait_until("quiet", "running");
    let state = cluster.home().join("state/local");
    fs::rename(&state, state.with_extension("aside")).unwrap();
    fs::write(&state, "no folder").unwrap();
    run.signal(Signal::INT);
    let finished = run.finish().expect(4);
    assert_eq!(finished.json()["state"], "interrupted");
    assert!(finished.stderr.contains("error: state"), "{finished}");
    assert!(cluster.processes().is_empty(), "{}", cluster.leftovers());
}
