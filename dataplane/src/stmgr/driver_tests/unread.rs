//! A tmaster that does not read what it is told.

use super::harness::{Cluster, Instance, wait_for};
use super::{REACTORS, await_running, chain};
use crate::ids::{Epoch, Incarnation, TaskId};
use crate::message::{Latency, MAX_HISTOGRAM_BYTES, Message};

#[test]
fn a_tmaster_that_does_not_read_is_left_and_found_again() {
    for reactor in REACTORS {
        let cluster = Cluster::start(chain(), &[1, 1], reactor);
        let mut a = Instance::register(&cluster, 1, 1, 1);
        let b = Instance::register(&cluster, 1, 2, 1);
        let mut talks = cluster.run_all();
        await_running(&mut a);
        let told =
            Latency { task: TaskId(1), incarnation: Incarnation(1), histogram: vec![7; MAX_HISTOGRAM_BYTES] };
        let told = Message::Latency(told);
        let mut count = 0;
        let (mut next, register) = wait_for("another connection", || {
            a.talk.send(&told);
            count += 1;
            cluster.try_accept()
        });
        // Besides what this side lets wait, the kernel has room for some: 32 MiB at most where nobody has changed that.
        assert!(count * MAX_HISTOGRAM_BYTES < 64 << 20, "{count} were told");
        assert_eq!(register.epoch, Epoch(1));
        // The last one is told again, and those before are gone with their connection.
        next.expect("what was told last", |message| (*message == told).then_some(()));
        talks.pop().unwrap().expect_close();
        cluster.stop(vec![next], vec![a, b]);
    }
}
