//! The links to the other stmgrs: TCP, proven by the topology's secret, one for each pair.
//!
//! The stmgr of the lower container connects. Once the secret is proven it says who it is; the other answers alike.
//! A newer connection of the same peer replaces the one before.

use super::connections::Conn;
use super::driver::Stmgr;
use super::route::Peer;
use super::sinks::PeerSink;
use super::sizes::MIN_BATCH_BYTES;
use crate::ids::Incarnation;
use crate::memory::Class;
use crate::message::{Backpressure, HelloPeer, Message};
use crate::net::handshake::fresh_nonce;
use crate::net::link::{FrameLimits, Outgoing};
use crate::net::reactor::{ConnId, RecvBuf};
use crate::net::session::{Progress, Session};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tracing::{info, warn};

const RETRY: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(1);

/// What is kept of a peer beyond its connections.
#[derive(Default)]
pub(super) struct PeerLink {
    /// The connection over which the link stands.
    pub(super) conn: Option<ConnId>,
    incarnation: Option<Incarnation>,
    /// Where to connect to; `None` when the peer connects, or no plan says yet.
    address: Option<SocketAddr>,
    dialing: Option<ConnId>,
    retry_at: Option<Instant>,
    retry: Duration,
}

impl PeerLink {
    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.retry_at
    }

    fn retry_later(&mut self, now: Instant) {
        self.retry = (self.retry * 2).clamp(RETRY, RETRY_MAX);
        self.retry_at = Some(now + self.retry);
    }
}

/// A connection with a stmgr, or with someone who has yet to prove to be one.
pub(super) struct PeerConn {
    session: Session,
    dialed: Option<Peer>,
    linked: Option<Peer>,
}

impl PeerConn {
    pub(super) fn is_linked(&self) -> bool {
        self.linked.is_some()
    }

    pub(super) fn known(&self) -> Option<Peer> {
        self.linked.or(self.dialed)
    }
}

impl Stmgr {
    fn limits(&self) -> FrameLimits {
        FrameLimits::batches(MIN_BATCH_BYTES, self.pool.block_bytes(Class::Large) as u32)
    }

    pub(super) fn accept_peer(&mut self, conn: ConnId) {
        let nonce = match fresh_nonce() {
            Ok(nonce) => nonce,
            Err(error) => {
                warn!(%error, "no randomness for a handshake");
                return self.net.close(conn);
            }
        };
        let (session, challenge) = Session::server(&self.options.secret, nonce, self.limits());
        self.send(conn, challenge);
        self.conns.insert(conn, Conn::Peer(PeerConn { session, dialed: None, linked: None }));
        self.await_introduction(conn);
    }

    /// Keeps a link to `peer` at `address` from now on.
    pub(super) fn link(&mut self, peer: Peer, address: SocketAddr) {
        let link = &mut self.peers[peer.at()];
        if link.address == Some(address) && (link.conn.is_some() || link.dialing.is_some()) {
            return;
        }
        link.address = Some(address);
        (link.retry_at, link.retry) = (Some(self.now), Duration::ZERO);
        // The one to another address ends now; on its loss the new one is due at once.
        for conn in [link.conn, link.dialing].into_iter().flatten() {
            if let Some(entry) = self.conns.remove(&conn) {
                self.net.close(conn);
                self.lost(conn, entry, "the peer is at another address");
            }
        }
        self.peers[peer.at()].retry_at = Some(self.now);
        self.tend_peers();
    }

    /// Connects where a link is due.
    pub(super) fn tend_peers(&mut self) {
        for index in 0..self.peers.len() {
            let link = &self.peers[index];
            let due = link.retry_at.is_some_and(|at| at <= self.now);
            let Some(address) = link.address.filter(|_| due) else { continue };
            if link.conn.is_some() || link.dialing.is_some() {
                self.peers[index].retry_at = None;
                continue;
            }
            self.dial(Peer(index as u32), address);
        }
    }

    fn dial(&mut self, peer: Peer, address: SocketAddr) {
        let dialed = fresh_nonce().and_then(|nonce| Ok((nonce, self.net.connect(address)?)));
        let link = &mut self.peers[peer.at()];
        match dialed {
            Ok((nonce, conn)) => {
                (link.dialing, link.retry_at) = (Some(conn), None);
                let session = Session::client(&self.options.secret, nonce, self.limits());
                let entry = PeerConn { session, dialed: Some(peer), linked: None };
                self.conns.insert(conn, Conn::Peer(entry));
                self.await_introduction(conn);
                self.network_soon();
            }
            Err(error) => {
                warn!(%address, %error, "cannot connect to a peer");
                link.retry_later(self.now);
            }
        }
    }

