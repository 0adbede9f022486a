//! What both drivers keep of their connections.
//!
//! | phase | ends when |
//! |---|---|
//! | `Connecting` | the kernel says how it went |
//! | `Open` | either side closes |
//! | `Closing` | the kernel has given back the last operation: the connection is removed |
//!
//! Beside the phase: `muted`, from when the user has closed it: what comes is thrown away. `flush_by`: it closes once
//! everything is sent. `half_closed`: everything was sent, the peer was told, and its close is awaited; to close
//! earlier would make its kernel throw away what was sent last. `failure`: sending has failed; what the peer has sent
//! before is still read, since it may say why.

use super::link::Outgoing;
use super::outbox::Outbox;
use super::reactor::{CloseReason, ConnId, Event};
use super::slots::Slots;
use super::tcp::{self, Rounds};
use rustix::net::Shutdown;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long [`Reactor::close_after_flush`](super::reactor::Reactor::close_after_flush) may take.
const FLUSH_TIME: Duration = Duration::from_secs(3);
/// How long a listener rests after an error such as "too many open files", which would return at once.
pub(super) const ACCEPT_REST: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) enum Phase {
    Connecting,
    Open,
    Closing(CloseReason),
}

#[derive(Debug)]
pub(super) struct Conn<D> {
    pub(super) socket: OwnedFd,
    pub(super) outbox: Outbox,
    pub(super) phase: Phase,
    pub(super) muted: bool,
    pub(super) half_closed: bool,
    pub(super) failure: Option<io::Error>,
    /// What the driver keeps.
    pub(super) driver: D,
    flush_by: Option<Instant>,
    dirty: bool,
}

impl<D> Conn<D> {
    /// Whether frames can leave now.
    pub(super) fn can_send(&self) -> bool {
        matches!(self.phase, Phase::Open) && self.failure.is_none() && !self.outbox.is_empty()
    }
}

#[derive(Debug)]
pub(super) struct Table<D> {
    slots: Slots<Conn<D>>,
    /// Events that the next poll hands out.
    pub(super) events: Vec<Event>,
    flushing: Vec<ConnId>,
    dirty: Vec<ConnId>,
    spare: Vec<ConnId>,
    rounds: Rounds,
}

impl<D> Table<D> {
    pub(super) const fn new() -> Self {
        Self {
            slots: Slots::new(),
            events: Vec::new(),
            flushing: Vec::new(),
            dirty: Vec::new(),
            spare: Vec::new(),
            rounds: Rounds::new(),
        }
    }

    pub(super) fn insert(&mut self, socket: OwnedFd, phase: Phase, driver: D) -> ConnId {
        self.slots.insert(Conn {
            socket,
            outbox: Outbox::new(),
            phase,
            muted: false,
            half_closed: false,
            failure: None,
            driver,
            flush_by: None,
            dirty: false,
        })
    }

    pub(super) fn get(&self, id: ConnId) -> Option<&Conn<D>> {
        self.slots.get(id)
    }

    pub(super) fn get_mut(&mut self, id: ConnId) -> Option<&mut Conn<D>> {
        self.slots.get_mut(id)
    }

    pub(super) fn ids(&self) -> Vec<ConnId> {
        self.slots.ids().collect()
    }

    /// Queues a frame, or gives its token back where it cannot leave any more.
    pub(super) fn queue(&mut self, id: ConnId, frame: Outgoing) {
        self.queue_by(id, frame, Outbox::push);
    }

    /// The same for [`Reactor::send_latest`](super::reactor::Reactor::send_latest).
    pub(super) fn queue_latest(&mut self, id: ConnId, frame: Outgoing) {
        self.queue_by(id, frame, Outbox::push_latest);
    }

    fn queue_by(&mut self, id: ConnId, frame: Outgoing, push: fn(&mut Outbox, Outgoing)) {
        match self.slots.get_mut(id) {
            Some(conn)
                if conn.failure.is_none() && !conn.muted && !matches!(conn.phase, Phase::Closing(_)) =>
            {
                push(&mut conn.outbox, frame);
                self.mark_dirty(id);
            }
            _ => self.events.extend(frame.token.map(|token| Event::Sent { conn: id, token })),
        }
    }

    /// The driver looks at this connection in its next poll.
    pub(super) fn mark_dirty(&mut self, id: ConnId) {
        if let Some(conn) = self.slots.get_mut(id)
            && !conn.dirty
        {
            conn.dirty = true;
            self.dirty.push(id);
        }
    }

    pub(super) fn has_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// All connections marked since the last call; the list wants back by [`Table::done_dirty`].
    pub(super) fn take_dirty(&mut self) -> Vec<ConnId> {
        let list = std::mem::replace(&mut self.dirty, std::mem::take(&mut self.spare));
        for &id in &list {
            if let Some(conn) = self.slots.get_mut(id) {
                conn.dirty = false;
            }
        }
        list
    }

