//! How connections end.

use super::{DEADLINE, Rig, bytes_of, frame};
use crate::net::epoll::EpollReactor;
use crate::net::link::{HEADER_BYTES, Outgoing};
use crate::net::reactor::CloseReason;
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

pub(super) fn a_frame_for_a_closed_connection_gives_its_token_back(rig: &mut Rig) {
    rig.late = true;
    let (conn, _peer) = rig.half();
    rig.reactor.close(conn);
    rig.reactor.send(conn, frame(1, 10, Some(1)));
    rig.settle_close(conn);
    rig.until("token", |rig| rig.tokens(conn) == [1]);
    rig.closed.clear();
    rig.reactor.send(conn, frame(1, 10, Some(2)));
    rig.reactor.send(conn, frame(1, 10, None));
    rig.reactor.close(conn);
    rig.reactor.close_after_flush(conn);
    rig.until("token", |rig| rig.tokens(conn) == [1, 2]);
    rig.turn(Duration::ZERO);
    assert!(rig.closed.is_empty());
}

/// BR-055. `EGRET_TEST_CLOSES` says how many connections.
pub(super) fn closing_with_operations_in_flight(rig: &mut Rig) {
    let closes = std::env::var("EGRET_TEST_CLOSES").map_or(150, |closes| closes.parse().unwrap());
    let frames: Vec<Outgoing> = (0..5).map(|n| frame(n, 100_000, Some(n.into()))).collect();
    let copy = |of: &Outgoing| Outgoing { header: of.header, body: of.body.clone(), token: of.token };
    for round in 0..closes {
        // The peer never reads: a receive waits, and a send that is too large for the socket's buffers.
        let (conn, mut peer) = rig.half();
        rustix::net::sockopt::set_socket_send_buffer_size(rig.reactor.fd(conn).unwrap(), 4096).unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size(&peer, 4096).unwrap();
        frames.iter().for_each(|frame| rig.reactor.send(conn, copy(frame)));
        (0..round % 4).for_each(|_| rig.turn(Duration::ZERO));
        if round % 3 == 0 {
            peer.write_all(&[1; 1000]).unwrap();
        }
        rig.reactor.close(conn);
        assert!(matches!(rig.settle_close(conn), CloseReason::Local));
        assert_eq!(rig.tokens(conn), [0, 1, 2, 3, 4], "round {round}");
        assert!(rig.reactor.fd(conn).is_none());
    }
    let address = rig.listen();
    let (client, server) = rig.pair(address);
    rig.reactor.send(client, frame(1, 1000, None));
    rig.until("a frame after all that", |rig| rig.got(server) == 1000 + HEADER_BYTES);
}

pub(super) fn closing_while_connecting(rig: &mut Rig) {
    let address = rig.listen();
    for turns in 0..3 {
        let conn = rig.reactor.connect(address).unwrap();
        rig.reactor.send(conn, frame(1, 10, Some(1)));
        (0..turns).for_each(|_| rig.turn(Duration::ZERO));
        rig.reactor.close(conn);
        assert!(matches!(rig.settle_close(conn), CloseReason::Local));
        assert_eq!(rig.tokens(conn), [1]);
    }
}

pub(super) fn an_old_id_reaches_nobody(rig: &mut Rig) {
    let mut ids = HashSet::new();
    for _ in 0..20 {
        let (conn, mut peer) = rig.half();
        assert!(ids.insert(conn), "{conn:?} was used before");
        for &old in &ids {
            if old != conn {
                rig.reactor.send(old, frame(7, 10, None));
                rig.reactor.close(old);
                assert!(rig.reactor.fd(old).is_none());
            }
        }
        rig.reactor.send(conn, frame(1, 10, None));
        let mut got = vec![0; 10 + HEADER_BYTES];
        rig.until("sent", |rig| rig.reactor.queued_bytes(conn) == 0);
        peer.read_exact(&mut got).unwrap();
        assert_eq!(got, bytes_of(&frame(1, 10, None)));
        drop(peer);
        assert!(matches!(rig.settle_close(conn), CloseReason::Peer));
    }
}

pub(super) fn what_came_before_the_close_is_read_first(rig: &mut Rig) {
    let (conn, mut peer) = rig.half();
    peer.write_all(&[7; 200_000]).unwrap();
    drop(peer);
    assert!(matches!(rig.settle_close(conn), CloseReason::Peer));
    assert_eq!(rig.got(conn), 200_000);
}

pub(super) fn last_words_are_read_after_a_failed_send(rig: &mut Rig) {
    let (conn, mut peer) = rig.half();
    rig.turn(Duration::ZERO);
    peer.write_all(b"go away").unwrap();
    // A linger time of zero: closing resets the connection, so that sending fails.
    rustix::net::sockopt::set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
    drop(peer);
    (0..20).for_each(|n| rig.reactor.send(conn, frame(n, 100_000, Some(n.into()))));
    assert!(matches!(rig.settle_close(conn), CloseReason::Failed(_)));
    assert_eq!(rig.received[&conn], b"go away");
    assert_eq!(rig.tokens(conn), (0..20).collect::<Vec<u64>>());
}

pub(super) fn close_after_flush_delivers_everything(rig: &mut Rig) {
    let (conn, mut peer) = rig.half();
    let frames: Vec<Outgoing> = (0..30).map(|n| frame(n, 100_000, Some(n.into()))).collect();
    let want: Vec<u8> = frames.iter().flat_map(bytes_of).collect();
    frames.into_iter().for_each(|frame| rig.reactor.send(conn, frame));
    rig.reactor.close_after_flush(conn);
    rig.reactor.send(conn, frame(99, 10, Some(99)));
    // What the peer says meanwhile must not reset the connection.
    peer.write_all(b"still talking").unwrap();
    let reader = std::thread::spawn(move || {
        let mut got = Vec::new();
        peer.read_to_end(&mut got).map(|_| got)
    });
    assert!(matches!(rig.settle_close(conn), CloseReason::Local));
    assert!(reader.join().unwrap().unwrap() == want);
    assert_eq!(rig.got(conn), 0, "nothing is received after closing");
    let mut tokens = rig.tokens(conn).to_vec();
    tokens.sort_unstable();
    assert_eq!(tokens, (0..30).chain([99]).collect::<Vec<u64>>());
}

pub(super) fn close_after_flush_gives_up_on_a_peer_that_does_not_read(rig: &mut Rig) {
    let (conn, _peer) = rig.half();
    (0..100).for_each(|n| rig.reactor.send(conn, frame(n, 300_000, Some(n.into()))));
    rig.reactor.close_after_flush(conn);
    assert!(matches!(rig.settle_close(conn), CloseReason::Local));
    assert_eq!(rig.tokens(conn).len(), 100);
}

pub(super) fn dropping_with_operations_in_flight(rig: &mut Rig) {
    let address = rig.listen();
    let (conn, mut peer) = rig.half();
    rig.reactor.send(conn, frame(1, 30 << 20, Some(1)));
    let (_, _) = rig.pair(address);
    rig.turn(Duration::ZERO);
    rig.reactor = Box::new(EpollReactor::new().unwrap());
    peer.set_read_timeout(Some(DEADLINE)).unwrap();
    assert!(peer.read_to_end(&mut Vec::new()).is_ok(), "the peer sees the end");
    assert!(TcpStream::connect(address).is_err(), "the listener is gone");
}
