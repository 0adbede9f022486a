//! BR-041: what strangers send to the ports and sockets of a running topology. Each is cut off with one line in the
//! log, and no tuple notices.

use crate::flow::{Flow, NAME};
use crate::support::{Seen, lines_with, log, one};
use egret_control::state::State;
use egret_dataplane::ids::{ContainerId, Incarnation, TaskId};
use egret_dataplane::message::{HelloPeer, Message, PROTOCOL_VERSION, RegisterInstance};
use egret_dataplane::net::client::Client;
use egret_dataplane::net::handshake::Secret;
use egret_dataplane::net::link::{Body, FrameHeader, FrameKind, Outgoing};
use egret_tests::{Cluster, DEADLINE, cluster, wait_for};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// The one TCP port that a process listens on.
fn address(process: &Seen) -> SocketAddr {
    let sockets = egret_tests::Process::read(process.pid).unwrap().open_files();
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let port = table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_ours = sockets.iter().any(|s| s.to_str() == Some(&format!("socket:[{}]", fields[9])));
        let (_, port) = fields[1].split_once(':')?;
        (is_ours && fields[3] == "0A").then(|| u16::from_str_radix(port, 16).unwrap())
    });
    (Ipv4Addr::LOCALHOST, port.unwrap_or_else(|| panic!("{process:?} listens nowhere"))).into()
}

fn frame(kind: FrameKind, len: u32, body: &[u8]) -> Vec<u8> {
    let header = FrameHeader { len, kind, flags: 0, target: 1, aux: 0 };
    [&header.encode(), body].concat()
}

fn control(message: &Message) -> Vec<u8> {
    let frame = Outgoing::control(message);
    let Body::Bytes(body) = &frame.body else { panic!("a message is bytes") };
    [&frame.header.encode(), &body[..]].concat()
}

/// Bytes that look like nothing, always the same.
fn garbage() -> Vec<u8> {
    let next = |seed: &u32| Some(seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    std::iter::successors(Some(1_u32), next).skip(1).take(4096).map(|seed| seed.to_be_bytes()[0]).collect()
}

/// What a stranger may say first, to whatever listens.
fn openings() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("garbage", garbage()),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
        ("a TLS hello", [&[0x16, 3, 1, 0, 60, 1, 0, 0, 56, 3, 3][..], &[7; 54]].concat()),
        ("zeros", vec![0; 64]),
        ("an empty handshake", frame(FrameKind::Handshake, 0, &[])),
        ("a huge handshake", frame(FrameKind::Handshake, u32::MAX, &[7; 1000])),
        ("a handshake of nonsense", frame(FrameKind::Handshake, 80, &[7; 80])),
        ("an empty batch", frame(FrameKind::Batch, 0, &[])),
        ("a huge batch", frame(FrameKind::Batch, u32::MAX, &[7; 1000])),
        ("an end", frame(FrameKind::End, 0, &[])),
        ("a huge message", frame(FrameKind::Control, u32::MAX, &[7; 1000])),
        ("a message of nonsense", frame(FrameKind::Control, 64, &[7; 64])),
    ]
}

/// Reads to the end of a connection that the other side ends; what it said first is only its challenge.
fn is_closed(mut stream: impl Read, what: &str) {
    let mut said = Vec::new();
    match stream.read_to_end(&mut said) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{what}: not closed: {error}"),
        _ => assert!(said.len() < 1000, "{what} was told {} bytes", said.len()),
    }
}

/// One kind of listener, and where it logs whom it cuts off.
struct Target<'a> {
    cluster: &'a Cluster,
    log: &'static str,
    line: &'static str,
}

impl Target<'_> {
    fn lines(&self) -> usize {
        lines_with(&log(self.cluster, self.log), self.line)
    }

    /// Does something to it, after which there is one line more in its log.
    #[track_caller]
    fn says_once(&self, what: &str, attack: impl FnOnce()) {
        let before = self.lines();
        attack();
        wait_for(&format!("a line about {what}"), DEADLINE, || (self.lines() > before).then_some(()));
        assert_eq!(self.lines(), before + 1, "{what}: {}", log(self.cluster, self.log));
    }

    /// All openings, by connections that `connect` makes.
    fn endures<S: Read + Write>(&self, connect: impl Fn() -> S) {
        for (what, bytes) in openings() {
            self.says_once(what, || {
                let mut stream = connect();
                // It may be cut off before it has said everything.
                let _ = stream.write_all(&bytes);
                is_closed(stream, what);
            });
        }
    }
}

