//! Connections between simulated processes, and what is on them.
//!
//! A connection has two ends. What one end sends is taken off its queue when its process polls, as far as the wire has
//! room, and arrives at the other in order and after a time drawn for each piece. What arrives waits there until that
//! process polls. A process that dies closes its ends; what was on the wire then still arrives, or is lost with it, as when
//! a kernel answers with a reset.

use super::dice::Dice;
use super::flow::encode;
use crate::net::link::Outgoing;
use crate::net::reactor::{CloseReason, ConnId, Event, ListenerId};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// A simulated machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u32);

/// How the network is.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// The least time that a piece is under way.
    pub min_delay: Duration,
    /// The most.
    pub max_delay: Duration,
    /// Bytes that a wire takes before its sender has to wait.
    pub wire_bytes: usize,
    /// Whether what arrives is cut into pieces anywhere.
    pub pieces: bool,
}

impl Default for Weather {
    fn default() -> Self {
        let (min_delay, max_delay) = (Duration::from_micros(20), Duration::from_micros(100));
        Self { min_delay, max_delay, wire_bytes: 256 << 10, pieces: false }
    }
}

/// How long a connection may take to send what is left and see its peer close, in nanoseconds.
const FLUSH_NS: u64 = 5_000_000_000;

/// One end of a connection, by number; never used twice.
pub(super) type EndId = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Opening,
    Open,
    /// Closed by this side once everything is sent; until then, and whether it is.
    Flushing {
        until_ns: u64,
        told: bool,
    },
    Gone,
}

pub(super) enum Arrival {
    Accepted(ListenerId),
    Connected,
    Bytes(Vec<u8>),
    Files(Vec<OwnedFd>),
    Closed(Why),
}

#[derive(Clone, Copy)]
pub(super) enum Why {
    Peer,
    Refused,
    Reset,
}

impl Why {
    pub(super) fn reason(self) -> CloseReason {
        match self {
            Self::Peer => CloseReason::Peer,
            Self::Refused => CloseReason::ConnectFailed(io::ErrorKind::ConnectionRefused.into()),
            Self::Reset => CloseReason::Failed(io::ErrorKind::ConnectionReset.into()),
        }
    }
}

pub(super) struct End {
    pub(super) endpoint: usize,
    pub(super) host: HostId,
    /// The other end; none where nobody listened.
    pub(super) peer: Option<EndId>,
    /// Both ends are on one host, on a Unix socket.
    pub(super) is_local: bool,
    pub(super) phase: Phase,
    pub(super) outbox: VecDeque<Outgoing>,
    pub(super) arrivals: VecDeque<(u64, Arrival)>,
    /// Bytes among them.
    pub(super) arriving: usize,
}

/// What a process has of the network.
pub(super) struct Endpoint {
    pub(super) host: HostId,
    pub(super) ends: Vec<EndId>,
    pub(super) pending: Vec<Event>,
    pub(super) listeners: u32,
    /// Something has changed since it polled last.
    pub(super) has_news: Rc<Cell<bool>>,
    /// Somebody has rung its doorbell.
    pub(super) was_rung: bool,
    /// What it goes by, as others may check.
    pub(super) posted: Vec<u32>,
}

pub(super) struct Wires {
    pub(super) dice: Dice,
    pub(super) weather: Weather,
    /// Pairs of hosts of which the first cannot reach the second.
    pub(super) cut: BTreeSet<(HostId, HostId)>,
    pub(super) trace: u64,
    pub(super) ends: Vec<End>,
    pub(super) endpoints: Vec<Endpoint>,
    tcp: BTreeMap<SocketAddr, (usize, ListenerId)>,
    local: BTreeMap<PathBuf, (usize, ListenerId)>,
    next_port: u16,
}

impl Wires {
    pub(super) fn new(dice: Dice) -> Self {
        Self {
            dice,
            weather: Weather::default(),
            cut: BTreeSet::new(),
            trace: 0,
            ends: Vec::new(),
            endpoints: Vec::new(),
            tcp: BTreeMap::new(),
            local: BTreeMap::new(),
            next_port: 1024,
        }
    }

    pub(super) fn add_endpoint(&mut self, host: HostId) {
        self.endpoints.push(Endpoint {
            host,
            ends: Vec::new(),
            pending: Vec::new(),
            listeners: 0,
            has_news: Rc::default(),
            was_rung: false,
            posted: Vec::new(),
        });
    }

    /// The process at this endpoint has to look again.
    pub(super) fn touch(&self, endpoint: usize) {
        self.endpoints[endpoint].has_news.set(true);
    }

