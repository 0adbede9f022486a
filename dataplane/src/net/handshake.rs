//! Both ends of a TCP connection prove that they know the topology's secret, before anything else is read.
//!
//! 1. The server, who accepted, sends a *challenge* with a fresh nonce.
//! 2. The client sends a *response*: a nonce of its own, and HMAC-SHA256 over both nonces with the client's label.
//! 3. The server checks it and sends its *proof*: the same with the server's label. It is established.
//! 4. The client checks that. It is established.
//!
//! A recorded response is worthless, since the server's nonce is new; a reflected one too, since the labels differ by
//! direction. All three steps are one frame of one size:
//!
//! ```text
//!  0        4        8       12       16              48            80
//!  +--------+--------+-------+--------+---------------+-------------+
//!  | magic  | version| step  | 0      | nonce         | mac         |
//!  +--------+--------+-------+--------+---------------+-------------+
//!   "EGRT"    u32      u32              32 bytes        32 bytes       in a frame of kind Handshake
//! ```
//!
//! The challenge has no mac and the proof no nonce: zeros. A differing version ends the handshake at the first frame,
//! with an error that names both. Nonces come in as arguments: nothing here is random.

use super::link::{FrameError, FrameHeader, FrameKind, HEADER_BYTES, Outgoing};
use crate::message::PROTOCOL_VERSION;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

const MAGIC: [u8; 4] = *b"EGRT";
const BODY_BYTES: usize = 80;
const NONCE: std::ops::Range<usize> = 16..48;
const MAC: std::ops::Range<usize> = 48..80;
const FRAME_BYTES: usize = HEADER_BYTES + BODY_BYTES;
const _: () = assert!(MAC.end == BODY_BYTES && BODY_BYTES <= 128);

/// What all processes of one topology know, and nobody else.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

impl Secret {
    /// From its bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A new one.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub fn generate() -> std::io::Result<Self> {
        fresh_nonce().map(Self)
    }

    /// From 64 hexadecimal digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// As 64 hexadecimal digits.
    #[must_use]
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn mac(&self, label: &[u8], server: &Nonce, client: &Nonce) -> Hmac<Sha256> {
        let mut mac = match Hmac::<Sha256>::new_from_slice(&self.0) {
            Ok(mac) => mac,
            Err(error) => unreachable!("HMAC takes keys of any length: {error}"),
        };
        mac.update(label);
        mac.update(&PROTOCOL_VERSION.to_le_bytes());
        mac.update(server);
        mac.update(client);
        mac
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A number that is used once.
pub type Nonce = [u8; 32];

/// A nonce from the system's randomness.
///
/// # Errors
/// When there is none to be had.
pub fn fresh_nonce() -> std::io::Result<Nonce> {
    let mut nonce = [0; 32];
    crate::host::fill_random(&mut nonce)?;
    Ok(nonce)
}

/// Why a handshake failed.
#[derive(thiserror::Error, Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeError {
    /// Not even a frame.
    #[error("no handshake: {0}")]
    Frame(#[from] FrameError),
    /// A frame, but not the one that must come now.
    #[error("the peer sent a {kind:?} frame of {len} bytes before it proved that it knows the secret")]
    NotAHandshake {
        /// The frame's kind.
        kind: FrameKind,
        /// Its length.
        len: u32,
    },
    /// Bytes of something else.
    #[error("the peer does not speak Egret's protocol")]
    NotEgret,
    /// Another release.
    #[error(
        "the peer speaks version {theirs} of the protocol, this side {ours}: use the same release on both"
    )]
    Version {
        /// This side's version.
        ours: u32,
        /// The peer's version.
        theirs: u32,
    },
    /// The steps are out of order.
    #[error("handshake step {got} came, {expected} was due")]
    Step {
        /// The step that came.
        got: u32,
        /// The step that was due.
        expected: u32,
    },
    /// The peer does not know the secret.
    #[error("the peer does not know this topology's secret")]
    WrongSecret,
    /// It has failed before.
    #[error("the handshake has failed before")]
    Failed,
}

const CHALLENGE: u32 = 1;
const RESPONSE: u32 = 2;
const PROOF: u32 = 3;
const CLIENT_LABEL: &[u8] = b"egret handshake: client";
const SERVER_LABEL: &[u8] = b"egret handshake: server";

/// One end of a handshake.
#[derive(Debug)]
pub struct Handshake {
    secret: Secret,
    nonce: Nonce,
    state: State,
    frame: [u8; FRAME_BYTES],
    have: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    AwaitChallenge,
    AwaitResponse,
    AwaitProof { server_nonce: Nonce },
    Established,
    Failed,
}

/// What a piece of the stream led to.
#[derive(Debug)]
#[must_use]
pub struct Step {
    /// How many of the bytes were the handshake's; the rest is what follows it.
    pub used: usize,
    /// What to send now.
    pub reply: Option<Outgoing>,
    /// Whether this end is established.
    pub established: bool,
}