    pub(super) fn done_dirty(&mut self, mut list: Vec<ConnId>) {
        list.clear();
        self.spare = list;
    }

    /// The kernel has taken `bytes` of the flight.
    pub(super) fn sent(&mut self, id: ConnId, bytes: usize) {
        let Self { slots, events, .. } = self;
        if let Some(conn) = slots.get_mut(id) {
            conn.outbox.sent(bytes, |token| events.push(Event::Sent { conn: id, token }));
        }
    }

    /// Sending has failed, and the kernel is done with the flight. The connection ends when the rest of what the
    /// peer has sent is read.
    pub(super) fn send_failed(&mut self, id: ConnId, error: io::Error) {
        let Self { slots, events, .. } = self;
        if let Some(conn) = slots.get_mut(id) {
            conn.outbox.abandon(|token| events.push(Event::Sent { conn: id, token }));
            conn.failure = Some(error);
            // Whatever went wrong: reading comes to its end now. An error means that it has already.
            rustix::net::shutdown(&conn.socket, Shutdown::Both).ok();
        }
    }

    /// The user wants it closed once everything is sent.
    pub(super) fn begin_flush(&mut self, id: ConnId) {
        if let Some(conn) = self.slots.get_mut(id)
            && !conn.muted
        {
            conn.muted = true;
            conn.flush_by = Some(Instant::now() + FLUSH_TIME);
            self.flushing.push(id);
            self.mark_dirty(id);
        }
    }

    /// When everything is sent on a connection that is to be flushed: tells the peer.
    pub(super) fn end_flush(&mut self, id: ConnId) {
        if let Some(conn) = self.slots.get_mut(id)
            && conn.flush_by.is_some()
            && !conn.half_closed
            && matches!(conn.phase, Phase::Open)
            && conn.outbox.is_empty()
        {
            conn.half_closed = true;
            rustix::net::shutdown(&conn.socket, Shutdown::Write).ok();
        }
    }

    /// The earliest deadline of a flush.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.flushing.iter().filter_map(|&id| self.slots.get(id)?.flush_by).min()
    }

    /// A connection whose flush has taken too long.
    pub(super) fn expired(&self) -> Option<ConnId> {
        if self.flushing.is_empty() {
            return None;
        }
        let now = Instant::now();
        let late =
            |id: &&ConnId| self.slots.get(**id).and_then(|conn| conn.flush_by).is_some_and(|by| by <= now);
        self.flushing.iter().find(late).copied()
    }

    /// Its deadline is over; nothing more is to be flushed.
    pub(super) fn end_deadline(&mut self, id: ConnId) {
        self.flushing.retain(|&flushing| flushing != id);
        if let Some(conn) = self.slots.get_mut(id) {
            conn.flush_by = None;
        }
    }

    /// The open connections whose peer's host is gone, when it is time to look for such.
    pub(super) fn gone(&mut self, may_wait: bool) -> Vec<ConnId> {
        if !self.rounds.is_due(may_wait) {
            return Vec::new();
        }
        let is_gone = |conn: &Conn<D>| matches!(conn.phase, Phase::Open) && tcp::host_is_gone(&conn.socket);
        self.slots.ids().filter(|&id| self.slots.get(id).is_some_and(is_gone)).collect()
    }

    /// Takes out a connection that nobody has heard of yet.
    pub(super) fn forget(&mut self, id: ConnId) {
        self.slots.remove(id);
    }

    /// Takes the connection out; the kernel is done with it.
    pub(super) fn remove(&mut self, id: ConnId, reason: CloseReason) {
        let Some(mut conn) = self.slots.remove(id) else { return };
        if conn.flush_by.is_some() {
            self.flushing.retain(|&flushing| flushing != id);
        }
        conn.outbox.abandon(|token| self.events.push(Event::Sent { conn: id, token }));
        let reason = match (conn.muted, conn.failure.take(), reason) {
            (true, ..) => CloseReason::Local,
            (false, Some(failure), CloseReason::Peer) => CloseReason::Failed(failure),
            (false, _, reason) => reason,
        };
        self.events.push(Event::Closed { conn: id, reason });
    }
}

/// How long a poll may wait: `timeout`, but not past any of the deadlines.
pub(super) fn wait_time(
    timeout: Option<Duration>,
    deadlines: impl IntoIterator<Item = Option<Instant>>,
) -> Option<Duration> {
    let mut deadlines = deadlines.into_iter().flatten().peekable();
    if deadlines.peek().is_none() {
        return timeout;
    }
    let now = Instant::now();
    deadlines.map(|by| by.saturating_duration_since(now)).chain(timeout).min()
}
