//! What moves when a process polls: out of its queues onto the wires, and off the wires into its events.

use super::wires::{Arrival, EndId, Phase, Why, Wires};
use crate::net::link::{Body, Outgoing};
use crate::net::reactor::{CloseReason, ConnId, Event};
use std::os::fd::OwnedFd;

/// Pieces that one poll brings at most.
const MAX_PIECES: usize = 16;
/// Bytes of one at most, as a receive buffer has.
const MAX_PIECE_BYTES: usize = 64 << 10;

impl Wires {
    fn is_held(&self, id: EndId) -> bool {
        let end = &self.ends[id];
        let Some(peer) = end.peer.map(|peer| self.ends[peer].host).filter(|_| !end.is_local) else {
            return false;
        };
        let connects = end.phase == Phase::Opening;
        self.cut.contains(&(peer, end.host)) || (connects && self.cut.contains(&(end.host, peer)))
    }

    /// The next moment at which a poll brings something.
    pub(super) fn next_due(&self, endpoint: usize, now: u64) -> Option<u64> {
        let place = &self.endpoints[endpoint];
        if !place.pending.is_empty() {
            return Some(now);
        }
        place.ends.iter().filter_map(|&id| self.end_due(id, now)).min()
    }

    fn end_due(&self, id: EndId, now: u64) -> Option<u64> {
        let end = &self.ends[id];
        if self.can_move(id) {
            return Some(now);
        }
        let arrival = end.arrivals.front().filter(|_| !self.is_held(id)).map(|(at, _)| *at);
        let flush = match end.phase {
            Phase::Flushing { until_ns, .. } => Some(until_ns),
            _ => None,
        };
        arrival.into_iter().chain(flush).min()
    }

    fn can_move(&self, id: EndId) -> bool {
        let end = &self.ends[id];
        let is_open = match end.phase {
            Phase::Open => true,
            Phase::Flushing { told, .. } => !told,
            Phase::Opening | Phase::Gone => false,
        };
        let room = |peer: EndId| {
            self.ends[peer].phase == Phase::Gone || self.ends[peer].arriving < self.weather.wire_bytes
        };
        let idle = end.outbox.is_empty() && end.phase == Phase::Open;
        is_open && !idle && end.peer.is_some_and(room)
    }

    /// Moves what can be moved at this time. What was received goes into `pieces`, by its place there.
    pub(super) fn poll(
        &mut self,
        endpoint: usize,
        now: u64,
        events: &mut Vec<Event>,
        pieces: &mut dyn FnMut(ConnId, Vec<u8>) -> Option<Event>,
    ) {
        self.endpoints[endpoint].has_news.set(false);
        let mut received = 0;
        for id in self.endpoints[endpoint].ends.clone() {
            self.move_out(id, now, events);
            self.take_in(id, now, &mut received, events, pieces);
        }
        let place = &mut self.endpoints[endpoint];
        events.append(&mut place.pending);
        if std::mem::take(&mut place.was_rung) {
            events.push(Event::Woken);
        }
    }

    fn move_out(&mut self, id: EndId, now: u64, events: &mut Vec<Event>) {
        while self.can_move(id)
            && let Some(peer) = self.ends[id].peer
        {
            let Some(frame) = self.ends[id].outbox.pop_front() else {
                if let Phase::Flushing { told, .. } = &mut self.ends[id].phase {
                    *told = true;
                }
                return self.push(peer, Arrival::Closed(Why::Peer), now);
            };
            self.push(peer, Arrival::Bytes(encode(&frame)), now);
            events.extend(frame.token.map(|token| Event::Sent { conn: ConnId(id as u64), token }));
        }
    }

    fn take_in(
        &mut self,
        id: EndId,
        now: u64,
        received: &mut usize,
        events: &mut Vec<Event>,
        pieces: &mut dyn FnMut(ConnId, Vec<u8>) -> Option<Event>,
    ) {
        let conn = ConnId(id as u64);
        if let Phase::Flushing { until_ns, .. } = self.ends[id].phase
            && until_ns <= now
        {
            return self.gone(id, CloseReason::Local, now);
        }
        while *received < MAX_PIECES
            && self.ends[id].arrivals.front().is_some_and(|(at, _)| *at <= now)
            && !self.is_held(id)
        {
            let Some((_, arrival)) = self.ends[id].arrivals.pop_front() else { break };
            let flushing = matches!(self.ends[id].phase, Phase::Flushing { .. });
            match arrival {
                Arrival::Accepted(listener) => {
                    self.ends[id].phase = Phase::Open;
                    events.push(Event::Accepted { listener, conn });
                }
                Arrival::Connected if flushing => {}
                Arrival::Connected => {
                    self.ends[id].phase = Phase::Open;
                    events.push(Event::Connected { conn });
                }
                Arrival::Files(_) => {}
                Arrival::Bytes(bytes) => {
                    self.taken(id, bytes.len());
                    if !flushing {
                        *received += 1;
                        let piece = self.some_of(id, bytes);
                        events.extend(pieces(conn, piece));
                    }
                }
                Arrival::Closed(_) if flushing => self.gone(id, CloseReason::Local, now),
                Arrival::Closed(why) => self.gone(id, why.reason(), now),
            }
        }
    }

    /// So many bytes are off the wire, which has room for others.
    fn taken(&mut self, id: EndId, bytes: usize) {
        self.ends[id].arriving -= bytes;
        if let Some(peer) = self.ends[id].peer {
            self.touch(self.ends[peer].endpoint);
        }
    }

    /// What is received of a piece at once; the rest stays.
    fn some_of(&mut self, id: EndId, mut bytes: Vec<u8>) -> Vec<u8> {
        let cut = self.weather.pieces && bytes.len() > 1 && self.dice.once_in(4);
        let len = if cut { self.dice.between(1, bytes.len() as u64 - 1) as usize } else { bytes.len() };
        let len = len.min(MAX_PIECE_BYTES);
        if len < bytes.len() {
            let rest = bytes.split_off(len);
            self.put_back(id, rest);
        }
        bytes
    }

    /// What was taken in too early.
    pub(super) fn put_back(&mut self, id: EndId, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.ends[id].arriving += bytes.len();
            self.ends[id].arrivals.push_front((0, Arrival::Bytes(bytes)));
        }
    }

    /// Takes the next bytes off an end, past the events; `Err` when the other end is gone.
    pub(super) fn take_bytes(
        &mut self,
        id: EndId,
        now: u64,
        files: &mut Vec<OwnedFd>,
    ) -> Result<Option<Vec<u8>>, ()> {
        while self.ends[id].arrivals.front().is_some_and(|(at, _)| *at <= now) {
            match self.ends[id].arrivals.pop_front().map(|(_, arrival)| arrival) {
                Some(Arrival::Bytes(bytes)) => {
                    self.taken(id, bytes.len());
                    return Ok(Some(bytes));
                }
                Some(Arrival::Files(passed)) => files.extend(passed),
                Some(Arrival::Closed(_)) => return Err(()),
                _ => {}
            }
        }
        Ok(None)
    }

    pub(super) fn due_at(&self, id: EndId) -> Option<u64> {
        self.ends[id].arrivals.front().map(|(at, _)| *at)
    }
}

pub(super) fn encode(frame: &Outgoing) -> Vec<u8> {
    let mut bytes = frame.header.encode().to_vec();
    match &frame.body {
        Body::Empty => {}
        Body::Bytes(body) => bytes.extend_from_slice(body),
        Body::Block(block) => block.copy_into(&mut bytes),
    }
    bytes
}
