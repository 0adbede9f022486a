//! The frames of one connection on their way out.
//!
//! Frames wait in two queues: urgent ones go before tuples. One *flight* at a time is with the kernel: the headers and bodies of several frames as
//! one gather list. What the kernel has taken is counted off; a short send leaves the rest of the flight to be sent
//! next, so bytes never change their order. The flight's memory does not move, because the kernel may read the list
//! and the headers long after a call has returned.
#![allow(unsafe_code)]

use super::link::{Body, HEADER_BYTES, Outgoing};
use std::collections::VecDeque;
use std::io::IoSlice;

/// Frames of one flight. Enough to make a system call cheap per frame, few enough that tokens come back soon.
const FLIGHT_FRAMES: usize = 32;
const FLIGHT_PARTS: usize = 2 * FLIGHT_FRAMES;
/// No more frames join a flight that is so long: what an urgent frame may have to wait for.
const FLIGHT_BYTES: usize = 512 << 10;

#[derive(Debug)]
pub(super) struct Outbox {
    urgent: VecDeque<Outgoing>,
    /// Where in `urgent` the frame waits that the next one of its sort replaces.
    latest: Option<usize>,
    waiting: VecDeque<Outgoing>,
    flight: Box<Flight>,
    /// Bytes in both queues and in the flight that are not sent yet.
    queued_bytes: usize,
}

#[derive(Debug)]
struct Flight {
    headers: [[u8; HEADER_BYTES]; FLIGHT_FRAMES],
    parts: [libc::iovec; FLIGHT_PARTS],
    first_part: usize,
    part_count: usize,
    /// The frames that are not sent whole, and how many bytes of the flight end with each.
    frames: VecDeque<(Outgoing, usize)>,
    sent: usize,
}

impl Outbox {
    pub(super) fn new() -> Self {
        Self {
            urgent: VecDeque::new(),
            latest: None,
            waiting: VecDeque::new(),
            flight: Box::new(Flight {
                headers: [[0; HEADER_BYTES]; FLIGHT_FRAMES],
                parts: [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; FLIGHT_PARTS],
                first_part: 0,
                part_count: 0,
                frames: VecDeque::new(),
                sent: 0,
            }),
            queued_bytes: 0,
        }
    }

    pub(super) fn push(&mut self, frame: Outgoing) {
        debug_assert_eq!(
            frame.header.len as usize,
            frame.body.len(),
            "a header that tells its body's length"
        );
        self.queued_bytes += HEADER_BYTES + frame.body.len();
        let queue = if frame.is_urgent() { &mut self.urgent } else { &mut self.waiting };
        queue.push_back(frame);
    }

    /// Puts a frame in place of the one that was last pushed by this, if that waits.
    pub(super) fn push_latest(&mut self, frame: Outgoing) {
        debug_assert!(frame.is_urgent() && frame.token.is_none());
        match self.latest.and_then(|at| self.urgent.get_mut(at)) {
            Some(waiting) => {
                self.queued_bytes = self.queued_bytes + frame.body.len() - waiting.body.len();
                *waiting = frame;
            }
            None => {
                self.latest = Some(self.urgent.len());
                self.push(frame);
            }
        }
    }

