//! Instances, peers and strangers that do what they may not: their connection ends, the others go on.

use super::harness::{Cluster, DEADLINE, Instance, Talk};
use super::{REACTORS, await_running, chain};
use crate::frame::{BatchBuilder, BatchHeader, Destination, Purpose};
use crate::ids::{BlockId, ContainerId, Incarnation, StreamIndex, TaskId};
use crate::memory::{Descriptor, DescriptorKind, Pool, PoolConfig};
use crate::message::{HelloPeer, Message, PROTOCOL_VERSION, RegisterInstance};
use crate::net::handshake::{Secret, fresh_nonce};
use crate::net::link::{Body, FrameHeader, FrameKind, FrameLimits, FrameSink, Outgoing};
use crate::net::session::{Progress, Session};
use crate::stmgr::sinks::ControlSink;
use bytes::Bytes;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Reads until the other end closes.
fn expect_close(mut stream: impl Read) {
    let mut rest = [0; 4096];
    loop {
        match stream.read(&mut rest) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
}

#[test]
fn a_lying_instance_is_cut_off_alone() {
    for reactor in REACTORS {
        let cluster = Cluster::start(chain(), &[1, 1], reactor);
        let mut a = Instance::register(&cluster, 1, 1, 1);
        let mut b = Instance::register(&cluster, 1, 2, 1);
        let talks = cluster.run_all();
        await_running(&mut a);
        // A block of another task.
        let kind = DescriptorKind::Data;
        let foreign = Descriptor { kind, block: BlockId(64), target: 2, used: 100, count: 1 };
        a.say(foreign);
        a.talk.expect_close();
        let mut a = Instance::register(&cluster, 1, 1, 2);
        a.emit(Destination::Task(TaskId(2)), b"honest");
        let got = b.next();
        assert_eq!(b.consume(got).1, b"honest");
        cluster.stop(talks, vec![a, b]);
    }
}

#[test]
fn registrations_that_do_not_fit_are_refused_with_the_reason() {
    let cluster = Cluster::start(chain(), &[1, 1], "epoll");
    let a = Instance::register(&cluster, 1, 1, 5);
    let right = RegisterInstance {
        version: PROTOCOL_VERSION,
        topology: "t".into(),
        task: TaskId(2),
        incarnation: Incarnation(1),
        pid: 1,
        ended: false,
    };
    let wrong = [
        (RegisterInstance { version: 99, ..right.clone() }, "version"),
        (RegisterInstance { topology: "other".into(), ..right.clone() }, "belongs to topology"),
        (RegisterInstance { task: TaskId(9), ..right.clone() }, "not in container"),
        (RegisterInstance { task: TaskId(1), ..right }, "there already"),
    ];
    for (register, expected) in wrong {
        let stream = UnixStream::connect(cluster.socket(1)).unwrap();
        let mut talk = Talk::new(stream, Session::trusted(FrameLimits::control_only()));
        talk.send(&Message::RegisterInstance(register));
        let reason = talk.expect("a refusal", |m| match m {
            Message::Refused(reason) => Some(reason.clone()),
            _ => None,
        });
        assert!(reason.contains(expected), "{reason}");
        talk.expect_close();
    }
    // Garbage in place of a registration.
    let mut stream = UnixStream::connect(cluster.socket(1)).unwrap();
    stream.write_all(&[0xff; 64]).unwrap();
    expect_close(stream);
    let b = Instance::register(&cluster, 1, 2, 1);
    let talks = cluster.run_all();
    cluster.stop(talks, vec![a, b]);
}

/// Takes in whatever a stmgr sends to a peer.
#[derive(Default)]
struct Anything {
    messages: Vec<Message>,
    credits: Vec<FrameHeader>,
}

impl FrameSink for Anything {
    type Block = Vec<u8>;
    type Error = ();

    fn begin_batch(&mut self, header: &FrameHeader) -> Result<Vec<u8>, ()> {
        Ok(vec![0; header.len as usize])
    }

    fn batch(&mut self, _: &FrameHeader, _: Vec<u8>) -> Result<(), ()> {
        Ok(())
    }

    fn control(&mut self, body: &[u8]) -> Result<(), ()> {
        self.messages.push(Message::decode(body).unwrap());
        Ok(())
    }

    fn end(&mut self, _: &FrameHeader) -> Result<(), ()> {
        Ok(())
    }

    fn credit(&mut self, header: &FrameHeader) -> Result<(), ()> {
        self.credits.push(*header);
        Ok(())
    }
}

/// Someone who connects as a stmgr does.
pub(super) struct FakePeer {
    stream: TcpStream,
    session: Session<Vec<u8>>,
    seen: Anything,
}

impl FakePeer {
    pub(super) fn connect(address: &str, secret: &Secret) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let session = Session::client(secret, fresh_nonce().unwrap(), FrameLimits::batches(1, 1 << 20));
        let mut peer = Self { stream, session, seen: Anything::default() };
        while !peer.session.is_established() {
            assert!(peer.read(), "the handshake goes well");
        }
        peer
    }

    pub(super) fn read(&mut self) -> bool {
        let mut buffer = [0; 4096];
        let count = self.stream.read(&mut buffer).unwrap_or(0);
        let mut replies = Vec::new();
        self.session.on_bytes(&buffer[..count], |f| replies.push(f), &mut self.seen).map(drop).unwrap();
        replies.iter().for_each(|frame| self.send(frame));
        count > 0
    }

    fn send(&mut self, frame: &Outgoing) {
        let mut bytes = frame.header.encode().to_vec();
        if let Body::Bytes(body) = &frame.body {
            bytes.extend_from_slice(body);
        }
        // The other end may have closed in the middle of it.
        let _ = self.stream.write_all(&bytes);
    }

    pub(super) fn say_hello(&mut self, container: u32, incarnation: u32) {
        let hello = HelloPeer { container: ContainerId(container), incarnation: Incarnation(incarnation) };
        self.send(&Outgoing::control(&Message::HelloPeer(hello)));
    }

    pub(super) fn tell(&mut self, message: &Message) {
        self.send(&Outgoing::control(message));
    }

    /// Says hello as container 1, and waits for credit for one destination.
    pub(super) fn link(address: &str, secret: &Secret, incarnation: u32) -> Self {
        let mut peer = Self::connect(address, secret);
        peer.say_hello(1, incarnation);
        while peer.seen.credits.len() < 3 {
            assert!(peer.read());
        }
        assert!(matches!(peer.seen.messages[..], [Message::HelloPeer(_)]));
        peer
    }

    fn send_batch(&mut self, target: u32, body: Vec<u8>) {
        self.send_block(target, Purpose::Data as u32, body);
    }

    pub(super) fn send_block(&mut self, target: u32, purpose: u32, body: Vec<u8>) {
        let header = FrameHeader::new(FrameKind::Batch, body.len() as u32, target, purpose);
        self.send(&Outgoing { header, body: Body::Bytes(Bytes::from(body)), token: None });
    }
}

