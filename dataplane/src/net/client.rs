//! A small blocking client for control messages: what the command line needs to talk to a tmaster.

use super::handshake::{HandshakeError, Secret, fresh_nonce};
use super::link::{Body, FrameHeader, FrameLimits, FrameSink, HEADER_BYTES, Outgoing};
use super::session::{Progress, Session, SessionError};
use crate::message::{DecodeError, Message};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Why a conversation failed.
#[derive(thiserror::Error, Debug)]
pub enum ClientError {
    /// The network.
    #[error("connection to {peer}: {error}")]
    Io {
        /// Whom it was with.
        peer: SocketAddr,
        /// What happened.
        error: io::Error,
    },
    /// The peer has ended it.
    #[error("{0} has closed the connection")]
    Closed(SocketAddr),
    /// The peer did not prove itself.
    #[error("handshake with {peer}: {error}")]
    Handshake {
        /// Whom it was with.
        peer: SocketAddr,
        /// What was wrong.
        error: HandshakeError,
    },
    /// The peer sent something that is no message.
    #[error("{peer} sent something that cannot be read: {error}")]
    Protocol {
        /// Whom it was with.
        peer: SocketAddr,
        /// What was wrong.
        error: String,
    },
    /// It took too long.
    #[error("{peer} did not answer within {timeout:?}")]
    Timeout {
        /// Whom it was with.
        peer: SocketAddr,
        /// How long it was waited for.
        timeout: Duration,
    },
}

/// A connection whose peer has proven itself.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    peer: SocketAddr,
    session: Session<[u8; 0]>,
    inbox: Inbox,
    buffer: Box<[u8]>,
}

#[derive(Debug, Default)]
struct Inbox(VecDeque<Message>);

#[derive(thiserror::Error, Debug)]
enum Unexpected {
    #[error(transparent)]
    Message(#[from] DecodeError),
    #[error("a frame that only stmgrs send each other")]
    NotControl,
}

impl FrameSink for Inbox {
    type Block = [u8; 0];
    type Error = Unexpected;

    fn begin_batch(&mut self, _: &FrameHeader) -> Result<[u8; 0], Unexpected> {
        Err(Unexpected::NotControl)
    }

    fn batch(&mut self, _: &FrameHeader, _: [u8; 0]) -> Result<(), Unexpected> {
        Err(Unexpected::NotControl)
    }

    fn control(&mut self, body: &[u8]) -> Result<(), Unexpected> {
        self.0.push_back(Message::decode(body)?);
        Ok(())
    }

    fn end(&mut self, _: &FrameHeader) -> Result<(), Unexpected> {
        Err(Unexpected::NotControl)
    }

    fn credit(&mut self, _: &FrameHeader) -> Result<(), Unexpected> {
        Err(Unexpected::NotControl)
    }
}

impl Client {
    /// Connects, and proves to each other that both know `secret`, within `timeout`.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn connect(peer: SocketAddr, secret: &Secret, timeout: Duration) -> Result<Self, ClientError> {
        let failed = |error| ClientError::Io { peer, error };
        let deadline = Instant::now() + timeout;
        let stream = TcpStream::connect_timeout(&peer, timeout).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_write_timeout(Some(timeout.max(Duration::from_millis(1)))).map_err(failed)?;
        let nonce = fresh_nonce().map_err(failed)?;
        let session = Session::client(secret, nonce, FrameLimits::control_only());
        let buffer = vec![0; 64 << 10].into_boxed_slice();
        let mut client = Self { stream, peer, session, inbox: Inbox::default(), buffer };
        while !client.session.is_established() {
            if !client.read(deadline)? {
                return Err(ClientError::Timeout { peer, timeout });
            }
        }
        Ok(client)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// [`ClientError::Io`].
    pub fn send(&mut self, message: &Message) -> Result<(), ClientError> {
        self.write(&Outgoing::control(message))
    }

    /// The next message, or `None` when none came within `timeout`.
    ///
    /// # Errors
    /// [`ClientError`]; the connection is over then.
    pub fn recv(&mut self, timeout: Duration) -> Result<Option<Message>, ClientError> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(message) = self.inbox.0.pop_front() {
                return Ok(Some(message));
            }
            if !self.read(deadline)? {
                return Ok(None);
            }
        }
    }

    /// Reads once; false when the deadline has passed.
    fn read(&mut self, deadline: Instant) -> Result<bool, ClientError> {
        let peer = self.peer;
        let failed = |error| ClientError::Io { peer, error };
        // Zero would mean "for ever".
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_micros(1));
        self.stream.set_read_timeout(Some(left)).map_err(failed)?;
        let len = match self.stream.read(&mut self.buffer) {
            Ok(0) => return Err(ClientError::Closed(peer)),
            Ok(len) => len,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok(false);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(failed(error)),
        };
        let mut replies = Vec::new();
        let fed = self.session.on_bytes(&self.buffer[..len], |reply| replies.push(reply), &mut self.inbox);
        match fed {
            Ok(Progress::Handshaking | Progress::JustEstablished | Progress::Established) => {}
            Err(SessionError::Handshake(error)) => return Err(ClientError::Handshake { peer, error }),
            Err(SessionError::Feed(error)) => {
                return Err(ClientError::Protocol { peer, error: error.to_string() });
            }
        }
        replies.iter().try_for_each(|reply| self.write(reply))?;
        Ok(true)
    }

    fn write(&mut self, frame: &Outgoing) -> Result<(), ClientError> {
        let peer = self.peer;
        let mut bytes = Vec::with_capacity(HEADER_BYTES + frame.body.len());
        bytes.extend_from_slice(&frame.header.encode());
        if let Body::Bytes(body) = &frame.body {
            bytes.extend_from_slice(body);
        }
        self.stream.write_all(&bytes).map_err(|error| ClientError::Io { peer, error })
    }
}