impl Handshake {
    /// The end that connected. It waits for the challenge.
    #[must_use]
    pub fn client(secret: Secret, nonce: Nonce) -> Self {
        Self { secret, nonce, state: State::AwaitChallenge, frame: [0; FRAME_BYTES], have: 0 }
    }

    /// The end that accepted, and the challenge to send.
    #[must_use]
    pub fn server(secret: Secret, nonce: Nonce) -> (Self, Outgoing) {
        let challenge = encode(CHALLENGE, &nonce, &[0; 32]);
        (Self { secret, nonce, state: State::AwaitResponse, frame: [0; FRAME_BYTES], have: 0 }, challenge)
    }

    /// Takes the next bytes of the stream, at most to the end of one frame.
    ///
    /// # Errors
    /// [`HandshakeError`]: close the connection, and send nothing.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Step, HandshakeError> {
        if self.state == State::Established {
            return Ok(Step { used: 0, reply: None, established: true });
        }
        let used = bytes.len().min(FRAME_BYTES - self.have);
        self.frame[self.have..self.have + used].copy_from_slice(&bytes[..used]);
        self.have += used;
        let reply = self.advance().inspect_err(|_| self.state = State::Failed)?;
        Ok(Step { used, reply, established: self.state == State::Established })
    }

    /// Checks as much of the frame as is there, so that a peer that speaks something else is refused by its first
    /// bytes and not waited for.
    fn advance(&mut self) -> Result<Option<Outgoing>, HandshakeError> {
        if let Some(header) = self.frame.first_chunk::<HEADER_BYTES>()
            && self.have >= HEADER_BYTES
        {
            let header = FrameHeader::decode(header)?;
            if header.kind != FrameKind::Handshake || header.len as usize != BODY_BYTES {
                return Err(HandshakeError::NotAHandshake { kind: header.kind, len: header.len });
            }
        }
        if self.have < FRAME_BYTES {
            return Ok(None);
        }
        self.have = 0;
        let frame = self.frame;
        self.step(&frame[HEADER_BYTES..])
    }

    fn step(&mut self, body: &[u8]) -> Result<Option<Outgoing>, HandshakeError> {
        let (step, nonce) = decode(body)?;
        let expect = |expected| {
            if step == expected { Ok(()) } else { Err(HandshakeError::Step { got: step, expected }) }
        };
        match self.state {
            State::AwaitChallenge => {
                expect(CHALLENGE)?;
                let mac = self.secret.mac(CLIENT_LABEL, &nonce, &self.nonce).finalize().into_bytes();
                self.state = State::AwaitProof { server_nonce: nonce };
                Ok(Some(encode(RESPONSE, &self.nonce, &mac.into())))
            }
            State::AwaitResponse => {
                expect(RESPONSE)?;
                self.verify(CLIENT_LABEL, &self.nonce, &nonce, body)?;
                let mac = self.secret.mac(SERVER_LABEL, &self.nonce, &nonce).finalize().into_bytes();
                self.state = State::Established;
                Ok(Some(encode(PROOF, &[0; 32], &mac.into())))
            }
            State::AwaitProof { server_nonce } => {
                expect(PROOF)?;
                self.verify(SERVER_LABEL, &server_nonce, &self.nonce, body)?;
                self.state = State::Established;
                Ok(None)
            }
            State::Established => Ok(None),
            State::Failed => Err(HandshakeError::Failed),
        }
    }

    fn verify(
        &self,
        label: &[u8],
        server: &Nonce,
        client: &Nonce,
        body: &[u8],
    ) -> Result<(), HandshakeError> {
        // verify_slice takes the same time wherever the macs differ.
        let mac = self.secret.mac(label, server, client);
        mac.verify_slice(&body[MAC]).map_err(|_| HandshakeError::WrongSecret)
    }
}

fn encode(step: u32, nonce: &Nonce, mac: &[u8; 32]) -> Outgoing {
    let mut body = Vec::with_capacity(BODY_BYTES);
    body.extend_from_slice(&MAGIC);
    body.extend_from_slice(&PROTOCOL_VERSION.to_le_bytes());
    body.extend_from_slice(&step.to_le_bytes());
    body.extend_from_slice(&[0; 4]);
    body.extend_from_slice(nonce);
    body.extend_from_slice(mac);
    Outgoing::bytes(FrameKind::Handshake, body.into())
}

fn decode(body: &[u8]) -> Result<(u32, Nonce), HandshakeError> {
    let u32_at = |at: usize| u32::from_le_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]);
    if body[..4] != MAGIC {
        return Err(HandshakeError::NotEgret);
    }
    let theirs = u32_at(4);
    if theirs != PROTOCOL_VERSION {
        return Err(HandshakeError::Version { ours: PROTOCOL_VERSION, theirs });
    }
    let mut nonce = [0; 32];
    nonce.copy_from_slice(&body[NONCE]);
    Ok((u32_at(8), nonce))
}
