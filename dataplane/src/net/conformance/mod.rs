//! What every reactor must do, run over each of them: io_uring, io_uring with queues that are far too small, epoll.

mod closing;
mod moving;
mod refused;
mod vanished;

use super::epoll::EpollReactor;
use super::link::{Body, FrameHeader, FrameKind, Outgoing};
use super::reactor::{Choice, CloseReason, ConnId, Event, Reactor, RecvBuf};
use super::uring::UringReactor;
use std::collections::{HashMap, HashSet};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(60);

/// A reactor and what it has said.
struct Rig {
    reactor: Box<dyn Reactor>,
    events: Vec<Event>,
    accepted: Vec<ConnId>,
    connected: Vec<ConnId>,
    received: HashMap<ConnId, Vec<u8>>,
    tokens: HashMap<ConnId, Vec<u64>>,
    closed: HashMap<ConnId, CloseReason>,
    woken: usize,
    /// Frames are sent on connections that have ended.
    late: bool,
    /// Keep received buffers instead of giving them back.
    hoard: Option<Vec<RecvBuf>>,
}

impl Rig {
    fn new(reactor: Box<dyn Reactor>) -> Self {
        Self {
            reactor,
            events: Vec::new(),
            accepted: Vec::new(),
            connected: Vec::new(),
            received: HashMap::new(),
            tokens: HashMap::new(),
            closed: HashMap::new(),
            woken: 0,
            late: false,
            hoard: None,
        }
    }

    fn turn(&mut self, timeout: Duration) {
        self.reactor.poll(Some(timeout), &mut self.events).unwrap();
        for event in std::mem::take(&mut self.events) {
            match event {
                Event::Accepted { conn, .. } => self.accepted.push(conn),
                Event::Connected { conn } => self.connected.push(conn),
                Event::Received { conn, buf } => {
                    assert!(!self.closed.contains_key(&conn), "received after closed");
                    self.received.entry(conn).or_default().extend_from_slice(self.reactor.bytes(&buf));
                    match &mut self.hoard {
                        Some(hoard) => hoard.push(buf),
                        None => self.reactor.recycle(buf),
                    }
                }
                Event::Sent { conn, token } => {
                    assert!(self.late || !self.closed.contains_key(&conn), "a token after closed");
                    self.tokens.entry(conn).or_default().push(token);
                }
                Event::Closed { conn, reason } => {
                    assert!(self.closed.insert(conn, reason).is_none(), "closed twice");
                }
                Event::Woken => self.woken += 1,
            }
        }
    }

    fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !done(self) {
            assert!(Instant::now() < deadline, "{}: {what} did not come", self.reactor.name());
            self.turn(Duration::from_millis(100));
        }
    }

    fn listen(&mut self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        self.reactor.listen_tcp(listener).unwrap();
        address
    }

    /// Both ends in this reactor: (connecting, accepting).
    fn pair(&mut self, address: SocketAddr) -> (ConnId, ConnId) {
        let before = self.accepted.len();
        let conn = self.reactor.connect(address).unwrap();
        self.until("connection", |rig| rig.accepted.len() > before && rig.connected.contains(&conn));
        (conn, self.accepted[before])
    }

    /// One end in this reactor, one in the test.
    fn half(&mut self) -> (ConnId, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (ours, _) = listener.accept().unwrap();
        (self.reactor.adopt(ours.into()).unwrap(), theirs)
    }

    fn got(&self, conn: ConnId) -> usize {
        self.received.get(&conn).map_or(0, Vec::len)
    }

    fn tokens(&self, conn: ConnId) -> &[u64] {
        self.tokens.get(&conn).map_or(&[], Vec::as_slice)
    }

    fn settle_close(&mut self, conn: ConnId) -> &CloseReason {
        self.until("close", |rig| rig.closed.contains_key(&conn));
        &self.closed[&conn]
    }
}

/// A frame whose body is a pattern that differs from place to place and from frame to frame.
fn frame(seed: u32, len: usize, token: Option<u64>) -> Outgoing {
    let mut state = u64::from(seed) + 1;
    let body: Vec<u8> = (0..len)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect();
    let header = FrameHeader::new(FrameKind::Batch, len as u32, seed, 0);
    Outgoing { header, body: if len == 0 { Body::Empty } else { Body::Bytes(body.into()) }, token }
}