    /// Every process has to look again.
    pub(super) fn touch_all(&self) {
        self.endpoints.iter().for_each(|endpoint| endpoint.has_news.set(true));
    }

    /// Somebody rings the doorbell of an endpoint.
    pub(super) fn ring(&mut self, endpoint: usize) {
        self.endpoints[endpoint].was_rung = true;
        self.touch(endpoint);
    }

    fn next_listener(&mut self, endpoint: usize) -> ListenerId {
        self.endpoints[endpoint].listeners += 1;
        ListenerId(self.endpoints[endpoint].listeners)
    }

    pub(super) fn bind_tcp(&mut self, endpoint: usize) -> (ListenerId, SocketAddr) {
        let [_, a, b, c] = self.endpoints[endpoint].host.0.to_be_bytes();
        self.next_port = self.next_port.checked_add(1).unwrap_or(1024);
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, a, b, c)), self.next_port);
        let listener = self.next_listener(endpoint);
        self.tcp.insert(address, (endpoint, listener));
        (listener, address)
    }

    pub(super) fn bind_local(&mut self, endpoint: usize, path: PathBuf) -> ListenerId {
        let listener = self.next_listener(endpoint);
        self.local.insert(path, (endpoint, listener));
        listener
    }

    /// An end without a peer.
    fn add_end(&mut self, endpoint: usize, is_local: bool, phase: Phase) -> EndId {
        let id = self.ends.len();
        let host = self.endpoints[endpoint].host;
        let (outbox, arrivals) = (VecDeque::new(), VecDeque::new());
        self.ends.push(End { endpoint, host, peer: None, is_local, phase, outbox, arrivals, arriving: 0 });
        self.endpoints[endpoint].ends.push(id);
        id
    }

    fn join(&mut self, caller: EndId, listener: (usize, ListenerId), is_local: bool, now: u64) {
        let accepted = self.add_end(listener.0, is_local, Phase::Opening);
        self.ends[accepted].peer = Some(caller);
        self.ends[caller].peer = Some(accepted);
        self.push(accepted, Arrival::Accepted(listener.1), now);
    }

    pub(super) fn connect(&mut self, endpoint: usize, address: SocketAddr, now: u64) -> EndId {
        let id = self.add_end(endpoint, false, Phase::Opening);
        match self.tcp.get(&address).copied() {
            Some(listener) => {
                self.join(id, listener, false, now);
                self.push(id, Arrival::Connected, now);
            }
            None => self.push(id, Arrival::Closed(Why::Refused), now),
        }
        id
    }

    pub(super) fn connect_local(&mut self, endpoint: usize, path: &PathBuf, now: u64) -> Option<EndId> {
        let listener = self.local.get(path).copied()?;
        let id = self.add_end(endpoint, true, Phase::Open);
        self.join(id, listener, true, now);
        Some(id)
    }

    /// Something is to arrive at an end, after what is under way already.
    pub(super) fn push(&mut self, to: EndId, what: Arrival, now: u64) {
        let weather = self.weather;
        let (low, high) = (weather.min_delay.as_nanos() as u64, weather.max_delay.as_nanos() as u64);
        let delay =
            if self.ends[to].is_local { self.dice.between(500, 5_000) } else { self.dice.between(low, high) };
        let end = &mut self.ends[to];
        if end.phase == Phase::Gone {
            return;
        }
        let after = end.arrivals.back().map_or(0, |(at, _)| *at);
        if let Arrival::Bytes(bytes) = &what {
            end.arriving += bytes.len();
            self.trace = (self.trace ^ now ^ (bytes.len() as u64) << 40).wrapping_mul(0x0000_0100_0000_01b3);
        }
        end.arrivals.push_back((after.max(now + delay), what));
        let endpoint = end.endpoint;
        self.touch(endpoint);
    }

    pub(super) fn send(&mut self, id: EndId, frame: Outgoing) {
        let Some(end) = self.ends.get_mut(id) else { return };
        if matches!(end.phase, Phase::Opening | Phase::Open) {
            end.outbox.push_back(frame);
        } else if let Some(token) = frame.token {
            self.endpoints[end.endpoint].pending.push(Event::Sent { conn: ConnId(id as u64), token });
        }
    }

    pub(super) fn send_now(&mut self, id: EndId, frame: &Outgoing, files: Vec<OwnedFd>, now: u64) -> bool {
        let Some(peer) = self.ends.get(id).filter(|end| end.phase == Phase::Open).and_then(|end| end.peer)
        else {
            return false;
        };
        if !files.is_empty() {
            self.push(peer, Arrival::Files(files), now);
        }
        self.push(peer, Arrival::Bytes(encode(frame)), now);
        true
    }

    pub(super) fn queued_bytes(&self, id: EndId) -> usize {
        self.ends.get(id).map_or(0, |end| end.outbox.iter().map(|frame| frame.body.len() + 16).sum())
    }

    pub(super) fn close(&mut self, id: EndId, now: u64) {
        if self.ends.get(id).is_some_and(|end| end.phase != Phase::Gone) {
            self.gone(id, CloseReason::Local, now);
        }
    }

    pub(super) fn close_after_flush(&mut self, id: EndId, now: u64) {
        if let Some(end) = self.ends.get_mut(id)
            && matches!(end.phase, Phase::Opening | Phase::Open)
        {
            end.phase = Phase::Flushing { until_ns: now + FLUSH_NS, told: false };
        }
    }

    /// An end is over, and its process is told: the tokens first. The other end hears of it.
    pub(super) fn gone(&mut self, id: EndId, reason: CloseReason, now: u64) {
        let conn = ConnId(id as u64);
        let end = &mut self.ends[id];
        let was_told = matches!(end.phase, Phase::Flushing { told: true, .. });
        end.phase = Phase::Gone;
        let (endpoint, peer) = (end.endpoint, end.peer);
        let tokens: Vec<u64> = end.outbox.drain(..).filter_map(|frame| frame.token).collect();
        end.arrivals.clear();
        let place = &mut self.endpoints[endpoint];
        place.pending.extend(tokens.into_iter().map(|token| Event::Sent { conn, token }));
        place.pending.push(Event::Closed { conn, reason });
        place.ends.retain(|&other| other != id);
        self.touch(endpoint);
        if let Some(peer) = peer.filter(|_| !was_told) {
            self.push(peer, Arrival::Closed(Why::Peer), now);
        }
    }

    /// What the process at the other end has posted, if the connection is open and nothing is under way on it.
    pub(super) fn posted(&self, id: EndId) -> Option<Vec<u32>> {
        let is_quiet =
            |end: &&End| end.phase == Phase::Open && end.outbox.is_empty() && end.arrivals.is_empty();
        let end = self.ends.get(id).filter(is_quiet)?;
        let other = self.ends.get(end.peer?).filter(is_quiet)?;
        Some(self.endpoints[other.endpoint].posted.clone())
    }

    /// Breaks some connection over the network.
    pub(super) fn reset_some(&mut self, now: u64) -> bool {
        let is_whole =
            |(_, end): &(usize, &End)| end.phase == Phase::Open && !end.is_local && end.peer.is_some();
        let whole: Vec<EndId> = self.ends.iter().enumerate().filter(is_whole).map(|(id, _)| id).collect();
        let Some(&id) = self.dice.choose(&whole) else { return false };
        for end in [Some(id), self.ends[id].peer].into_iter().flatten() {
            self.lose_some(end);
            self.push(end, Arrival::Closed(Why::Reset), now);
        }
        true
    }

    /// Of what is under way to an end only some arrives.
    fn lose_some(&mut self, id: EndId) {
        let len = self.ends[id].arrivals.len() as u64;
        let keep = self.dice.between(0, len) as usize;
        let end = &mut self.ends[id];
        for (_, lost) in end.arrivals.drain(keep..) {
            if let Arrival::Bytes(bytes) = lost {
                end.arriving -= bytes.len();
            }
        }
    }

    /// A process is gone with all that it had.
    pub(super) fn endpoint_died(&mut self, endpoint: usize, now: u64) {
        self.tcp.retain(|_, (owner, _)| *owner != endpoint);
        self.local.retain(|_, (owner, _)| *owner != endpoint);
        for id in std::mem::take(&mut self.endpoints[endpoint].ends) {
            let end = &mut self.ends[id];
            let unread = !end.arrivals.is_empty();
            end.phase = Phase::Gone;
            end.outbox.clear();
            end.arrivals.clear();
            let Some(peer) = end.peer else { continue };
            // A kernel answers what comes for nobody with a reset, which overtakes what was sent.
            if unread && self.dice.once_in(2) {
                self.lose_some(peer);
            }
            self.push(peer, Arrival::Closed(Why::Peer), now);
        }
        self.endpoints[endpoint].pending.clear();
    }

    /// Ends a connection of which nobody has heard yet.
    pub(super) fn forget(&mut self, id: EndId, now: u64) {
        self.close(id, now);
        let conn = ConnId(id as u64);
        let is_about = |event: &Event| matches!(event, Event::Closed { conn: other, .. } if *other == conn);
        self.endpoints[self.ends[id].endpoint].pending.retain(|event| !is_about(event));
    }
}
