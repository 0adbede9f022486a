//! Tests of what is pure: decoder, handshake, session.

use super::handshake::{Handshake, HandshakeError, Nonce, Secret};
use super::link::{
    Body, FeedError, FrameDecoder, FrameError, FrameHeader, FrameKind, FrameLimits, FrameSink, HEADER_BYTES,
    Outgoing,
};
use super::session::{Progress, Session, SessionError};
use crate::message::PROTOCOL_VERSION;
use proptest::prelude::*;

const LIMITS: FrameLimits = FrameLimits { min_batch_bytes: 4, max_batch_bytes: 1000, max_control_bytes: 500 };

/// Writes down what it gets.
#[derive(Debug, Default, PartialEq)]
struct Log {
    frames: Vec<(FrameHeader, Vec<u8>)>,
    begun: usize,
    block_bytes: Option<usize>,
    refuse: Option<FrameKind>,
}

impl Log {
    fn add(&mut self, header: FrameHeader, body: &[u8]) -> Result<(), &'static str> {
        self.frames.push((header, body.to_vec()));
        if self.refuse == Some(header.kind) { Err("refused") } else { Ok(()) }
    }
}

impl FrameSink for Log {
    type Block = Vec<u8>;
    type Error = &'static str;

    fn begin_batch(&mut self, header: &FrameHeader) -> Result<Vec<u8>, &'static str> {
        self.begun += 1;
        Ok(vec![0xee; self.block_bytes.unwrap_or(header.len as usize + 3)])
    }

    fn batch(&mut self, header: &FrameHeader, block: Vec<u8>) -> Result<(), &'static str> {
        self.add(*header, &block[..header.len as usize])
    }

    fn control(&mut self, body: &[u8]) -> Result<(), &'static str> {
        self.add(FrameHeader::new(FrameKind::Control, body.len() as u32, 0, 0), body)
    }

    fn end(&mut self, header: &FrameHeader) -> Result<(), &'static str> {
        self.add(*header, &[])
    }

    fn credit(&mut self, header: &FrameHeader) -> Result<(), &'static str> {
        self.add(*header, &[])
    }
}

fn frame(kind: FrameKind, body: &[u8], target: u32) -> Vec<u8> {
    let mut bytes = FrameHeader::new(kind, body.len() as u32, target, 9).encode().to_vec();
    bytes.extend_from_slice(body);
    bytes
}

fn bytes_of(frame: &Outgoing) -> Vec<u8> {
    let mut bytes = frame.header.encode().to_vec();
    if let Body::Bytes(body) = &frame.body {
        bytes.extend_from_slice(body);
    }
    bytes
}

fn some_frames() -> Vec<u8> {
    let body: Vec<u8> = (0..100).collect();
    [
        frame(FrameKind::Control, &body[..33], 0),
        frame(FrameKind::Batch, &body, 7),
        frame(FrameKind::End, &[], 8),
        frame(FrameKind::Batch, &body[..4], 1),
        frame(FrameKind::Credit, &[], u32::MAX),
        frame(FrameKind::Control, &body[..1], 0),
    ]
    .concat()
}

fn decode_in(pieces: &[&[u8]]) -> Result<Log, FeedError<&'static str>> {
    let (mut decoder, mut log) = (FrameDecoder::new(LIMITS), Log::default());
    for piece in pieces {
        decoder.feed(piece, &mut log)?;
    }
    Ok(log)
}

