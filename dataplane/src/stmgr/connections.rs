//! The connections: who is at the other end of each, what comes from there, and how one ends.

use super::driver::Stmgr;
use super::local::LocalConn;
use super::peers::PeerConn;
use super::tmaster::TmasterConn;
use crate::net::reactor::{ConnId, RecvBuf};
use std::time::Duration;
use tracing::warn;

/// How long a connection may take to say who it is.
const INTRODUCTION: Duration = Duration::from_secs(5);

/// Who is at the other end of a connection.
pub(super) enum Conn {
    Local(LocalConn),
    Peer(PeerConn),
    Tmaster(TmasterConn),
}

impl Stmgr {
    /// Frames have come.
    pub(super) fn received(&mut self, conn: ConnId, buf: RecvBuf) {
        let outcome = match self.conns.remove(&conn) {
            Some(mut entry) => {
                let outcome = match &mut entry {
                    Conn::Local(local) => self.local_received(conn, local, &buf),
                    Conn::Peer(peer) => self.peer_received(conn, peer, &buf),
                    Conn::Tmaster(tmaster) => self.tmaster_received(conn, tmaster, &buf),
                };
                self.conns.insert(conn, entry);
                outcome
            }
            None => Ok(()),
        };
        self.net.recycle(buf);
        if let Err(reason) = outcome {
            self.fault(conn, &reason);
        }
    }

    /// Ends a connection whose other end did what it may not.
    pub(super) fn fault(&mut self, conn: ConnId, reason: &str) {
        let Some(entry) = self.conns.remove(&conn) else { return };
        self.core.counters.closed_for_fault += 1;
        warn!(who = %self.name(&entry), reason, "closed a connection");
        self.net.close(conn);
        self.lost(conn, entry, reason);
    }

    /// A connection has ended, or is as good as ended.
    pub(super) fn lost(&mut self, conn: ConnId, entry: Conn, reason: &str) {
        match entry {
            Conn::Local(local) => self.local_lost(conn, &local),
            Conn::Peer(peer) => self.peer_lost(conn, peer, reason),
            Conn::Tmaster(_) => self.tmaster_lost(conn, reason),
        }
    }

    fn name(&self, entry: &Conn) -> String {
        match entry {
            Conn::Local(LocalConn { slot: Some(slot), .. }) => {
                format!("task {}", self.core.routes().tasks[slot.at()])
            }
            Conn::Local(_) => "an instance that has not registered".to_owned(),
            Conn::Peer(peer) => match peer.known() {
                Some(peer) => format!("the stmgr of container {}", self.core.routes().peers[peer.at()]),
                None => "a connection that has not proven itself".to_owned(),
            },
            Conn::Tmaster(_) => "the tmaster".to_owned(),
        }
    }

    /// Gives a new connection its time to say who it is.
    pub(super) fn await_introduction(&mut self, conn: ConnId) {
        self.introductions.push_back((self.now + INTRODUCTION, conn));
    }

    /// Ends connections that have had their time and have not said who they are.
    pub(super) fn end_strangers(&mut self) {
        while let Some(&(at, conn)) = self.introductions.front() {
            if at > self.now {
                break;
            }
            self.introductions.pop_front();
            let stranger = match self.conns.get(&conn) {
                Some(Conn::Local(local)) => local.slot.is_none(),
                Some(Conn::Peer(peer)) => !peer.is_linked(),
                Some(Conn::Tmaster(tmaster)) => !tmaster.is_established(),
                None => false,
            };
            if stranger {
                self.fault(conn, "it has not said who it is in 5 s");
            }
        }
    }
}
