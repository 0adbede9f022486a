//! What every TCP connection of Egret has: no delay, and an end when its peer's host is gone.

use rustix::net::sockopt;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// How long a connection lasts whose peer's host does not answer: one that is idle, or has sent something. That the peer
/// itself is slow, or stopped, ends none, as its host still answers for it.
const DEAD_HOST: Duration = Duration::from_secs(15);

/// An idle connection is probed after so long, and then so often, so many times.
const PROBE: Duration = Duration::from_secs(5);
const PROBES: u32 = (DEAD_HOST.as_secs() / PROBE.as_secs()) as u32 - 1;

/// Prepares a connection, made or accepted.
pub(super) fn prepare(socket: impl AsFd) -> io::Result<()> {
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, PROBE)?;
    sockopt::set_tcp_keepintvl(&socket, PROBE)?;
    sockopt::set_tcp_keepcnt(&socket, PROBES)?;
    sockopt::set_tcp_user_timeout(&socket, DEAD_HOST.as_millis() as u32)?;
    Ok(())
}
