//! How connections begin, and how bytes move.

use super::{DEADLINE, Rig, bytes_of, frame};
use crate::frame::Purpose;
use crate::net::link::{FrameHeader, FrameLimits, HEADER_BYTES, Outgoing};
use crate::net::reactor::{CloseReason, ConnId};
use std::collections::HashSet;
use std::io::{self, Read};
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

pub(super) fn connects_and_talks(rig: &mut Rig) {
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

pub(super) fn a_refused_connect_closes(rig: &mut Rig) {
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

/// BR-053.
pub(super) fn large_frames_through_a_small_send_buffer_and_a_slow_reader(rig: &mut Rig) {
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

pub(super) fn tokens_come_back_once_and_in_order(rig: &mut Rig) {
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

pub(super) fn of_what_makes_each_other_needless_the_last_arrives(rig: &mut Rig) {
    let (conn, mut peer) = rig.half();
    let credit = |n| Outgoing::credit(n, n);
    rig.reactor.send(conn, frame(1, 16 << 20, None));
    for n in 0..1000 {
        rig.turn(Duration::ZERO);
        rig.reactor.send_latest(conn, credit(n));
        rig.reactor.send_latest(conn, credit(n));
    }
    assert!(rig.reactor.queued_bytes(conn) <= (16 << 20) + 2 * HEADER_BYTES, "one waits");
    let want = [bytes_of(&frame(1, 16 << 20, None)), bytes_of(&credit(999))].concat();
    let mut got = vec![0; want.len()];
    let reader = std::thread::spawn(move || peer.read_exact(&mut got).map(|()| got));
    rig.until("everything to leave", |rig| rig.reactor.queued_bytes(conn) == 0);
    assert!(reader.join().unwrap().unwrap() == want);
}

pub(super) fn many_connections(rig: &mut Rig) {
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

pub(super) fn a_hoarder_of_buffers_gets_everything_in_the_end(rig: &mut Rig) {
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

pub(super) fn woken_from_outside(rig: &mut Rig) {
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

pub(super) fn idle_waiting_ends_and_uses_no_cpu(rig: &mut Rig) {
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

pub(super) fn unix_sockets(rig: &mut Rig) {
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

pub(super) fn blocks_are_sent_from_where_they_lie(rig: &mut Rig) {
    use crate::memory::{BlockBytes, OwnedBlock, Pool, PoolConfig};
    use crate::net::link::{FrameDecoder, FrameSink};
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
        rig.reactor.send(client, Outgoing::batch(index, Purpose::Data, bytes, index.into()));
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