#[test]
fn a_stream_reads_the_same_however_it_is_cut() {
    let bytes = some_frames();
    let whole = decode_in(&[&bytes]).unwrap();
    assert_eq!(whole.frames.len(), 6);
    assert_eq!(whole.frames[1].1, (0..100).collect::<Vec<u8>>());
    assert_eq!(whole.frames[1].0, FrameHeader::new(FrameKind::Batch, 100, 7, 9));
    for at in 0..bytes.len() {
        for second in [at, (at + 1).min(bytes.len()), (at + 17).min(bytes.len())] {
            let cut = decode_in(&[&bytes[..at], &bytes[at..second], &bytes[second..]]);
            assert_eq!(cut.as_ref(), Ok(&whole), "cut at {at} and {second}");
        }
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(decode_in(&single).unwrap(), whole);
}

#[test]
fn rightful_targets_with_wrong_lengths_are_refused_before_a_block_is_taken() {
    for (kind, len) in [
        (FrameKind::Batch, 0),
        (FrameKind::Batch, 3),
        (FrameKind::Batch, 1001),
        (FrameKind::Batch, u32::MAX),
        (FrameKind::Control, 0),
        (FrameKind::Control, 501),
        (FrameKind::Control, u32::MAX),
        (FrameKind::End, 1),
        (FrameKind::Credit, u32::MAX),
    ] {
        let (mut decoder, mut log) = (FrameDecoder::new(LIMITS), Log::default());
        let error = decoder.feed(&FrameHeader::new(kind, len, 1, 0).encode(), &mut log).unwrap_err();
        assert!(matches!(error, FeedError::Frame(FrameError::Length { .. })), "{kind:?} {len}: {error}");
        assert_eq!(log, Log::default());
    }
}

#[test]
fn wrong_kinds_and_flags_are_refused() {
    let mut header = FrameHeader::new(FrameKind::End, 0, 1, 1).encode();
    for kind in [0, 6, 0x0100, u16::MAX] {
        header[4..6].copy_from_slice(&kind.to_le_bytes());
        assert_eq!(decode_in(&[&header]), Err(FrameError::UnknownKind(kind).into()));
    }
    let flags = FrameHeader { flags: 1, ..FrameHeader::new(FrameKind::End, 0, 1, 1) }.encode();
    assert_eq!(decode_in(&[&flags]), Err(FrameError::UnknownFlags(1).into()));
    let late = frame(FrameKind::Handshake, &[0; 80], 0);
    assert_eq!(decode_in(&[&late]), Err(FrameError::UnexpectedHandshake.into()));
}

#[test]
fn nothing_is_read_after_an_error() {
    for refuse in [FrameKind::Batch, FrameKind::Control, FrameKind::End, FrameKind::Credit] {
        let mut decoder = FrameDecoder::new(LIMITS);
        let mut log = Log { refuse: Some(refuse), ..Log::default() };
        assert_eq!(decoder.feed(&some_frames(), &mut log), Err(FeedError::Sink("refused")));
        let seen = log.frames.len();
        assert_eq!(decoder.feed(&some_frames(), &mut log), Err(FrameError::Broken.into()));
        assert_eq!(log.frames.len(), seen, "{refuse:?}");
    }
}

#[test]
fn a_block_that_is_too_small_is_an_error() {
    let (mut decoder, mut log) = (FrameDecoder::new(LIMITS), Log { block_bytes: Some(99), ..Log::default() });
    let error = decoder.feed(&frame(FrameKind::Batch, &[1; 100], 7), &mut log).unwrap_err();
    assert_eq!(error, FrameError::BlockTooSmall { need: 100, have: 99 }.into());
}

#[test]
fn a_batch_that_was_cut_off_gives_its_block_back() {
    let (mut decoder, mut log) = (FrameDecoder::new(LIMITS), Log::default());
    decoder.feed(&frame(FrameKind::Batch, &[1; 100], 7)[..50], &mut log).unwrap();
    let (header, block) = decoder.take_partial().unwrap();
    assert_eq!((header.target, header.len, block.len()), (7, 100, 103));
    assert!(decoder.take_partial().is_none());
    assert_eq!(decoder.feed(&[0], &mut log), Err(FrameError::Broken.into()));
}

#[test]
fn a_claimed_length_takes_no_memory() {
    let limits = FrameLimits::control_only();
    let (mut decoder, mut log) = (FrameDecoder::<Vec<u8>>::new(limits), Log::default());
    let header = FrameHeader::new(FrameKind::Control, limits.max_control_bytes, 0, 0);
    decoder.feed(&header.encode(), &mut log).unwrap();
    decoder.feed(&[1; 100], &mut log).unwrap();
    assert!(format!("{decoder:?}").len() < 2000, "only what came is kept");
}

proptest! {
    #[test]
    fn garbage_never_panics_and_never_passes_its_limits(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let (mut decoder, mut log) = (FrameDecoder::new(LIMITS), Log::default());
        let _ = decoder.feed(&bytes, &mut log);
        for (header, body) in &log.frames {
            prop_assert!(LIMITS.check(header).is_ok());
            prop_assert_eq!(header.len as usize, body.len());
        }
    }

    #[test]
    fn damaged_streams_never_panic(at in 0_usize..230, with in any::<u8>(), cut in 0_usize..230) {
        let mut bytes = some_frames();
        let len = bytes.len();
        bytes[at % len] ^= with;
        let _ = decode_in(&[&bytes[..cut % len], &bytes[cut % len..]]);
    }

    #[test]
    fn garbage_never_passes_a_handshake(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let (mut server, _) = Handshake::server(secret(1), nonce(1));
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let Ok(step) = server.feed(rest) else { break };
            prop_assert!(!step.established && step.reply.is_none());
            rest = &rest[step.used..];
        }
    }
}

