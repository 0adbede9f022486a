//! What these tests look at: processes as `egret status` names them and as `/proc` shows them, and logs.

use egret_tests::{Cluster, DEADLINE, Process, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// The test program.
pub(crate) const BEHAVIOURS: &str = env!("CARGO_BIN_EXE_behaviours");

/// A thousand numbers that go from container to container.
pub(crate) const THOUSAND: &str = "name: thousand
config: {topology.containers: 2}
spouts:
  - {id: numbers, type: sequence, args: {count: 1000}}
bolts:
  - {id: pass, type: identity, parallelism: 3}
  - {id: out, type: file-sink, args: {path: out.tsv}}
streams:
  - {from: numbers, to: pass, grouping: {type: SHUFFLE}}
  - {from: pass, to: out, grouping: {type: GLOBAL}}
";

/// A process as `egret status` shows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seen {
    pub(crate) role: String,
    pub(crate) container: u32,
    pub(crate) task: Option<u32>,
    pub(crate) component: Option<String>,
    pub(crate) pid: u32,
}

/// The processes of a status.
pub(crate) fn seen(status: &Value) -> Vec<Seen> {
    let number = |value: &Value| value.as_u64().map(|n| u32::try_from(n).unwrap());
    let processes = status["processes"].as_array().unwrap_or_else(|| panic!("no processes in {status}"));
    let one = |p: &Value| Seen {
        role: p["role"].as_str().unwrap().to_owned(),
        container: number(&p["container"]).unwrap(),
        task: number(&p["task"]),
        component: p["component"].as_str().map(str::to_owned),
        pid: number(&p["pid"]).unwrap(),
    };
    processes.iter().map(one).collect()
}

/// Waits until the topology runs and `count` processes of it are known, which are those then.
pub(crate) fn all_seen(cluster: &Cluster, topology: &str, count: usize) -> Vec<Seen> {
    wait_for(&format!("{count} processes of {topology}"), DEADLINE, || {
        let status = cluster.status(topology)?;
        let seen = seen(&status);
        (status["state"] == "running" && seen.len() == count).then_some(seen)
    })
}

/// The only process that this holds for.
pub(crate) fn one(seen: &[Seen], which: impl Fn(&Seen) -> bool) -> Seen {
    let mut found = seen.iter().filter(|process| which(process));
    let first = found.next().unwrap_or_else(|| panic!("no such process in {seen:#?}"));
    assert_eq!(found.next(), None, "a second one");
    first.clone()
}

/// Sends a signal to a process that lives.
pub(crate) fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

/// The letter of `/proc/PID/stat`: `T` stopped, `Z` ended and not waited for; `None` for no process.
pub(crate) fn letter(pid: u32) -> Option<char> {
    stat(pid)?.first()?.chars().next()
}

/// The process that started it, or has adopted it.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    stat(pid)?.get(1)?.parse().ok()
}

/// User and system time since its start.
pub(crate) fn cpu_time(pid: u32) -> Option<Duration> {
    let fields = stat(pid)?;
    let ticks: u64 = fields[11].parse::<u64>().ok()? + fields[12].parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
}

/// The fields of `/proc/PID/stat` from the state on.
fn stat(pid: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before them is in brackets and may hold anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    Some(fields.split(' ').map(str::to_owned).collect())
}

/// Its threads.
pub(crate) fn threads(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_str().unwrap().parse().unwrap()).collect()
}

/// The log of a process, by the end of its path, such as `container-1/log-files/stmgr.log`.
pub(crate) fn log(cluster: &Cluster, path_end: &str) -> String {
    let files = cluster.leftovers().files;
    let mut found = files.iter().filter(|file| file.ends_with(path_end));
    let path = found.next().unwrap_or_else(|| panic!("no {path_end} among {files:#?}"));
    fs::read_to_string(path).unwrap()
}

/// All logs with this file name.
pub(crate) fn logs(cluster: &Cluster, name: &str) -> Vec<String> {
    let files: Vec<PathBuf> = cluster.leftovers().files;
    files.iter().filter(|f| f.ends_with(name)).map(|f| fs::read_to_string(f).unwrap()).collect()
}

/// Waits for the end of [`THOUSAND`] and gives its sorted results.
pub(crate) fn thousand_results(cluster: &Cluster) -> Vec<u64> {
    cluster.wait_until_clean(true);
    let mut numbers: Vec<u64> = cluster.read("out.tsv").lines().map(|line| line.parse().unwrap()).collect();
    numbers.sort_unstable();
    numbers
}

/// The logs of its two stmgrs.
pub(crate) fn stmgr_logs(cluster: &Cluster) -> Vec<String> {
    let logs = logs(cluster, "stmgr.log");
    assert_eq!(logs.len(), 2);
    logs
}

/// How many lines contain this.
pub(crate) fn lines_with(text: &str, part: &str) -> usize {
    text.lines().filter(|line| line.contains(part)).count()
}

/// Names of state entries: every file and folder below the home's `state/CLUSTER`.
pub(crate) fn state_entries(cluster: &Cluster) -> Vec<String> {
    let clusters = fs::read_dir(cluster.home().join("state")).into_iter().flatten().flatten();
    let entries = clusters.flat_map(|cluster| fs::read_dir(cluster.path()).into_iter().flatten().flatten());
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Whether this is root, who alone may be several users; says so where it is not.
pub(crate) fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("not root: this test has nothing to look at");
    }
    root
}

/// The living process of this number.
pub(crate) fn process(pid: u32) -> Process {
    Process::read(pid).unwrap_or_else(|| panic!("there is no process {pid}"))
}
