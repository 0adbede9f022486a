//! A peer whose host is gone without a word.
#![allow(unsafe_code)]

use super::{Rig, frame};
use crate::net::reactor::CloseReason;
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::process::Command;

fn loopback(state: &str) -> bool {
    Command::new("ip").args(["link", "set", "lo", state]).status().is_ok_and(|status| status.success())
}

/// One connection is idle, one has sent something. In a network of its own, whose only device goes down.
pub(super) fn connections_to_a_host_that_is_gone_end(rig: &mut Rig) {
    // SAFETY: threads share no table that this takes apart.
    let alone = unsafe { unshare_unsafe(UnshareFlags::NEWNET) };
    if alone.is_err() || !loopback("up") {
        eprintln!("skipped: only root can have a network of its own");
        return;
    }
    let address = rig.listen();
    let idle = rig.pair(address);
    let busy = rig.pair(address);
    assert!(loopback("down"));
    rig.reactor.send(busy.0, frame(1, 1000, None));
    for conn in [busy.0, busy.1, idle.0, idle.1] {
        assert!(matches!(rig.settle_close(conn), CloseReason::Failed(_)), "{:?}", rig.closed[&conn]);
    }
}