fn secret(n: u8) -> Secret {
    Secret::new([n; 32])
}

fn nonce(n: u8) -> Nonce {
    [n; 32]
}

/// Feeds a whole frame.
fn feed(end: &mut Handshake, frame: &Outgoing) -> Result<Option<Outgoing>, HandshakeError> {
    let bytes = bytes_of(frame);
    let step = end.feed(&bytes)?;
    assert_eq!(step.used, bytes.len());
    Ok(step.reply)
}

fn established(end: &mut Handshake) -> bool {
    end.feed(&[]).is_ok_and(|step| step.established)
}

#[test]
fn both_who_know_the_secret_get_through() {
    let (mut server, challenge) = Handshake::server(secret(1), nonce(1));
    let mut client = Handshake::client(secret(1), nonce(2));
    let response = feed(&mut client, &challenge).unwrap().unwrap();
    assert!(!established(&mut client) && !established(&mut server));
    let proof = feed(&mut server, &response).unwrap().unwrap();
    assert!(established(&mut server) && !established(&mut client));
    assert!(feed(&mut client, &proof).unwrap().is_none());
    assert!(established(&mut client));
}

#[test]
fn a_client_with_another_secret_is_refused_and_learns_nothing() {
    let (mut server, challenge) = Handshake::server(secret(1), nonce(1));
    let mut client = Handshake::client(secret(2), nonce(2));
    let response = feed(&mut client, &challenge).unwrap().unwrap();
    assert_eq!(feed(&mut server, &response).unwrap_err(), HandshakeError::WrongSecret);
    assert!(!established(&mut server));
    assert_eq!(feed(&mut server, &response).unwrap_err(), HandshakeError::Failed);
}

#[test]
fn a_server_with_another_secret_is_refused() {
    // It accepts whatever comes, and makes up its proof.
    let (mut real, challenge) = Handshake::server(secret(1), nonce(1));
    let mut client = Handshake::client(secret(1), nonce(2));
    let response = feed(&mut client, &challenge).unwrap().unwrap();
    let mut proof = bytes_of(&feed(&mut real, &response).unwrap().unwrap());
    *proof.last_mut().unwrap() ^= 1;
    assert_eq!(client.feed(&proof).unwrap_err(), HandshakeError::WrongSecret);
    assert!(!established(&mut client));
}

#[test]
fn a_recorded_response_is_worthless() {
    let (mut server, challenge) = Handshake::server(secret(1), nonce(1));
    let mut client = Handshake::client(secret(1), nonce(2));
    let response = feed(&mut client, &challenge).unwrap().unwrap();
    feed(&mut server, &response).unwrap();
    let (mut again, _) = Handshake::server(secret(1), nonce(3));
    assert_eq!(feed(&mut again, &response).unwrap_err(), HandshakeError::WrongSecret);
}

#[test]
fn a_reflected_proof_is_worthless() {
    // Who does not know the secret sends a client's own response back as the server's proof.
    let (_, challenge) = Handshake::server(secret(1), nonce(1));
    let mut client = Handshake::client(secret(1), nonce(1));
    let mut reflected = bytes_of(&feed(&mut client, &challenge).unwrap().unwrap());
    assert!(matches!(client.feed(&reflected).unwrap_err(), HandshakeError::Step { got: 2, expected: 3 }));
    let mut client = Handshake::client(secret(1), nonce(1));
    feed(&mut client, &challenge).unwrap();
    reflected[HEADER_BYTES + 8] = 3;
    assert_eq!(client.feed(&reflected).unwrap_err(), HandshakeError::WrongSecret);

    // Or it relays a server's challenge to that server, as if it were a client: two servers never get through.
    let (mut server, challenge) = Handshake::server(secret(1), nonce(1));
    assert!(matches!(feed(&mut server, &challenge).unwrap_err(), HandshakeError::Step { .. }));
}