fn tcp(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

fn unix(path: &PathBuf) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

/// Begins rightly, and then says a byte now and again: not silent, and no use.
fn drips(mut stream: TcpStream) {
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut challenge = [0; 96];
    stream.read_exact(&mut challenge).unwrap();
    let right = frame(FrameKind::Handshake, 80, &[7; 80]);
    let mut dripped = 0;
    // It may be cut off between two bytes.
    while let Some(byte) = right.get(dripped)
        && stream.write_all(&[*byte]).is_ok()
    {
        dripped += 1;
        match stream.read(&mut [0]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            _ => break,
        }
    }
    assert!(dripped < right.len(), "it was let go on to the end");
}

/// With the secret of the topology, which a process of the same user may know.
fn insider(cluster: &Cluster, address: SocketAddr) -> Client {
    let state = State::open(&format!("file:{}", cluster.home().join("state/local").display())).unwrap();
    let secret = Secret::from_hex(&state.execution(NAME).unwrap().unwrap().secret).unwrap();
    Client::connect(address, &secret, DEADLINE).unwrap()
}

/// Sends a message for which it is cut off.
fn insider_is_cut_off(cluster: &Cluster, address: SocketAddr, message: &Message) {
    let mut client = insider(cluster, address);
    client.send(message).unwrap();
    while client.recv(DEADLINE).is_ok_and(|said| said.is_some()) {}
}

/// Neither side tells an outsider more than that.
fn outsider_is_refused(address: SocketAddr) {
    assert!(Client::connect(address, &Secret::generate().unwrap(), DEADLINE).is_err());
}

/// Leaves in the middle of a frame; nobody needs to hear of it, and nothing happens.
fn leaves_early(mut stream: TcpStream) {
    let _ = stream.write_all(&frame(FrameKind::Handshake, 80, &[7; 40]));
    stream.shutdown(Shutdown::Write).unwrap();
    is_closed(stream, "half a frame");
}

fn stranger(topology: &str, task: u32, incarnation: u32) -> RegisterInstance {
    RegisterInstance {
        version: PROTOCOL_VERSION,
        topology: topology.to_owned(),
        task: TaskId(task),
        incarnation: Incarnation(incarnation),
        pid: std::process::id(),
        ended: false,
    }
}

/// An instance that the stmgr has no place for is told why, and closed.
fn refused_instances(target: &Target<'_>, socket: &PathBuf) {
    let cases = [
        ("another topology", stranger("other", 1, 9)),
        ("a task of nobody", stranger(NAME, 99, 1)),
        ("a task of another container", stranger(NAME, 2, 9)),
        ("a task that is there", stranger(NAME, 1, 0)),
    ];
    for (what, register) in cases {
        target.says_once(what, || {
            let mut stream = unix(socket);
            stream.write_all(&control(&Message::RegisterInstance(register))).unwrap();
            is_closed(stream, what);
        });
    }
}

#[test]
fn strangers_are_cut_off_with_one_line_each_and_no_tuple_notices() {
    let cluster = cluster!();
    let flow = Flow::start(&cluster, &[]);
    let stmgr = address(&one(&flow.first, |p| p.role == "stmgr" && p.container == 1));
    let tmaster = address(&one(&flow.first, |p| p.role == "tmaster"));
    let sockets = cluster.leftovers().sockets;
    let socket = sockets.iter().find(|socket| socket.ends_with("container-1/stmgr.sock")).unwrap();
    // They say nothing at all; each is waited for at the end.
    let silent = [tcp(stmgr), tcp(tmaster)];
    let silent_too = unix(socket);
    let dripping = [stmgr, tmaster].map(|address| std::thread::spawn(move || drips(tcp(address))));

    let of_stmgr =
        Target { cluster: &cluster, log: "container-1/log-files/stmgr.log", line: "closed a connection" };
    of_stmgr.endures(|| tcp(stmgr));
    of_stmgr.says_once("a wrong secret", || outsider_is_refused(stmgr));
    let hello = Message::HelloPeer(HelloPeer { container: ContainerId(7), incarnation: Incarnation(1) });
    for message in [Message::StatusRequest, hello] {
        of_stmgr.says_once("a wrong message", || insider_is_cut_off(&cluster, stmgr, &message));
    }
    of_stmgr.endures(|| unix(socket));
    refused_instances(&Target { line: "refused an instance", ..of_stmgr }, socket);

    let of_tmaster =
        Target { cluster: &cluster, log: "container-0/log-files/tmaster.log", line: "connection closes" };
    of_tmaster.endures(|| tcp(tmaster));
    of_tmaster.says_once("a wrong secret", || outsider_is_refused(tmaster));
    let ended = Message::TaskEnded(TaskId(1));
    of_tmaster.says_once("a wrong message", || insider_is_cut_off(&cluster, tmaster, &ended));

    leaves_early(tcp(stmgr));
    leaves_early(tcp(tmaster));
    silent.into_iter().for_each(|stream| is_closed(stream, "silence"));
    is_closed(silent_too, "silence");
    dripping.into_iter().for_each(|drips| drips.join().unwrap());
    let stmgr_line = ("container-1/log-files/stmgr.log", "it has not said who it is", 3);
    let tmaster_line = ("container-0/log-files/tmaster.log", "has not proven the secret in", 2);
    for (path, line, times) in [stmgr_line, tmaster_line] {
        let about_silence = || lines_with(&log(&cluster, path), line);
        wait_for("the lines about silence", DEADLINE, || (about_silence() >= times).then_some(()));
        assert_eq!(about_silence(), times, "{path}");
    }

    let faults = cluster.status(NAME).unwrap()["closed_for_fault"].as_u64().unwrap();
    assert!(faults >= 2 * openings().len() as u64, "{faults} are counted");
    let now = crate::support::seen(&cluster.status(NAME).unwrap());
    assert_eq!(now, flow.first, "nobody has died");
    assert_eq!(flow.complete(0)["lost"], 0);
}

/// A crowd that only connects keeps nobody else out.
#[test]
fn a_crowd_of_silent_connections_keeps_nobody_out() {
    let cluster = cluster!();
    let flow = Flow::start(&cluster, &[]);
    let stmgr = address(&one(&flow.first, |p| p.role == "stmgr" && p.container == 2));
    let tmaster = address(&one(&flow.first, |p| p.role == "tmaster"));
    let crowd: Vec<_> = (0..200).flat_map(|_| [tcp(stmgr), tcp(tmaster)]).collect();
    flow.more_arrive();
    assert_eq!(cluster.status(NAME).unwrap()["state"], "running");
    drop(crowd);
    assert_eq!(flow.complete(0)["lost"], 0);
}
