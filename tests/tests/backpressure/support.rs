//! A topology in YAML that runs, and what its status says of backpressure.

use egret_tests::{Cluster, DEADLINE, Process, Running, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a test overloads.
pub(crate) fn overload_s() -> u64 {
    std::env::var("EGRET_TEST_OVERLOAD_S").map_or(6, |text| text.parse().expect("a number of seconds"))
}

/// Long enough for a run that overloads for so long.
pub(crate) fn deadline() -> Duration {
    DEADLINE + Duration::from_secs(3 * overload_s())
}

/// A topology that was started and flows.
pub(crate) struct Flow<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) run: Running,
    name: &'static str,
}

/// A task that is behind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slow {
    pub(crate) component: String,
    pub(crate) for_s: f64,
    /// Held spout tasks.
    pub(crate) holds: Vec<u64>,
}

impl<'a> Flow<'a> {
    /// Runs the topology `NAME` with these components and streams, and waits until each bolt has executed something.
    pub(crate) fn start(cluster: &'a Cluster, name: &'static str, options: &[&str], rest: &str) -> Self {
        let file = cluster.write(format!("{name}.yaml"), format!("name: {name}\n{rest}"));
        let run = cluster.egret(["run", "--json"]).args(options).arg(file).spawn();
        let flow = Self { cluster, run, name };
        flow.await_status("tuples to flow", |status| {
            let components = status["components"].as_array()?;
            let flows = |c: &Value| c["emitted"] != 0 || c["executed"] != 0;
            (status["state"] == "running" && components.iter().all(flows)).then_some(())
        });
        flow
    }

    /// Waits until the status has what `look` looks for; it is not asked while the tmaster tells nothing.
    #[track_caller]
    pub(crate) fn await_status<T>(&self, what: &str, mut look: impl FnMut(&Value) -> Option<T>) -> T {
        let mut last = None;
        let found = egret_tests::try_for(DEADLINE, || {
            assert!(!self.run.has_ended(), "the run ended: {}", self.run.stderr());
            let told = self.cluster.status(self.name).filter(|status| !status["epoch"].is_null())?;
            look(last.insert(told))
        });
        found.unwrap_or_else(|| panic!("waited in vain for {what}: {last:#?}"))
    }

    /// Waits until exactly these spout tasks are held for a component.
    #[track_caller]
    pub(crate) fn await_held(&self, component: &str, spouts: &[u64]) -> Slow {
        self.await_status(&format!("{component} to hold {spouts:?}"), |status| {
            slow(status).into_iter().find(|slow| slow.component == component && slow.holds == spouts)
        })
    }

    /// Waits until no task of a component is behind.
    #[track_caller]
    pub(crate) fn await_relief(&self, component: &str) {
        self.await_status(&format!("{component} to recover"), |status| {
            slow(status).iter().all(|slow| slow.component != component).then_some(())
        });
    }

    /// The one process with this role and component or container.
    pub(crate) fn pid(&self, role: &str, key: &str, value: &Value) -> u32 {
        self.await_status("a process", |status| {
            let processes = status["processes"].as_array()?;
            let found = processes.iter().find(|p| p["role"] == role && p[key] == *value)?;
            u32::try_from(found["pid"].as_u64()?).ok()
        })
    }

    /// Sends a signal to the one instance of a component.
    pub(crate) fn signal(&self, component: &str, signal: Signal) {
        send(self.pid("instance", "component", &component.into()), signal);
    }

    /// How many tuples a component has executed, as its stmgr last said.
    pub(crate) fn executed(&self, component: &str) -> u64 {
        self.await_status("counters", |status| executed(status, component))
    }

    /// Waits until a component has executed more than it had.
    pub(crate) fn await_more(&self, component: &str) {
        let before = self.executed(component);
        wait_for("more to be executed", DEADLINE, || (self.executed(component) > before).then_some(()));
    }

    /// Waits for its end, at which nothing is left. Gives the summary.
    pub(crate) fn complete(self) -> Value {
        let summary = self.run.finish_within(deadline()).expect(0).json();
        assert_eq!(summary["state"], "completed", "{summary}");
        self.cluster.wait_until_clean(false);
        summary
    }
}

/// Sends a signal to a process that lives.
pub(crate) fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