pub(super) fn batch_of_task_1(tuple: &[u8]) -> Vec<u8> {
    let pool = PoolConfig { counts: [1, 0, 0], max_tuple_bytes: 1 << 20 };
    let pool = Arc::new(Pool::create(&pool).unwrap());
    let (target, stream) = (Destination::Task(TaskId(2)), StreamIndex(0));
    let header = BatchHeader { source: TaskId(1), target, stream, edge_base: 0 };
    let mut batch = BatchBuilder::new(pool.claim(BlockId(0)).unwrap(), header);
    batch.append(&[], tuple.len(), |space| space.copy_from_slice(tuple)).unwrap();
    let (block, descriptor) = batch.finish();
    block.bytes()[..descriptor.used as usize].to_vec()
}

/// BR-041.
#[test]
fn strangers_and_lying_peers_are_cut_off_alone() {
    for reactor in REACTORS {
        let cluster = Cluster::start(chain(), &[1, 2], reactor);
        let mut a = Instance::register(&cluster, 1, 1, 1);
        let mut b = Instance::register(&cluster, 2, 2, 1);
        let mut talks = cluster.run_all();
        await_running(&mut a);
        let address = cluster.address_of(1);
        // Garbage, and someone with another secret.
        let mut garbage = TcpStream::connect(&address).unwrap();
        garbage.write_all(&[0xff; 4096]).unwrap();
        expect_close(garbage);
        let stranger = TcpStream::connect(&address).unwrap();
        let limits = FrameLimits::control_only();
        let other = Session::client(&Secret::generate().unwrap(), fresh_nonce().unwrap(), limits);
        expect_refused_handshake(stranger, other);
        // Proven, but not who they say they are, or without saying it.
        for container in [0, 2, 3] {
            let mut peer = FakePeer::connect(&address, &cluster.secret);
            peer.say_hello(container, 1);
            while peer.read() {}
        }
        let mut silent = FakePeer::connect(&address, &cluster.secret);
        silent.send_batch(2, batch_of_task_1(b"x"));
        while silent.read() {}
        // A newer stmgr of container 1: it takes the link over, and its credit is stated.
        let mut peer = FakePeer::link(&address, &cluster.secret, 7);
        // Nonsense from an instance over there is dropped, and the link stands.
        peer.send_batch(2, vec![0xff; 200]);
        let mut forged = batch_of_task_1(b"x");
        forged[4] = 2;
        peer.send_batch(2, forged);
        peer.send_batch(2, batch_of_task_1(b"right"));
        let got = b.next();
        assert_eq!(b.consume(got), (TaskId(1), b"right".to_vec()));
        talks[1].heartbeat(|h| h.dropped == [("malformed_batch".to_owned(), 2)]);
        // What only a faulty stmgr sends ends the link; then the true one comes back.
        peer.send_batch(99, batch_of_task_1(b"x"));
        while peer.read() {}
        a.emit(Destination::Task(TaskId(2)), b"true");
        let got = b.next();
        assert_eq!(b.consume(got).1, b"true");
        cluster.stop(talks, vec![a, b]);
    }
}

fn expect_refused_handshake(mut stream: TcpStream, mut session: Session) {
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer).unwrap_or(0);
        if count == 0 {
            break;
        }
        let mut replies = Vec::new();
        let outcome = session.on_bytes(&buffer[..count], |f| replies.push(f), &mut ControlSink::default());
        assert!(!matches!(outcome, Ok(Progress::JustEstablished | Progress::Established)));
        for frame in replies {
            let Body::Bytes(body) = frame.body else { continue };
            let _ = stream.write_all(&[&frame.header.encode()[..], &body[..]].concat());
        }
    }
}