#[test]
fn another_version_is_named() {
    let (_, challenge) = Handshake::server(secret(1), nonce(1));
    let mut bytes = bytes_of(&challenge);
    bytes[HEADER_BYTES + 4] = PROTOCOL_VERSION as u8 + 1;
    let error = Handshake::client(secret(1), nonce(2)).feed(&bytes).unwrap_err();
    assert_eq!(error, HandshakeError::Version { ours: PROTOCOL_VERSION, theirs: PROTOCOL_VERSION + 1 });
    assert!(error.to_string().contains("use the same release"));
}

#[test]
fn another_protocol_is_refused_by_its_first_bytes() {
    let (mut server, _) = Handshake::server(secret(1), nonce(1));
    let error = server.feed(b"GET / HTTP/1.1\r\nHost: egret\r\n\r\n").unwrap_err();
    assert!(matches!(error, HandshakeError::Frame(FrameError::UnknownKind(_))), "{error}");

    // A frame that would be rightful later is not read before the proof, whatever length it claims.
    for header in [
        FrameHeader::new(FrameKind::Control, 1 << 20, 0, 0),
        FrameHeader::new(FrameKind::Batch, 80, 1, 0),
        FrameHeader::new(FrameKind::Handshake, 81, 0, 0),
        FrameHeader::new(FrameKind::Handshake, 0, 0, 0),
    ] {
        let (mut server, _) = Handshake::server(secret(1), nonce(1));
        let error = server.feed(&header.encode()).unwrap_err();
        assert!(matches!(error, HandshakeError::NotAHandshake { .. }), "{error}");
    }

    let (mut server, _) = Handshake::server(secret(1), nonce(1));
    let error = server.feed(&frame(FrameKind::Handshake, &[7; 80], 0)).unwrap_err();
    assert_eq!(error, HandshakeError::NotEgret);
}

#[test]
fn a_session_goes_from_handshake_to_frames_in_one_piece_or_many() {
    for chunk in [1, 7, 96, 100_000] {
        let (mut server, challenge) = Session::server(&secret(1), nonce(1), LIMITS);
        let mut client = Session::<Vec<u8>>::client(&secret(1), nonce(2), LIMITS);
        let mut log = Log::default();
        let mut to_server = Vec::new();
        let progress =
            client.on_bytes(&bytes_of(&challenge), |f| to_server.extend(bytes_of(&f)), &mut log).unwrap();
        assert_eq!(progress, Progress::Handshaking);
        let mut to_client = Vec::new();
        let mut just = 0;
        for piece in to_server.chunks(chunk) {
            let progress = server.on_bytes(piece, |f| to_client.extend(bytes_of(&f)), &mut log).unwrap();
            just += usize::from(progress == Progress::JustEstablished);
        }
        assert!(just == 1 && server.is_established());
        // The server's first frames come right behind its proof.
        to_client.extend(some_frames());
        let mut just = 0;
        for piece in to_client.chunks(chunk) {
            let progress = client.on_bytes(piece, |_| panic!("nothing to reply"), &mut log).unwrap();
            just += usize::from(progress == Progress::JustEstablished);
        }
        assert_eq!((just, log.frames.len()), (1, 6), "pieces of {chunk}");
    }
}

#[test]
fn a_trusted_session_has_no_handshake() {
    let mut session = Session::trusted(LIMITS);
    let mut log = Log::default();
    assert!(session.is_established());
    assert_eq!(session.on_bytes(&some_frames(), drop, &mut log), Ok(Progress::Established));
    let late = frame(FrameKind::Handshake, &[0; 80], 0);
    let error = session.on_bytes(&late, drop, &mut log).unwrap_err();
    assert_eq!(error, SessionError::Feed(FrameError::UnexpectedHandshake.into()));
}

#[test]
fn secrets_hide_and_survive_hex() {
    let secret = Secret::generate().unwrap();
    assert_eq!(Secret::from_hex(&secret.to_hex()).as_ref(), Some(&secret));
    assert_eq!(format!("{secret:?}"), "Secret(…)");
    for wrong in ["", "00", &"0".repeat(63), &"g".repeat(64), &"+1".repeat(32), &"é".repeat(32)] {
        assert_eq!(Secret::from_hex(wrong), None, "{wrong}");
    }
}