    pub(super) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.urgent.is_empty() && self.waiting.is_empty() && self.flight.frames.is_empty()
    }

    /// The parts to send next, empty when there is nothing. They stay where they are until [`Outbox::sent`] or
    /// [`Outbox::abandon`].
    pub(super) fn load(&mut self) -> &[IoSlice<'_>] {
        if self.flight.frames.is_empty() {
            let before = self.urgent.len();
            self.flight.fill(&mut self.urgent, &mut self.waiting);
            let taken = before - self.urgent.len();
            self.latest = self.latest.and_then(|at| at.checked_sub(taken));
        }
        let parts = &self.flight.parts[self.flight.first_part..self.flight.part_count];
        // SAFETY: IoSlice is guaranteed to be laid out as iovec on Unix. Each part points into the boxed headers or
        // into a body that `frames` keeps, all of which outlive the borrow of self.
        unsafe { std::slice::from_raw_parts(parts.as_ptr().cast::<IoSlice<'_>>(), parts.len()) }
    }

    /// The kernel has taken `bytes` of the flight and is done with them; `token` gets the tokens that this frees.
    pub(super) fn sent(&mut self, bytes: usize, mut token: impl FnMut(u64)) {
        self.queued_bytes -= bytes;
        self.flight.advance(bytes, &mut token);
    }

    /// Drops all frames; `token` gets all their tokens. Only for when the kernel is done with the flight.
    pub(super) fn abandon(&mut self, mut token: impl FnMut(u64)) {
        self.queued_bytes = 0;
        self.latest = None;
        self.flight.part_count = 0;
        self.flight.first_part = 0;
        let flying = self.flight.frames.drain(..).map(|(frame, _)| frame);
        let queued = self.urgent.drain(..).chain(self.waiting.drain(..));
        flying.chain(queued).filter_map(|frame| frame.token).for_each(&mut token);
    }
}

impl Flight {
    fn fill(&mut self, urgent: &mut VecDeque<Outgoing>, waiting: &mut VecDeque<Outgoing>) {
        (self.first_part, self.part_count, self.sent) = (0, 0, 0);
        let mut end = 0;
        for slot in 0..FLIGHT_FRAMES {
            if end >= FLIGHT_BYTES {
                break;
            }
            let Some(frame) = urgent.pop_front().or_else(|| waiting.pop_front()) else { break };
            self.headers[slot] = frame.header.encode();
            self.add_part(self.headers[slot].as_ptr(), HEADER_BYTES);
            match &frame.body {
                Body::Empty => {}
                Body::Bytes(bytes) => self.add_part(bytes.as_ptr(), bytes.len()),
                Body::Block(block) => self.add_part(block.as_ptr(), block.len()),
            }
            end += HEADER_BYTES + frame.body.len();
            self.frames.push_back((frame, end));
        }
    }

    fn add_part(&mut self, start: *const u8, len: usize) {
        self.parts[self.part_count] = libc::iovec { iov_base: start.cast_mut().cast(), iov_len: len };
        self.part_count += 1;
    }

    fn advance(&mut self, bytes: usize, token: &mut impl FnMut(u64)) {
        self.sent += bytes;
        let mut left = bytes;
        while left > 0 {
            let part = &mut self.parts[self.first_part];
            let step = left.min(part.iov_len);
            part.iov_base = part.iov_base.cast::<u8>().wrapping_add(step).cast();
            part.iov_len -= step;
            left -= step;
            if part.iov_len == 0 {
                self.first_part += 1;
            }
        }
        while let Some((frame, end)) = self.frames.front()
            && *end <= self.sent
        {
            if let Some(freed) = frame.token {
                token(freed);
            }
            self.frames.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::link::{FrameHeader, FrameKind};

    fn frame(n: u8) -> Outgoing {
        let body = bytes::Bytes::from(vec![n; n as usize]);
        let header = FrameHeader::new(FrameKind::Batch, u32::from(n), 0, 0);
        let body = if n == 0 { Body::Empty } else { Body::Bytes(body) };
        Outgoing { header, body, token: Some(u64::from(n)) }
    }

    #[test]
    fn any_pattern_of_short_sends_keeps_the_bytes_in_order() {
        for step in 1..70 {
            let (mut outbox, mut want, mut got, mut tokens) = (Outbox::new(), vec![], vec![], vec![]);
            for n in 0..100 {
                let frame = frame(n);
                want.extend_from_slice(&frame.header.encode());
                want.extend(std::iter::repeat_n(n, n as usize));
                outbox.push(frame);
            }
            while !outbox.is_empty() {
                let parts: Vec<u8> = outbox.load().iter().flat_map(|part| part.iter().copied()).collect();
                let taken = parts.len().min(step);
                got.extend_from_slice(&parts[..taken]);
                outbox.sent(taken, |token| tokens.push(token));
                assert_eq!(outbox.queued_bytes(), want.len() - got.len());
            }
            assert_eq!(got, want);
            assert_eq!(tokens, (0..100).collect::<Vec<u64>>());
            assert!(outbox.load().is_empty());
        }
    }

    #[test]
    fn what_is_urgent_goes_before_tuples_that_wait() {
        use crate::message::{Message, RunState};
        let mut outbox = Outbox::new();
        (1..=100).for_each(|n| outbox.push(frame(n)));
        let large = FrameHeader::new(FrameKind::Batch, 1 << 20, 0, 0);
        let body = bytes::Bytes::from(vec![0; 1 << 20]);
        outbox.push(Outgoing { header: large, body: Body::Bytes(body), token: None });
        let kinds = |outbox: &mut Outbox| {
            outbox.load();
            let kinds: Vec<_> = outbox.flight.frames.iter().map(|(frame, _)| frame.header.kind).collect();
            let bytes = outbox.load().iter().map(|part| part.len()).sum();
            outbox.sent(bytes, |_| ());
            kinds
        };
        // The flight that has begun goes on as it is.
        outbox.load();
        outbox.push(Outgoing::end(1, 2));
        outbox.push(Outgoing::control(&Message::SetState(RunState::Draining)));
        outbox.push(Outgoing::credit(1, 2));
        assert!(kinds(&mut outbox).iter().all(|kind| *kind == FrameKind::Batch));
        assert_eq!(kinds(&mut outbox)[..3], [FrameKind::Control, FrameKind::Credit, FrameKind::Batch]);
        let rest = [kinds(&mut outbox), kinds(&mut outbox), kinds(&mut outbox)].concat();
        // A long frame ends its flight; an end stays behind the tuples before it.
        assert_eq!((rest.len(), *rest.last().unwrap()), (101 + 1 - 32 - 30, FrameKind::End));
        assert!(outbox.is_empty() && outbox.queued_bytes() == 0);
    }

    #[test]
    fn of_frames_that_make_each_other_needless_one_waits() {
        use crate::ids::TaskId;
        use crate::message::Message;
        let news = |n: u32| Outgoing::control(&Message::FailAll((0..n).map(TaskId).collect()));
        let mut outbox = Outbox::new();
        for begun in 0..100 {
            // Some are on their way already, and others wait before and behind.
            (0..begun).for_each(|_| outbox.push(Outgoing::credit(1, 2)));
            (1..50).for_each(|n| outbox.push_latest(news(n)));
            outbox.push(Outgoing::credit(3, 4));
            outbox.load();
            (50..100).for_each(|n| outbox.push_latest(news(n)));
            let mut told = Vec::new();
            while !outbox.is_empty() {
                outbox.load();
                let frames = outbox.flight.frames.iter().filter(|f| f.0.header.kind == FrameKind::Control);
                told.extend(frames.map(|(frame, _)| frame.body.len()));
                let bytes = outbox.load().iter().map(|part| part.len()).sum();
                outbox.sent(bytes, |_| ());
            }
            let (before, last) = (news(49).body.len(), news(99).body.len());
            let want = if begun < FLIGHT_FRAMES { vec![before, last] } else { vec![last] };
            assert_eq!((told, outbox.queued_bytes()), (want, 0), "behind {begun}");
        }
    }

    #[test]
    fn abandoned_frames_give_their_tokens_back_once() {
        let (mut outbox, mut tokens) = (Outbox::new(), vec![]);
        (1..50).for_each(|n| outbox.push(frame(n)));
        outbox.load();
        outbox.sent(17 + 16, |token| tokens.push(token));
        outbox.abandon(|token| tokens.push(token));
        assert_eq!(tokens, (1..50).collect::<Vec<u64>>());
        assert!(outbox.is_empty() && outbox.load().is_empty() && outbox.queued_bytes() == 0);
    }
}
