//! io_uring refused by a seccomp filter, as in many containers: the same results over epoll, and one line in the log.

use crate::support::{THOUSAND, lines_with, stmgr_logs, thousand_results};
use egret_tests::{Cluster, cluster};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};
use std::collections::BTreeMap;

/// For the calling thread and all processes that it starts from now on.
fn refuse_uring() {
    let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let rules = BTreeMap::from([(libc::SYS_io_uring_setup, Vec::new())]);
    let refusal = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, arch).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

/// Submits it, waits for its end, and gives its sorted results.
fn results(cluster: &Cluster, options: &[&str]) -> Vec<u64> {
    cluster.write("t.yaml", THOUSAND);
    let _ = cluster.egret(["submit", "t.yaml"]).args(options).run().expect(0);
    thousand_results(cluster)
}

#[test]
fn where_io_uring_is_refused_results_are_the_same_and_a_line_says_so() {
    let cluster = cluster!();
    let refused = std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            refuse_uring();
            results(&cluster, &[])
        });
        run.join().unwrap()
    });
    assert_eq!(refused, Vec::from_iter(0..1000));
    for log in stmgr_logs(&cluster) {
        assert_eq!(lines_with(&log, "io_uring refused ("), 1, "{log}");
        assert_eq!(lines_with(&log, "using epoll"), 1, "{log}");
        assert_eq!(lines_with(&log, "reactor=\"epoll\""), 1, "{log}");
    }

    let other = cluster.beside();
    assert_eq!(results(&other, &[]), refused, "the same with io_uring, where there is one");
}

#[test]
fn where_io_uring_is_refused_and_nothing_else_is_wanted_the_reason_is_told() {
    let cluster = cluster!();
    cluster.write("t.yaml", THOUSAND);
    let failed = std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            refuse_uring();
            cluster.egret(["run", "t.yaml", "-c", "egret.network.reactor=uring"]).run()
        });
        run.join().unwrap()
    });
    let failed = failed.expect(1);
    assert!(failed.stderr.contains("io_uring") && failed.stderr.contains("stmgr"), "{}", failed.stderr);
    cluster.wait_until_clean(false);
}
