//! A small blocking client for control messages: what the command line needs to talk to a tmaster.

use super::handshake::{HandshakeError, Secret, fresh_nonce};
use super::link::{Body, FrameHeader, FrameLimits, FrameSink, HEADER_BYTES, Outgoing};
use super::session::{Session, SessionError};
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
        super::tcp::prepare(&stream).map_err(failed)?;
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
                let gone = super::tcp::host_is_gone(&self.stream);
                return if gone { Err(failed(super::tcp::gone())) } else { Ok(false) };
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(failed(error)),
        };
        let mut replies = Vec::new();
        let fed = self.session.on_bytes(&self.buffer[..len], |reply| replies.push(reply), &mut self.inbox);
        match fed {
            Ok(_) => {}
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::reactor::{Choice, ConnId, Event, open};
    use std::collections::HashMap;
    use std::net::TcpListener;
    use std::sync::mpsc;

    const LONG: Duration = Duration::from_secs(30);

    /// Answers every message with itself, until a [`Message::Done`] comes or a client fails; says what it got.
    fn echo(listener: TcpListener, secret: Secret, choice: Choice) -> Result<Vec<Message>, String> {
        let mut reactor = open(choice).unwrap();
        reactor.listen_tcp(listener).unwrap();
        let mut sessions: HashMap<ConnId, Session<[u8; 0]>> = HashMap::new();
        let (mut inbox, mut got, mut events) = (Inbox::default(), Vec::new(), Vec::new());
        loop {
            reactor.poll(Some(LONG), &mut events).unwrap();
            for event in events.drain(..) {
                match event {
                    Event::Accepted { conn, .. } => {
                        let limits = FrameLimits::control_only();
                        let (session, challenge) = Session::server(&secret, fresh_nonce().unwrap(), limits);
                        sessions.insert(conn, session);
                        reactor.send(conn, challenge);
                    }
                    Event::Received { conn, buf } => {
                        let mut replies = Vec::new();
                        let session = sessions.get_mut(&conn).unwrap();
                        let fed =
                            session.on_bytes(reactor.bytes(&buf), |reply| replies.push(reply), &mut inbox);
                        fed.map_err(|error| error.to_string())?;
                        replies.into_iter().for_each(|reply| reactor.send(conn, reply));
                        for message in inbox.0.drain(..) {
                            reactor.send(conn, Outgoing::control(&message));
                            got.push(message);
                        }
                        if got.last() == Some(&Message::Done) {
                            reactor.close_after_flush(conn);
                        }
                        reactor.recycle(buf);
                    }
                    Event::Closed { .. } => return Ok(got),
                    _ => {}
                }
            }
        }
    }

    fn with_echo<T>(
        secret: Secret,
        choice: Choice,
        client: impl FnOnce(SocketAddr) -> T,
    ) -> (T, Result<Vec<Message>, String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            let server = scope.spawn(move || echo(listener, secret, choice));
            (client(address), server.join().unwrap())
        })
    }

    #[test]
    fn messages_come_and_go() {
        let secret = Secret::generate().unwrap();
        let long = Message::Refused("x".repeat(1 << 20));
        for choice in [Choice::Auto, Choice::Epoll] {
            let messages = [Message::Watch, long.clone(), Message::Done];
            let (_, got) = with_echo(secret.clone(), choice, |address| {
                let mut client = Client::connect(address, &secret, LONG).unwrap();
                assert!(client.recv(Duration::from_millis(1)).unwrap().is_none());
                messages.iter().for_each(|message| client.send(message).unwrap());
                for message in &messages {
                    assert_eq!(client.recv(LONG).unwrap().as_ref(), Some(message));
                }
                assert!(matches!(client.recv(LONG), Err(ClientError::Closed(_))));
            });
            assert_eq!(got.unwrap(), messages);
        }
    }

    #[test]
    fn a_wrong_secret_gets_nowhere() {
        let (client, server) = with_echo(Secret::new([1; 32]), Choice::Epoll, |address| {
            Client::connect(address, &Secret::new([2; 32]), LONG).map(drop)
        });
        assert!(matches!(client, Err(ClientError::Closed(_) | ClientError::Io { .. })), "{client:?}");
        assert_eq!(server, Err("the peer does not know this topology's secret".into()));
    }

    #[test]
    fn who_does_not_answer_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let error =
            Client::connect(listener.local_addr().unwrap(), &Secret::new([1; 32]), Duration::from_millis(20));
        assert!(matches!(error, Err(ClientError::Timeout { .. })), "{error:?}");
    }

    #[test]
    fn another_protocol_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (done, wait) = mpsc::channel::<()>();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
            wait.recv().ok();
        });
        let error = Client::connect(address, &Secret::new([1; 32]), LONG).map(drop).unwrap_err();
        assert!(error.to_string().contains("does not speak Egret's protocol"), "{error}");
        drop(done);
        server.join().unwrap();
    }
}
