//! How a frame looks on a connection.
//!
//! ```text
//!  0        4      6       8        12      16
//!  +--------+------+-------+--------+-------+----------------+
//!  | len    | kind | flags | target | aux   | len bytes body |
//!  +--------+------+-------+--------+-------+----------------+
//!    u32      u16    u16     u32      u32          all numbers little-endian
//! ```
//!
//! | kind | body | target | aux |
//! |---|---|---|---|
//! | `Handshake` | a step of the [handshake](super::handshake) | 0 | 0 |
//! | `Control` | a [`Message`] | 0 | 0 |
//! | `Batch` | a block's used bytes: header, then tuples or acks | the destination | the [`Purpose`] |
//! | `End` | none | the task it is for | the task that has ended |
//! | `Credit` | none | the destination | size class << 24 \| number of blocks |
//!
//! `flags` is 0 so far. Whatever is not rightful is a [`FrameError`]: there is no way to find the next frame in a
//! stream that has broken once, so the connection ends.

use crate::frame::Purpose;
use crate::memory::BlockBytes;
use crate::message::Message;

pub use super::decoder::{FeedError, FrameDecoder, FrameSink};

/// Bytes of an encoded [`FrameHeader`].
pub const HEADER_BYTES: usize = 16;
/// The longest body of a control frame.
pub const MAX_CONTROL_BYTES: u32 = 16 << 20;

const _: () = assert!(HEADER_BYTES == 4 + 2 + 2 + 4 + 4);

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum FrameKind {
    /// A step of the handshake.
    Handshake = 1,
    /// A control message.
    Control = 2,
    /// A block of tuples or acks.
    Batch = 3,
    /// A task has ended.
    End = 4,
    /// The receiver of batches has blocks for more.
    Credit = 5,
}

impl FrameKind {
    fn from_wire(kind: u16) -> Option<Self> {
        Some(match kind {
            1 => Self::Handshake,
            2 => Self::Control,
            3 => Self::Batch,
            4 => Self::End,
            5 => Self::Credit,
            _ => return None,
        })
    }
}

/// The first 16 bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes of the body.
    pub len: u32,
    /// What it is.
    pub kind: FrameKind,
    /// Always 0 so far.
    pub flags: u16,
    /// Whom it is for; see the module's table.
    pub target: u32,
    /// One more number; see the module's table.
    pub aux: u32,
}

impl FrameHeader {
    /// A header without flags.
    #[must_use]
    pub const fn new(kind: FrameKind, len: u32, target: u32, aux: u32) -> Self {
        Self { len, kind, flags: 0, target, aux }
    }

    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&self.len.to_le_bytes());
        bytes[4..6].copy_from_slice(&(self.kind as u16).to_le_bytes());
        bytes[6..8].copy_from_slice(&self.flags.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.target.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.aux.to_le_bytes());
        bytes
    }

    /// Reads a header. Only the kind is checked here; [`FrameLimits::check`] checks the rest.
    ///
    /// # Errors
    /// [`FrameError::UnknownKind`].
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, FrameError> {
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let kind = FrameKind::from_wire(u16_at(4)).ok_or(FrameError::UnknownKind(u16_at(4)))?;
        Ok(Self { len: u32_at(0), kind, flags: u16_at(6), target: u32_at(8), aux: u32_at(12) })
    }
}

/// How long the bodies may be on a connection that is past its handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLimits {
    /// The shortest batch that can be rightful.
    pub min_batch_bytes: u32,
    /// The longest batch; 0 where batches are not expected at all.
    pub max_batch_bytes: u32,
    /// The longest control message.
    pub max_control_bytes: u32,
}

impl FrameLimits {
    /// For a connection that carries control messages only.
    #[must_use]
    pub const fn control_only() -> Self {
        Self { min_batch_bytes: 1, max_batch_bytes: 0, max_control_bytes: MAX_CONTROL_BYTES }
    }

    /// For a link between stmgrs, whose batches have `min..=max` bytes.
    #[must_use]
    pub const fn batches(min: u32, max: u32) -> Self {
        Self { min_batch_bytes: min, max_batch_bytes: max, max_control_bytes: MAX_CONTROL_BYTES }
    }

    /// Whether a frame with this header may come.
    ///
    /// # Errors
    /// The [`FrameError`] that says why not.
    pub fn check(&self, header: &FrameHeader) -> Result<(), FrameError> {
        let (min, max) = match header.kind {
            FrameKind::Handshake => return Err(FrameError::UnexpectedHandshake),
            FrameKind::Batch => (self.min_batch_bytes, self.max_batch_bytes),
            FrameKind::Control => (1, self.max_control_bytes),
            FrameKind::End | FrameKind::Credit => (0, 0),
        };
        if header.len < min || header.len > max {
            return Err(FrameError::Length { kind: header.kind, len: header.len, min, max });
        }
        if header.flags != 0 {
            return Err(FrameError::UnknownFlags(header.flags));
        }
        Ok(())
    }
}