    pub(super) fn peer_received(
        &mut self,
        conn: ConnId,
        entry: &mut PeerConn,
        buf: &RecvBuf,
    ) -> Result<(), String> {
        let mut replies = Vec::new();
        let now = self.since_start();
        let mut sink = PeerSink {
            core: &mut self.core,
            pool: &self.pool,
            linked: entry.linked,
            dialed: entry.dialed,
            hello: None,
            now,
        };
        let bytes = self.net.bytes(buf);
        let outcome = entry.session.on_bytes(bytes, |frame| replies.push(frame), &mut sink);
        let (linked, hello) = (sink.linked, sink.hello);
        if outcome.is_err() && linked.is_some() && entry.linked.is_none() {
            // The link came up within this piece, and broke in it too.
            linked.into_iter().for_each(|peer| self.core.peer_down(peer));
            return outcome.map(drop).map_err(|error| error.to_string());
        }
        entry.linked = linked;
        replies.into_iter().for_each(|frame| self.send(conn, frame));
        if matches!(outcome, Ok(Progress::JustEstablished)) && entry.dialed.is_some() {
            self.say_hello(conn);
        }
        outcome.map(drop).map_err(|error| error.to_string())?;
        match (hello, entry.dialed) {
            (Some(hello), Some(peer)) => self.link_up(peer, conn, hello),
            (Some(hello), None) => self.answer(conn, entry, hello)?,
            (None, _) => {}
        }
        Ok(())
    }

    fn say_hello(&mut self, conn: ConnId) {
        let hello = HelloPeer { container: self.options.container, incarnation: self.options.incarnation };
        self.send(conn, Outgoing::control(&Message::HelloPeer(hello)));
    }

    /// A stmgr of a lower container has connected and said hello.
    fn answer(&mut self, conn: ConnId, entry: &mut PeerConn, hello: HelloPeer) -> Result<(), String> {
        let Some(peer) = self.core.routes().peer(hello.container) else {
            return Err(format!("it says that it is container {}", hello.container));
        };
        let link = &self.peers[peer.at()];
        if link.conn.is_some() && link.incarnation.is_some_and(|present| hello.incarnation < present) {
            return Err(format!("a newer stmgr of container {} is linked", hello.container));
        }
        if let Some(older) = link.conn
            && let Some(old) = self.conns.remove(&older)
        {
            self.net.close(older);
            self.lost(older, old, "a newer connection of the same peer");
        }
        self.say_hello(conn);
        entry.linked = Some(peer);
        self.core.peer_up(peer);
        self.link_up(peer, conn, hello);
        Ok(())
    }

    fn link_up(&mut self, peer: Peer, conn: ConnId, hello: HelloPeer) {
        let link = &mut self.peers[peer.at()];
        (link.conn, link.dialing, link.retry_at) = (Some(conn), None, None);
        (link.incarnation, link.retry) = (Some(hello.incarnation), Duration::ZERO);
        info!(container = %hello.container, incarnation = %hello.incarnation, "linked with a peer");
        self.registration.peer_up(peer, &mut self.actions);
    }

    pub(super) fn peer_lost(&mut self, conn: ConnId, entry: PeerConn, reason: &str) {
        let known = entry.known();
        // The block it was receiving into is free again only when the session has let it go.
        drop(entry);
        let Some(peer) = known else { return };
        let now = self.now;
        let link = &mut self.peers[peer.at()];
        if link.dialing == Some(conn) {
            link.dialing = None;
            link.retry_later(now);
        }
        if link.conn == Some(conn) {
            link.conn = None;
            if link.address.is_some() {
                link.retry_later(now);
            }
            self.core.peer_down(peer);
            self.registration.peer_down(peer);
            let container = self.core.routes().peers[peer.at()];
            info!(%container, reason, "lost the link with a peer");
        }
    }

    /// States all holders. A statement from before that still waits is not needed any more.
    pub(super) fn state_to_peer(&mut self, peer: Peer, statement: Backpressure) {
        if let Some(conn) = self.peers[peer.at()].conn {
            self.net.send_latest(conn, Outgoing::control(&Message::Backpressure(statement)));
            self.network_soon();
        }
    }

    pub(super) fn send_to_peer(&mut self, peer: Peer, frame: Outgoing) {
        if let Some(conn) = self.peers[peer.at()].conn {
            self.send(conn, frame);
        }
    }
}
