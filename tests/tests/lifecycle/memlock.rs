//! BR-062: a user without privileges who may lock little memory: the same results, and a warning at most.

use crate::support::{THOUSAND, lines_with, stmgr_logs, thousand_results};
use egret_tests::{Cluster, cluster};

/// `nobody`, as a rule.
const OTHER: u32 = 65_534;

/// Runs [`THOUSAND`] with so much memory to lock.
fn runs_with(cluster: &Cluster, locked_bytes: u32) {
    let yaml = cluster.write("t.yaml", THOUSAND);
    let limit = format!("--memlock={locked_bytes}:{locked_bytes}");
    let mut submit = cluster.egret(["submit"]).arg(yaml);
    let mut limited = cluster.command("prlimit").arg(limit).arg("--").arg(submit.inner().get_program());
    limited = limited.args(submit.inner().get_args());
    let _ = limited.run().expect(0);
    assert_eq!(thousand_results(cluster), Vec::from_iter(0..1000));
    for log in stmgr_logs(cluster) {
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
