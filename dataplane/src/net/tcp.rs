//! What every TCP connection of Egret has: no delay, and an end when its peer's host is gone.
//!
//! A host is gone when it has answered nothing for [`DEAD_HOST`]. Of connections with nothing to send the kernel finds
//! that out by keepalive. Of the others it would by `TCP_USER_TIMEOUT`, but that also ends those whose peer does not
//! read for so long: since Linux 5.11 the time of a closed window counts, however well the host answers each probe of
//! it ("tcp: fix TCP_USER_TIMEOUT with zero window"). What was sent would be lost since a process was stopped for a
//! while. So it is not set, and whoever polls connections looks at each now and then: [`Rounds`], [`host_is_gone`].
#![allow(unsafe_code)]

use rustix::net::sockopt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

/// How long a host may answer nothing. Tests have no time for more.
pub(super) const DEAD_HOST: Duration = Duration::from_secs(if cfg!(test) { 3 } else { 15 });

/// An idle connection is probed after so long, and then so often, so many times. The others are looked at as often.
const PROBE: Duration = Duration::from_secs(DEAD_HOST.as_secs() / 3);
const PROBES: u32 = (DEAD_HOST.as_secs() / PROBE.as_secs()) as u32 - 1;

/// Polls that do not wait, between two looks at the clock.
const POLLS: u32 = 64;

/// Segments in a row that a host must have left unanswered.
const UNANSWERED: u8 = 2;

/// Prepares a connection, made or accepted.
pub(super) fn prepare(socket: impl AsFd) -> io::Result<()> {
    sockopt::set_tcp_nodelay(&socket, true)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, PROBE)?;
    sockopt::set_tcp_keepintvl(&socket, PROBE)?;
    sockopt::set_tcp_keepcnt(&socket, PROBES)?;
    Ok(())
}

/// When connections are to be looked at.
#[derive(Debug)]
pub(super) struct Rounds {
    at: Option<Instant>,
    polls: u32,
}

impl Rounds {
    pub(super) const fn new() -> Self {
        Self { at: None, polls: 0 }
    }

    /// To be asked in each poll. A busy thread polls far more often than it has to look at the clock; who may wait
    /// looks each time.
    pub(super) fn is_due(&mut self, may_wait: bool) -> bool {
        self.polls += 1;
        if !may_wait && self.polls < POLLS {
            return false;
        }
        self.polls = 0;
        let now = Instant::now();
        let due = self.at.is_none_or(|at| at <= now);
        if due {
            self.at = Some(now + PROBE);
        }
        due
    }
}

/// Whether the host of the peer is gone: nothing has come from it for so long, and it has left more than one segment
/// unanswered. `false` for what is no TCP connection.
///
/// Silence alone says nothing: probes of a closed window get as rare as one in two minutes, and what was sent this
/// moment has had no time to be answered. Nor does it matter whether something is unacknowledged: behind a closed
/// window, or without a route, nothing is.
pub(super) fn host_is_gone(socket: impl AsFd) -> bool {
    let Some(info) = info(socket) else { return false };
    let silence_ms = info.tcpi_last_ack_recv.min(info.tcpi_last_data_recv);
    // The first counts what was sent again since anything new was acknowledged, the second probes without an answer.
    let unanswered = info.tcpi_retransmits.max(info.tcpi_probes);
    u128::from(silence_ms) > DEAD_HOST.as_millis() && unanswered >= UNANSWERED
}

/// What a connection ends with whose peer's host is gone.
pub(super) fn gone() -> io::Error {
    rustix::io::Errno::TIMEDOUT.into()
}

fn info(socket: impl AsFd) -> Option<libc::tcp_info> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `len` bytes, which is what there is.
    let failed = unsafe {
        libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut len)
    };
    // SAFETY: it is made of numbers, for which zeros are valid, and so is what the kernel wrote.
    (failed == 0).then(|| unsafe { info.assume_init() })
}
