//! What every reactor must do, run over each of them: io_uring, io_uring with queues that are far too small, epoll.

use super::epoll::EpollReactor;
use super::link::{Body, FrameHeader, FrameKind, FrameLimits, HEADER_BYTES, Outgoing};
use super::reactor::{Choice, CloseReason, ConnId, Event, Reactor, RecvBuf};
use super::uring::UringReactor;
use std::collections::{HashMap, HashSet};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
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
fn uring(submissions: u32, completions: u32) -> Option<UringReactor> {
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
    ($($test:ident),* $(,)?) => {
        mod epoll {
            $(#[test] fn $test() { super::$test(&mut super::Rig::new(Box::new(super::EpollReactor::new().unwrap()))); })*
        }
        mod uring {
            $(#[test] fn $test() {
                let Some(reactor) = super::uring(128, 512) else { return };
                super::$test(&mut super::Rig::new(Box::new(reactor)));
            })*
        }
        mod uring_with_tiny_queues {
            $(#[test] fn $test() {
                let Some(reactor) = super::uring(4, 8) else { return };
                super::$test(&mut super::Rig::new(Box::new(reactor)));
            })*
        }
    };
}

conformance! {
    connects_and_talks,
    a_refused_connect_closes,
    large_frames_through_a_small_send_buffer_and_a_slow_reader,
    tokens_come_back_once_and_in_order,
    a_frame_for_a_closed_connection_gives_its_token_back,
    closing_with_operations_in_flight,
    closing_while_connecting,
    an_old_id_reaches_nobody,
    many_connections,
    a_hoarder_of_buffers_gets_everything_in_the_end,
    woken_from_outside,
    idle_waiting_ends_and_uses_no_cpu,
    unix_sockets,
    what_came_before_the_close_is_read_first,
    last_words_are_read_after_a_failed_send,
    close_after_flush_delivers_everything,
    close_after_flush_gives_up_on_a_peer_that_does_not_read,
    dropping_with_operations_in_flight,
    blocks_are_sent_from_where_they_lie,
}

fn connects_and_talks(rig: &mut Rig) {
    let address = rig.listen();
    let (client, server) = rig.pair(address);
    let there = [frame(1, 0, None), frame(2, 100, None), frame(3, 0, None)];
    let want: Vec<u8> = there.iter().flat_map(bytes_of).collect();
    there.into_iter().for_each(|frame| rig.reactor.send(client, frame));
    rig.reactor.send(server, frame(4, 70_000, None));
    let back = bytes_of(&frame(4, 70_000, None));
    rig.until("frames", |rig| rig.got(server) == want.len() && rig.got(client) == back.len());
    assert_eq!((&rig.received[&server], &rig.received[&client]), (&want, &back));
    for conn in [client, server] {
        let socket = rig.reactor.fd(conn).unwrap();
        assert!(rustix::net::sockopt::tcp_nodelay(socket).unwrap());
    }
    rig.reactor.close(client);
    assert!(matches!(rig.settle_close(client), CloseReason::Local));
    assert!(matches!(rig.settle_close(server), CloseReason::Peer));
    assert!(rig.reactor.fd(client).is_none());
}

fn a_refused_connect_closes(rig: &mut Rig) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let conn = rig.reactor.connect(address).unwrap();
    rig.reactor.send(conn, frame(1, 10, Some(1)));
    match rig.settle_close(conn) {
        CloseReason::ConnectFailed(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused),
        other => panic!("{other}"),
    }
    assert_eq!(rig.tokens(conn), [1]);
    assert!(rig.connected.is_empty());
}

