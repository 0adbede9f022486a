//! A peer whose host is gone without a word, and one that only does not read.
#![allow(unsafe_code)]

use super::{Rig, bytes_of, frame};
use crate::net::reactor::{CloseReason, ConnId};
use crate::net::tcp::DEAD_HOST;
use rustix::net::sockopt;
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::{Duration, Instant};

fn loopback(state: &str) -> bool {
    Command::new("ip").args(["link", "set", "lo", state]).status().is_ok_and(|status| status.success())
}

/// A peer outside of the reactor with little room.
fn peer(rig: &mut Rig) -> (ConnId, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    sockopt::set_socket_recv_buffer_size(&listener, 64 << 10).unwrap();
    let conn = rig.reactor.connect(listener.local_addr().unwrap()).unwrap();
    rig.until("connection", |rig| rig.connected.contains(&conn));
    (conn, listener.accept().unwrap().0)
}

/// One that does not read, and was sent far more than it has room for.
fn unread(rig: &mut Rig) -> (ConnId, TcpStream) {
    let (conn, peer) = peer(rig);
    rig.reactor.send(conn, frame(1, 16 << 20, Some(1)));
    for _ in 0..10 {
        rig.turn(Duration::from_millis(10));
    }
    (conn, peer)
}

/// One connection is idle, one has sent something, and one waits for room at its peer. In a network of its own, whose
/// only device goes down.
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
    let (full, _peer) = unread(rig);
    assert!(loopback("down"));
    rig.reactor.send(busy.0, frame(1, 1000, None));
    for conn in [busy.0, busy.1, idle.0, idle.1, full] {
        assert!(matches!(rig.settle_close(conn), CloseReason::Failed(_)), "{:?}", rig.closed[&conn]);
    }
}

/// From now on nothing that comes reaches this socket, so its host answers nothing.
fn deafen(socket: &TcpStream) {
    let mut drop_all = libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut drop_all };
    // SAFETY: the kernel copies the program, which is as long as it says.
    let failed = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    assert_eq!(failed, 0, "{}", std::io::Error::last_os_error());
}

/// The same three, but what they send seems to leave, and gets lost.
pub(super) fn connections_to_a_host_that_answers_nothing_end(rig: &mut Rig) {
    let conns = [peer(rig), peer(rig), unread(rig)];
    conns.iter().for_each(|(_, theirs)| deafen(theirs));
    let [idle, busy, full] = conns.each_ref().map(|(conn, _)| *conn);
    rig.reactor.send(busy, frame(1, 1000, Some(2)));
    for conn in [idle, busy, full] {
        match rig.settle_close(conn) {
            CloseReason::Failed(error) => assert_eq!(error.kind(), std::io::ErrorKind::TimedOut),
            other => panic!("{other}"),
        }
    }
    assert_eq!((rig.tokens(busy), rig.tokens(full)), (&[2][..], &[1][..]));
}

pub(super) fn a_peer_that_does_not_read_is_not_taken_for_gone(rig: &mut Rig) {
    let (conn, mut peer) = unread(rig);
    let until = Instant::now() + 3 * DEAD_HOST;
    while Instant::now() < until {
        rig.turn(Duration::from_millis(100));
        assert!(rig.closed.is_empty(), "{:?}", rig.closed);
    }
    assert!(rig.reactor.queued_bytes(conn) > 4 << 20);
    let want = bytes_of(&frame(1, 16 << 20, None));
    let mut got = vec![0; want.len()];
    let reader = std::thread::spawn(move || peer.read_exact(&mut got).map(|()| got));
    rig.until("everything to leave", |rig| rig.tokens(conn) == [1]);
    assert!(reader.join().unwrap().unwrap() == want);
}