fn bytes_of(frame: &Outgoing) -> Vec<u8> {
    let mut bytes = frame.header.encode().to_vec();
    if let Body::Bytes(body) = &frame.body {
        bytes.extend_from_slice(body);
    }
    bytes
}

/// `None` where the kernel refuses io_uring; the test says so and passes.
fn open_uring(submissions: u32, completions: u32) -> Option<UringReactor> {
    match UringReactor::with_entries(submissions, completions) {
        Ok(reactor) => Some(reactor),
        Err(error) => {
            let refused = [libc::EPERM, libc::ENOSYS, libc::ENOMEM];
            assert!(error.raw_os_error().is_some_and(|code| refused.contains(&code)), "{error}");
            eprintln!("skipped: io_uring refused ({error})");
            None
        }
    }
}

macro_rules! conformance {
    ($($file:ident::$test:ident),* $(,)?) => {
        mod epoll {
            use super::*;
            $(#[test] fn $test() {
                $file::$test(&mut Rig::new(Box::new(EpollReactor::new().unwrap())));
            })*
        }
        mod uring {
            use super::*;
            $(#[test] fn $test() {
                let Some(reactor) = open_uring(128, 512) else { return };
                $file::$test(&mut Rig::new(Box::new(reactor)));
            })*
        }
        mod uring_with_tiny_queues {
            use super::*;
            $(#[test] fn $test() {
                let Some(reactor) = open_uring(4, 8) else { return };
                $file::$test(&mut Rig::new(Box::new(reactor)));
            })*
        }
    };
}

conformance! {
    moving::connects_and_talks,
    moving::a_refused_connect_closes,
    moving::large_frames_through_a_small_send_buffer_and_a_slow_reader,
    moving::tokens_come_back_once_and_in_order,
    moving::of_what_makes_each_other_needless_the_last_arrives,
    moving::many_connections,
    moving::a_hoarder_of_buffers_gets_everything_in_the_end,
    moving::woken_from_outside,
    moving::idle_waiting_ends_and_uses_no_cpu,
    moving::unix_sockets,
    moving::blocks_are_sent_from_where_they_lie,
    closing::a_frame_for_a_closed_connection_gives_its_token_back,
    closing::closing_with_operations_in_flight,
    closing::closing_while_connecting,
    closing::an_old_id_reaches_nobody,
    closing::what_came_before_the_close_is_read_first,
    closing::last_words_are_read_after_a_failed_send,
    closing::close_after_flush_delivers_everything,
    closing::close_after_flush_gives_up_on_a_peer_that_does_not_read,
    closing::dropping_with_operations_in_flight,
    vanished::connections_to_a_host_that_is_gone_end,
    vanished::connections_to_a_host_that_answers_nothing_end,
    vanished::a_peer_that_does_not_read_is_not_taken_for_gone,
}

/// BR-052.
#[test]
fn an_overflowing_completion_queue_loses_nothing() {
    let Some(mut reactor) = open_uring(4, 8) else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    reactor.listen_tcp(listener).unwrap();
    let mut conns: HashSet<ConnId> = (0..200).map(|_| reactor.connect(address).unwrap()).collect();
    let (mut accepted, mut events, deadline) = (0, Vec::new(), Instant::now() + DEADLINE);
    while !conns.is_empty() || accepted < 200 {
        assert!(Instant::now() < deadline, "{} connects and {accepted} accepts", conns.len());
        reactor.poll(Some(Duration::from_millis(100)), &mut events).unwrap();
        for event in events.drain(..) {
            match event {
                Event::Connected { conn } => assert!(conns.remove(&conn)),
                Event::Accepted { .. } => accepted += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(reactor.overflows() > 0);
}

#[test]
fn the_choice_is_kept() {
    assert_eq!(super::reactor::open(Choice::Epoll).unwrap().name(), "epoll");
    let auto = super::reactor::open(Choice::Auto).unwrap().name();
    assert_eq!(auto, if open_uring(8, 16).is_some() { "io_uring" } else { "epoll" });
    assert_eq!(Choice::parse("uring"), Some(Choice::Uring));
    assert_eq!(Choice::parse("kqueue"), None);
}
