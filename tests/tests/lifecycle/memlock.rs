//! BR-062: a user without privileges who may lock little memory: the same results, and a warning at most.

use crate::support::{lines_with, logs};
use egret_tests::{Cluster, cluster};

/// `nobody`, as a rule.
const OTHER: u32 = 65_534;

/// A thousand numbers that go from container to container.
const THOUSAND: &str = "name: thousand
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

/// Runs it with so much memory to lock.
fn runs_with(cluster: &Cluster, locked_bytes: u32) {
    let yaml = cluster.write("t.yaml", THOUSAND);
    let limit = format!("--memlock={locked_bytes}:{locked_bytes}");
    let mut submit = cluster.egret(["submit"]).arg(yaml);
    let mut limited = cluster.command("prlimit").arg(limit).arg("--").arg(submit.inner().get_program());
    limited = limited.args(submit.inner().get_args());
    let _ = limited.run().expect(0);
    cluster.wait_until_clean(true);
    let mut numbers: Vec<u64> = cluster.read("out.tsv").lines().map(|line| line.parse().unwrap()).collect();
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(0..1000), "{numbers:?}");
    let said = logs(cluster, "stmgr.log");
    assert_eq!(said.len(), 2);
    for log in said {
        assert!(lines_with(&log, " WARN ") <= 1 && lines_with(&log, "ERROR") == 0, "{log}");
    }
}

/// Root may lock what it likes, and runs it as another user.
#[test]
fn little_memory_to_lock_is_enough() {
    let own = cluster!();
    let is_root = rustix::process::geteuid().is_root();
    for locked_bytes in [64 << 10, 8 << 20] {
        let cluster = if is_root { own.beside_as(OTHER) } else { own.beside() };
        runs_with(&cluster, locked_bytes);
    }
}