/// Why bytes are no frame.
#[derive(thiserror::Error, Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The peer speaks something else.
    #[error("frame kind {0} is unknown (1 to 5 are known): the peer does not speak Egret's protocol")]
    UnknownKind(u16),
    /// The peer is newer, or it speaks something else.
    #[error("frame flags {0:#06x} are unknown, they must be 0")]
    UnknownFlags(u16),
    /// Too short or too long.
    #[error("a {kind:?} frame of {len} bytes came, {min} to {max} are right")]
    Length {
        /// The frame's kind.
        kind: FrameKind,
        /// The length it claims.
        len: u32,
        /// The shortest rightful.
        min: u32,
        /// The longest rightful.
        max: u32,
    },
    /// The handshake is over, or there is none here.
    #[error("a handshake frame came on an established connection")]
    UnexpectedHandshake,
    /// The sink gave a block that is too small.
    #[error("a batch of {need} bytes came for a block of {have}")]
    BlockTooSmall {
        /// The batch's bytes.
        need: u32,
        /// The block's bytes.
        have: usize,
    },
    /// An earlier frame was bad; nothing after it can be read.
    #[error("the connection has broken before")]
    Broken,
}

/// A frame on its way out: what a [`Reactor`](super::reactor::Reactor) sends.
#[derive(Debug)]
pub struct Outgoing {
    /// Its header; `len` must be the body's length.
    pub header: FrameHeader,
    /// Its body.
    pub body: Body,
    /// Comes back as [`Event::Sent`](super::reactor::Event::Sent), exactly once, when the kernel is done with the
    /// body's memory.
    pub token: Option<u64>,
}

/// The body of an [`Outgoing`].
#[derive(Clone, Debug, Default)]
pub enum Body {
    /// None.
    #[default]
    Empty,
    /// Bytes on the heap.
    Bytes(bytes::Bytes),
    /// The first bytes of a block, sent from where they lie.
    Block(BlockBytes),
}

impl Body {
    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::Bytes(bytes) => bytes.len(),
            Self::Block(block) => block.len(),
        }
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Outgoing {
    /// Whether it may go before tuples that wait, and the ends behind them: it is a message, credit, or a block of acks
    /// or losses, none of which has a place in the order of tuples.
    pub(super) fn is_urgent(&self) -> bool {
        match self.header.kind {
            FrameKind::Handshake | FrameKind::Control | FrameKind::Credit => true,
            FrameKind::Batch => self.header.aux != Purpose::Data as u32,
            FrameKind::End => false,
        }
    }

    /// A control message.
    #[must_use]
    pub fn control(message: &Message) -> Self {
        Self::bytes(FrameKind::Control, message.encode())
    }

    /// `task` has ended, for the task `target`.
    #[must_use]
    pub const fn end(target: u32, ended: u32) -> Self {
        Self { header: FrameHeader::new(FrameKind::End, 0, target, ended), body: Body::Empty, token: None }
    }

    /// `aux` as in the module's table.
    #[must_use]
    pub const fn credit(target: u32, aux: u32) -> Self {
        Self { header: FrameHeader::new(FrameKind::Credit, 0, target, aux), body: Body::Empty, token: None }
    }

    /// A batch for `target`; `token` comes back when the block is free of the kernel.
    #[must_use]
    pub fn batch(target: u32, purpose: Purpose, block: BlockBytes, token: u64) -> Self {
        let len = u32::try_from(block.len()).unwrap_or(u32::MAX);
        let header = FrameHeader::new(FrameKind::Batch, len, target, purpose as u32);
        Self { header, body: Body::Block(block), token: Some(token) }
    }

    pub(super) fn bytes(kind: FrameKind, body: bytes::Bytes) -> Self {
        // A body beyond u32 is far beyond every limit too; the peer refuses it by its length.
        let len = u32::try_from(body.len()).unwrap_or(u32::MAX);
        Self { header: FrameHeader::new(kind, len, 0, 0), body: Body::Bytes(body), token: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_the_wire() {
        let header = FrameHeader { len: 1, kind: FrameKind::Credit, flags: 2, target: 0x8000_0003, aux: 4 };
        assert_eq!(header.encode(), [1, 0, 0, 0, 5, 0, 2, 0, 3, 0, 0, 0x80, 4, 0, 0, 0]);
        assert_eq!(FrameHeader::decode(&header.encode()), Ok(header));
    }

    #[test]
    fn wrong_lengths_are_refused() {
        let limits = FrameLimits::batches(64, 4096);
        let check = |kind, len| limits.check(&FrameHeader::new(kind, len, 1, 1)).is_ok();
        for (kind, min, max) in [
            (FrameKind::Batch, 64, 4096),
            (FrameKind::Control, 1, MAX_CONTROL_BYTES),
            (FrameKind::End, 0, 0),
            (FrameKind::Credit, 0, 0),
        ] {
            assert!(check(kind, min) && check(kind, max), "{kind:?}");
            assert!(!check(kind, max + 1) && !check(kind, u32::MAX), "{kind:?}");
            assert!(min == 0 || !check(kind, min - 1), "{kind:?}");
        }
        assert!(!check(FrameKind::Handshake, 80));
        assert!(FrameLimits::control_only().check(&FrameHeader::new(FrameKind::Batch, 1, 0, 0)).is_err());
    }
}