/// How many tuples a component has executed.
pub(crate) fn executed(status: &Value, component: &str) -> Option<u64> {
    status["components"].as_array()?.iter().find(|c| c["id"] == component)?["executed"].as_u64()
}

/// The tasks that are behind.
pub(crate) fn slow(status: &Value) -> Vec<Slow> {
    let tasks = status["backpressure"]["tasks"].as_array().unwrap_or_else(|| panic!("none in {status}"));
    let one = |task: &Value| Slow {
        component: task["component"].as_str().unwrap().to_owned(),
        for_s: task["for_s"].as_f64().unwrap(),
        holds: task["holds"].as_array().unwrap().iter().map(|s| s["task"].as_u64().unwrap()).collect(),
    };
    tasks.iter().map(one).collect()
}

/// A counter of a component in a summary.
#[track_caller]
pub(crate) fn count(summary: &Value, component: &str, counter: &str) -> u64 {
    let value = &summary["components"][component][counter];
    value.as_u64().unwrap_or_else(|| panic!("no {component}/{counter} in {summary}"))
}

/// At most one start or stop a second, for components of one task: a start in two seconds.
#[track_caller]
pub(crate) fn check_starts(summary: &Value, components: &[&str]) {
    let elapsed_s = summary["elapsed_s"].as_f64().unwrap();
    for component in components {
        let starts = summary["components"][component]["backpressure"]["starts"].as_u64().unwrap();
        assert!(starts as f64 <= elapsed_s / 2.0 + 1.0, "{component} in {elapsed_s} s: {summary}");
    }
}

/// Resident memory of every process that a cluster has had.
#[derive(Debug, Default)]
pub(crate) struct Memory(BTreeMap<u32, Resident>);

#[derive(Debug, Default)]
struct Resident {
    name: String,
    pool_kib: u64,
    /// At each look.
    all_kib: Vec<u64>,
    /// Without what is shared, at each look.
    own_kib: Vec<u64>,
}

impl Memory {
    /// Looks at all processes now.
    pub(crate) fn look(&mut self, processes: &[Process]) {
        for process in processes {
            let read = |file| std::fs::read_to_string(format!("/proc/{}/{file}", process.pid));
            let (Ok(status), Ok(maps)) = (read("status"), read("maps")) else { continue };
            let kib = |name| {
                let found =
                    status.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB"));
                found?.parse::<u64>().ok()
            };
            let (Some(all), Some(own)) = (kib("VmRSS:"), kib("RssAnon:")) else { continue };
            let pool: u64 = maps.lines().filter(|line| line.contains("egret-pool")).map(length).sum();
            let entry = self.0.entry(process.pid).or_default();
            (entry.name, entry.pool_kib) = (process.args.join(" "), entry.pool_kib.max(pool >> 10));
            entry.all_kib.push(all);
            entry.own_kib.push(own);
        }
    }

    /// At most the pool, what watermarks allow, and 64 MiB.
    #[track_caller]
    pub(crate) fn check(&self) {
        assert!(self.0.len() >= 4, "all processes were seen: {self:?}");
        for Resident { name, pool_kib, all_kib, .. } in self.0.values() {
            let (most_kib, rss_kib) = (pool_kib + 512 + (64 << 10), all_kib.iter().max().unwrap());
            assert!(*rss_kib <= most_kib, "{name} has {rss_kib} KiB of at most {most_kib} KiB");
        }
    }

    /// No process has more of its own at the end than in the middle, but for what an allocator keeps.
    #[track_caller]
    pub(crate) fn check_flat(&self) {
        for Resident { name, own_kib, .. } in self.0.values() {
            let middle = own_kib[own_kib.len() / 4..=own_kib.len() / 2].iter().max().unwrap();
            let end = own_kib[own_kib.len() * 3 / 4..].iter().max().unwrap();
            assert!(*end <= middle + middle / 20 + 1024, "{name} grew from {middle} KiB to {end} KiB");
        }
    }
}

/// The length of a mapping, from its line in `/proc/PID/maps`.
fn length(line: &str) -> u64 {
    let range = line.split(' ').next().and_then(|range| range.split_once('-'));
    let (from, to) = range.unwrap_or_else(|| panic!("no range in {line}"));
    u64::from_str_radix(to, 16).unwrap() - u64::from_str_radix(from, 16).unwrap()
}
