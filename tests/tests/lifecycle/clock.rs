//! BR-046: the wall clock is set back by 1000 s while tuples flow.
//!
//! The clock of the host is not touched. Every process of the topology gets a small library before libc that takes
//! 1000 s from what the wall clock says as long as a file is there; that the logs' times go back shows that it works.
//! Waits in the kernel are not covered by this: that nothing waits by the wall clock is a rule, see `structure`.

use crate::flow::{Flow, NAME, command};
use crate::support::{Seen, logs, one, seen, signal};
use egret_tests::{Cluster, DEADLINE, cluster, wait_for};
use rustix::process::Signal;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long back(void) {
    const char *file = getenv("CLOCK_IS_BACK_WHILE");
    return file && access(file, F_OK) == 0 ? 1000 : 0;
}
int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec -= back();
    return result;
}
int gettimeofday(struct timeval *time, void *zone) {
    int result = syscall(SYS_gettimeofday, time, zone);
    if (result == 0 && time) time->tv_sec -= back();
    return result;
}
time_t time(time_t *where) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (where) *where = now.tv_sec;
    return now.tv_sec;
}
"#;

/// The library; the linker that Rust needs can make it.
fn library(cluster: &Cluster) -> PathBuf {
    let (source, library) = (cluster.write("clock.c", CLOCK), cluster.path("clock.so"));
    let made = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).status();
    assert!(made.expect("there is a C compiler where Rust links").success());
    library
}

/// Whether the log's times go back by 1000 s at some line.
fn goes_back(log: &str) -> bool {
    let times: Vec<u64> = log.lines().filter_map(seconds).collect();
    times.windows(2).any(|pair| pair[1] + 900 < pair[0])
}

/// The time at which a line of a log begins, in seconds of its month: `2026-12-31T23:59:59.9Z …`.
fn seconds(line: &str) -> Option<u64> {
    let part = |range: std::ops::Range<usize>| line.get(range)?.parse::<u64>().ok();
    Some(((part(8..10)? * 24 + part(11..13)?) * 60 + part(14..16)?) * 60 + part(17..19)?)
}

/// Kills the instance of `pass` in a container, so that its executor has to wait before it starts another, and its stmgr
/// has something to say.
fn an_instance_comes_back(flow: &Flow<'_>, container: u32) {
    let now = seen(&flow.cluster.status(NAME).unwrap());
    let victim = one(&now, |p| p.component.as_deref() == Some("pass") && p.container == container);
    signal(victim.pid, Signal::KILL);
    let _ = flow.successor(&victim);
    flow.more_arrive();
}

fn has_gone_back(cluster: &Cluster, file: &str) -> bool {
    logs(cluster, file).iter().any(|log| goes_back(log))
}

#[test]
fn a_wall_clock_that_is_set_back_bothers_nobody() {
    let cluster = cluster!();
    let switch: &Path = &cluster.path("the-clock-is-back");
    let (run, folder) = command(&cluster, "run", &["-c", "topology.tick.tuple.freq.ms=20"]);
    let run = run.env("LD_PRELOAD", library(&cluster)).env("CLOCK_IS_BACK_WHILE", switch);
    let flow = Flow::of(&cluster, run, folder);
    an_instance_comes_back(&flow, 1);
    File::create(switch).unwrap();
    flow.more_arrive();
    an_instance_comes_back(&flow, 1);
    an_instance_comes_back(&flow, 2);
    fs::remove_file(switch).unwrap();
    flow.more_arrive();
    an_instance_comes_back(&flow, 2);

    let others = |seen: &[Seen]| -> Vec<Seen> {
        seen.iter().filter(|p| p.component.as_deref() != Some("pass")).cloned().collect()
    };
    let now = seen(&cluster.status(NAME).unwrap());
    assert_eq!(others(&now), others(&flow.first), "nobody else has died");
    for file in ["stmgr.log", "executor.log"] {
        wait_for("a log whose time went back", DEADLINE, || has_gone_back(&cluster, file).then_some(()));
    }
    flow.complete(4);
}
