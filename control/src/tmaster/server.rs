//! The tmaster's side of its connections: whoever proves the topology's secret becomes a peer with a number, and
//! only its messages come through. Nobody can fill its memory: what a connection may send and leave unread is bounded.

use super::core::{Event, PeerId};
use egret_dataplane::host;
use egret_dataplane::message::Message;
use egret_dataplane::net::handshake::{Secret, fresh_nonce};
use egret_dataplane::net::link::{FrameHeader, FrameLimits, FrameSink, Outgoing};
use egret_dataplane::net::reactor::{self, Choice, CloseReason, ConnId, Reactor};
use egret_dataplane::net::session::Session;
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

/// How long a connection may take to prove the secret.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(5);

/// What a peer may leave unread: some plans of the largest size.
const UNREAD_MAX_BYTES: usize = 64 << 20;

/// All connections of a tmaster.
pub(crate) struct Server {
    reactor: Box<dyn Reactor>,
    secret: Secret,
    connections: BTreeMap<ConnId, Connection>,
    conns: BTreeMap<PeerId, ConnId>,
    next_peer: u64,
    events: Vec<reactor::Event>,
}

struct Connection {
    peer: PeerId,
    session: Session<Vec<u8>>,
    accepted: Instant,
    closing: bool,
}

impl Server {
    /// Listens on a free port of the loopback; needs no host name to resolve.
    ///
    /// # Errors
    /// When there is no loopback, or no reactor.
    pub(crate) fn open(secret: Secret) -> io::Result<(Self, SocketAddr)> {
        // Few and small messages: epoll needs no set-up that a kernel could refuse.
        let mut reactor = reactor::open(Choice::Epoll)?;
        let bound = reactor.bind_tcp(Ipv4Addr::LOCALHOST.into());
        let (_, address) = bound.or_else(|_| reactor.bind_tcp(Ipv6Addr::LOCALHOST.into()))?;
        let (connections, conns) = (BTreeMap::new(), BTreeMap::new());
        Ok((Self { reactor, secret, connections, conns, next_peer: 1, events: Vec::new() }, address))
    }

    /// Waits at most `timeout`, and appends what peers said and which of them are gone.
    ///
    /// # Errors
    /// When the reactor fails as a whole.
    pub(crate) fn poll(&mut self, timeout: Duration, out: &mut Vec<Event>) -> io::Result<()> {
        let mut events = std::mem::take(&mut self.events);
        self.reactor.poll(Some(timeout), &mut events)?;
        for event in events.drain(..) {
            match event {
                reactor::Event::Accepted { conn, .. } => self.accepted(conn)?,
                reactor::Event::Received { conn, buf } => self.received(conn, buf, out),
                reactor::Event::Closed { conn, reason } => self.closed(conn, &reason, out),
                reactor::Event::Connected { .. } | reactor::Event::Sent { .. } | reactor::Event::Woken => {}
            }
        }
        self.events = events;
        self.close_unproven();
        Ok(())
    }

    /// Queues a message for each of these peers.
    pub(crate) fn send(&mut self, peers: &[PeerId], message: &Message) {
        let Some((last, others)) = peers.split_last() else { return };
        let frame = Outgoing::control(message);
        for peer in others {
            let copy = Outgoing { header: frame.header, body: frame.body.clone(), token: None };
            self.send_one(*peer, copy);
        }
        self.send_one(*last, frame);
    }

    /// Closes a connection once everything queued has gone out.
    pub(crate) fn close(&mut self, peer: PeerId) {
        if let Some(conn) = self.conns.get(&peer) {
            self.reactor.close_after_flush(*conn);
        }
    }

    /// Closes all connections in that way.
    pub(crate) fn close_all(&mut self) {
        self.connections.keys().for_each(|conn| self.reactor.close_after_flush(*conn));
    }

    /// Whether no connection is open.
    pub(crate) fn is_idle(&self) -> bool {
        self.connections.is_empty()
    }

    fn send_one(&mut self, peer: PeerId, frame: Outgoing) {
        let Some(conn) = self.conns.get(&peer).copied() else { return };
        if self.reactor.queued_bytes(conn) > UNREAD_MAX_BYTES {
            tracing::warn!("a peer does not read what it is sent; its connection closes");
            self.reactor.close(conn);
            return;
        }
        self.reactor.send(conn, frame);
    }

    fn accepted(&mut self, conn: ConnId) -> io::Result<()> {
        let peer = PeerId(self.next_peer);
        self.next_peer += 1;
        let (session, challenge) = Session::server(&self.secret, fresh_nonce()?, FrameLimits::control_only());
        self.reactor.send(conn, challenge);
        self.connections.insert(conn, Connection { peer, session, accepted: host::now(), closing: false });
        self.conns.insert(peer, conn);
        Ok(())
    }

    fn received(&mut self, conn: ConnId, buf: reactor::RecvBuf, out: &mut Vec<Event>) {
        let Some(connection) = self.connections.get_mut(&conn) else {
            self.reactor.recycle(buf);
            return;
        };
        let mut sink = Inbox { peer: connection.peer, out };
        let mut replies = Vec::new();
        let bytes = self.reactor.bytes(&buf);
        let result = connection.session.on_bytes(bytes, |reply| replies.push(reply), &mut sink);
        self.reactor.recycle(buf);
        replies.into_iter().for_each(|reply| self.reactor.send(conn, reply));
        if let Err(error) = result {
            tracing::warn!("a connection closes: {error}");
            self.reactor.close(conn);
        }
    }

    fn closed(&mut self, conn: ConnId, reason: &CloseReason, out: &mut Vec<Event>) {
        if let Some(connection) = self.connections.remove(&conn) {
            tracing::debug!("peer {}: {reason}", connection.peer.0);
            self.conns.remove(&connection.peer);
            out.push(Event::Closed(connection.peer));
        }
    }

    fn close_unproven(&mut self) {
        let now = host::now();
        for (conn, connection) in &mut self.connections {
            let is_late = now > connection.accepted + HANDSHAKE_DEADLINE;
            if is_late && !connection.session.is_established() && !connection.closing {
                let seconds = HANDSHAKE_DEADLINE.as_secs();
                tracing::warn!("a connection closes: it has not proven the secret in {seconds} s");
                connection.closing = true;
                self.reactor.close(*conn);
            }
        }
    }
}

/// Takes control messages and nothing else.
struct Inbox<'a> {
    peer: PeerId,
    out: &'a mut Vec<Event>,
}

impl FrameSink for Inbox<'_> {
    type Block = Vec<u8>;
    type Error = String;

    fn begin_batch(&mut self, _: &FrameHeader) -> Result<Vec<u8>, String> {
        Err("a batch came to the tmaster, which sees no tuple".to_owned())
    }

    fn batch(&mut self, _: &FrameHeader, _: Vec<u8>) -> Result<(), String> {
        Err("a batch came to the tmaster, which sees no tuple".to_owned())
    }

    fn control(&mut self, body: &[u8]) -> Result<(), String> {
        let message = Message::decode(body).map_err(|error| error.to_string())?;
        self.out.push(Event::Message(self.peer, message));
        Ok(())
    }

    fn end(&mut self, _: &FrameHeader) -> Result<(), String> {
        Err("an end of stream came to the tmaster, which sees no stream".to_owned())
    }

    fn credit(&mut self, _: &FrameHeader) -> Result<(), String> {
        Err("credit came to the tmaster, which sends no tuple".to_owned())
    }
}