fn large_frames_through_a_small_send_buffer_and_a_slow_reader(rig: &mut Rig) {
    let (conn, mut peer) = rig.half();
    rustix::net::sockopt::set_socket_send_buffer_size(rig.reactor.fd(conn).unwrap(), 4096).unwrap();
    peer.set_nonblocking(true).unwrap();
    let frames: Vec<Outgoing> = [100_000, 1, 8 << 20, 0, 4097, 300_000]
        .iter()
        .enumerate()
        .map(|(n, &len)| frame(n as u32, len, Some(n as u64)))
        .collect();
    let want: Vec<u8> = frames.iter().flat_map(bytes_of).collect();
    frames.into_iter().for_each(|frame| rig.reactor.send(conn, frame));
    assert_eq!(rig.reactor.queued_bytes(conn), want.len());
    let (mut got, mut buffer, deadline) = (Vec::new(), vec![0; 1 << 20], Instant::now() + DEADLINE);
    for turn in 0_usize.. {
        assert!(Instant::now() < deadline, "{} of {} bytes came", got.len(), want.len());
        rig.turn(Duration::ZERO);
        // Stop and go: most turns read nothing, some a little, some all there is.
        let most = [0, 0, 0, 100, 0, 10_000, 0, 1 << 20][turn % 8];
        match peer.read(&mut buffer[..most]) {
            Ok(len) => got.extend_from_slice(&buffer[..len]),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
        if got.len() >= want.len() && rig.tokens(conn).len() == 6 {
            break;
        }
    }
    assert!(got == want, "bytes differ");
    assert_eq!(rig.tokens(conn), [0, 1, 2, 3, 4, 5]);
    assert_eq!(rig.reactor.queued_bytes(conn), 0);
}

fn tokens_come_back_once_and_in_order(rig: &mut Rig) {
    let address = rig.listen();
    let (client, server) = rig.pair(address);
    let mut bytes = 0;
    for round in 0..10_u64 {
        for n in 0..100 {
            let len = (n as usize * 37) % 5000;
            bytes += HEADER_BYTES + len;
            rig.reactor.send(client, frame(n as u32, len, (n % 2 == 0).then_some(round * 100 + n)));
        }
        rig.turn(Duration::ZERO);
    }
    rig.until("frames", |rig| rig.got(server) == bytes && rig.tokens(client).len() == 500);
    assert_eq!(rig.tokens(client), (0..1000).step_by(2).collect::<Vec<u64>>());
}

fn a_frame_for_a_closed_connection_gives_its_token_back(rig: &mut Rig) {
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

fn closing_with_operations_in_flight(rig: &mut Rig) {
    for round in 0..150 {
        // The peer never reads: a receive waits, and a send that is too large for the socket's buffers.
        let (conn, mut peer) = rig.half();
        rustix::net::sockopt::set_socket_send_buffer_size(rig.reactor.fd(conn).unwrap(), 4096).unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size(&peer, 4096).unwrap();
        (0..5).for_each(|n| rig.reactor.send(conn, frame(n, 100_000, Some(n.into()))));
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

fn closing_while_connecting(rig: &mut Rig) {
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

fn an_old_id_reaches_nobody(rig: &mut Rig) {
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

fn many_connections(rig: &mut Rig) {
    const COUNT: usize = 300;
    let address = rig.listen();
    let clients: Vec<ConnId> = (0..COUNT).map(|_| rig.reactor.connect(address).unwrap()).collect();
    for (n, &client) in clients.iter().enumerate() {
        (0..3).for_each(|_| rig.reactor.send(client, frame(n as u32, 500, Some(n as u64))));
    }
    let want = 3 * (500 + HEADER_BYTES);
    rig.until("all frames", |rig| {
        rig.accepted.len() == COUNT && rig.accepted.iter().all(|&conn| rig.got(conn) == want)
    });
    let mut seen = HashSet::new();
    for conn in rig.accepted.clone() {
        let bytes = &rig.received[&conn];
        let header = FrameHeader::decode(bytes.first_chunk().unwrap()).unwrap();
        assert!(seen.insert(header.target));
        assert_eq!(*bytes, bytes_of(&frame(header.target, 500, None)).repeat(3));
        rig.reactor.send(conn, frame(header.target, 40_000, None));
    }
    let back = 40_000 + HEADER_BYTES;
    rig.until("all answers", |rig| clients.iter().all(|&conn| rig.got(conn) == back));
    clients.iter().for_each(|&client| rig.reactor.close(client));
    rig.until("all closed", |rig| rig.closed.len() == 2 * COUNT);
}

fn a_hoarder_of_buffers_gets_everything_in_the_end(rig: &mut Rig) {
    let address = rig.listen();
    let pairs: Vec<_> = (0..3).map(|_| rig.pair(address)).collect();
    for &(client, _) in &pairs {
        (0..40).for_each(|n| rig.reactor.send(client, frame(n, 60_000, None)));
    }
    rig.hoard = Some(Vec::new());
    let want = 40 * (60_000 + HEADER_BYTES);
    let deadline = Instant::now() + DEADLINE;
    while pairs.iter().any(|&(_, server)| rig.got(server) < want) {
        assert!(Instant::now() < deadline);
        // Only a time without any event shows that the buffers are all out; then they all come back at once.
        let before: usize = pairs.iter().map(|&(_, server)| rig.got(server)).sum();
        rig.turn(Duration::from_millis(2));
        let after: usize = pairs.iter().map(|&(_, server)| rig.got(server)).sum();
        if before == after {
            for buf in std::mem::take(rig.hoard.as_mut().unwrap()) {
                rig.reactor.recycle(buf);
            }
        }
    }
    let whole: Vec<u8> = (0..40).flat_map(|n| bytes_of(&frame(n, 60_000, None))).collect();
    assert!(pairs.iter().all(|(_, server)| rig.received[server] == whole));
}

fn woken_from_outside(rig: &mut Rig) {
    let wake = rig.reactor.wake_fd().unwrap();
    rustix::io::write(&wake, &1_u64.to_ne_bytes()).unwrap();
    rig.until("a wake-up that was there before", |rig| rig.woken == 1);
    for n in 2..20 {
        let wake = wake.try_clone().unwrap();
        let other = std::thread::spawn(move || rustix::io::write(&wake, &1_u64.to_ne_bytes()).unwrap());
        rig.until("a wake-up", |rig| rig.woken >= n);
        other.join().unwrap();
    }
    rig.turn(Duration::from_millis(1));
    assert_eq!(rig.woken, 19, "one write, one wake-up");
}

fn idle_waiting_ends_and_uses_no_cpu(rig: &mut Rig) {
    let address = rig.listen();
    let (client, _) = rig.pair(address);
    rig.reactor.send(client, frame(1, 10, None));
    rig.turn(Duration::from_millis(1));
    let cpu = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_nsec;
    let cpu_s = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_sec;
    let (start, before) = (Instant::now(), (cpu_s(), cpu()));
    let mut turns = 0;
    while start.elapsed() < Duration::from_millis(400) {
        rig.turn(Duration::from_millis(200));
        turns += 1;
    }
    let used_ns = (cpu_s() - before.0) * 1_000_000_000 + cpu() - before.1;
    assert!(turns < 20 && used_ns < 100_000_000, "{turns} turns and {used_ns} ns of CPU");
}

fn unix_sockets(rig: &mut Rig) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.sock");
    rig.reactor.listen_unix(UnixListener::bind(&path).unwrap()).unwrap();
    let client = rig.reactor.adopt(UnixStream::connect(&path).unwrap().into()).unwrap();
    rig.until("connection", |rig| rig.accepted.len() == 1);
    let server = rig.accepted[0];
    let peer = rustix::net::sockopt::socket_peercred(rig.reactor.fd(server).unwrap()).unwrap();
    assert_eq!(peer.pid, rustix::process::getpid());
    rig.reactor.send(client, frame(1, 1 << 20, Some(1)));
    rig.reactor.send(server, frame(2, 5, Some(2)));
    let (there, back) = ((1 << 20) + HEADER_BYTES, 5 + HEADER_BYTES);
    rig.until("frames", |rig| rig.got(server) == there && rig.got(client) == back);
    assert!(rig.received[&server] == bytes_of(&frame(1, 1 << 20, None)));
    rig.reactor.close(server);
    assert!(matches!(rig.settle_close(client), CloseReason::Peer));
}

fn what_came_before_the_close_is_read_first(rig: &mut Rig) {
    let (conn, mut peer) = rig.half();
    peer.write_all(&[7; 200_000]).unwrap();
    drop(peer);
    assert!(matches!(rig.settle_close(conn), CloseReason::Peer));
    assert_eq!(rig.got(conn), 200_000);
}

fn last_words_are_read_after_a_failed_send(rig: &mut Rig) {
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

fn close_after_flush_delivers_everything(rig: &mut Rig) {
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

fn close_after_flush_gives_up_on_a_peer_that_does_not_read(rig: &mut Rig) {
    let (conn, _peer) = rig.half();
    (0..100).for_each(|n| rig.reactor.send(conn, frame(n, 300_000, Some(n.into()))));
    rig.reactor.close_after_flush(conn);
    assert!(matches!(rig.settle_close(conn), CloseReason::Local));
    assert_eq!(rig.tokens(conn).len(), 100);
}

fn dropping_with_operations_in_flight(rig: &mut Rig) {
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

fn blocks_are_sent_from_where_they_lie(rig: &mut Rig) {
    use super::link::{FrameDecoder, FrameSink};
    use crate::memory::{BlockBytes, OwnedBlock, Pool, PoolConfig};
    use std::sync::Arc;

    struct Sink(Vec<OwnedBlock>, Vec<(FrameHeader, OwnedBlock)>);
    impl FrameSink for Sink {
        type Block = OwnedBlock;
        type Error = &'static str;
        fn begin_batch(&mut self, _: &FrameHeader) -> Result<OwnedBlock, &'static str> {
            self.0.pop().ok_or("no credit")
        }
        fn batch(&mut self, header: &FrameHeader, block: OwnedBlock) -> Result<(), &'static str> {
            self.1.push((*header, block));
            Ok(())
        }
        fn control(&mut self, _: &[u8]) -> Result<(), &'static str> {
            Err("control")
        }
        fn end(&mut self, _: &FrameHeader) -> Result<(), &'static str> {
            Err("end")
        }
        fn credit(&mut self, _: &FrameHeader) -> Result<(), &'static str> {
            Err("credit")
        }
    }

    let pool = Arc::new(Pool::create(&PoolConfig { counts: [20, 0, 0], max_tuple_bytes: 1 << 16 }).unwrap());
    let claim = |index| pool.claim(crate::ids::BlockId(index)).unwrap();
    let address = rig.listen();
    let (client, server) = rig.pair(address);
    for index in 0..10 {
        let mut block = claim(index);
        block.bytes_mut().fill(index as u8 + 1);
        let bytes = BlockBytes::new(&pool, block.id(), 16_000 + index as usize).unwrap();
        rig.reactor.send(client, Outgoing::batch(index, bytes, index.into()));
    }
    rig.until("tokens", |rig| rig.tokens(client).len() == 10 && rig.got(server) == 10 * 16_016 + 45);
    let mut sink = Sink((10..20).map(claim).collect(), Vec::new());
    let mut decoder = FrameDecoder::new(FrameLimits::batches(64, 16 << 10));
    decoder.feed(&rig.received[&server], &mut sink).unwrap();
    for (n, (header, block)) in sink.1.iter().enumerate() {
        assert_eq!((header.target as usize, header.len as usize), (n, 16_000 + n));
        assert!(block.bytes()[..header.len as usize].iter().all(|&byte| byte == n as u8 + 1));
    }
    assert_eq!(sink.1.len(), 10);
}

#[test]
fn an_overflowing_completion_queue_loses_nothing() {
    let Some(mut reactor) = uring(4, 8) else { return };
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
    assert_eq!(auto, if uring(8, 16).is_some() { "io_uring" } else { "epoll" });
    assert_eq!(Choice::parse("uring"), Some(Choice::Uring));
    assert_eq!(Choice::parse("kqueue"), None);
}
