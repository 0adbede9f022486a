//! The header that every block begins with.
//!
//! ```text
//!  0       2         4        8        12       14     16      20     24          32      36            40        48         64
//!  | magic | version | source | target | stream | kind | count | used | edge base | spout | incarnation | root id | reserved | body …
//!  |  u16  |   u16   |  u32   |  u32   |  u16   | u16  |  u32  | u32  |   u64     |  u32  |     u32     |   u64   |    0     |
//! ```
//!
//! Little-endian. `kind` is that of [`BlockKind`], and says what the body is and which fields matter:
//!
//! | kind | body | target | stream | edge base | spout, incarnation, root id |
//! |---|---|---|---|---|---|
//! | `Data` | [tuples](super::batch) | the destination | of the emitter | 0 when no tuple has roots | the [root](super::root) that others are near to |
//! | `Ack`, `Fail` | [records](super::ack) | the spout's task | 0 | 0 | whose roots they are, and 0 |
//!
//! `count` is the number of tuples or records, `used` that of bytes, the header included. The reader checks every
//! number against the bytes there are.

use super::root::{Owner, ROOT_BYTES, Root};
use crate::ids::{Incarnation, TaskId};

const MAGIC: u16 = u16::from_le_bytes(*b"EB");
const VERSION: u16 = 4;

/// Bytes of the header.
pub(super) const HEADER_BYTES: usize = 64;
/// Where what follows begins: everything in a block stands at multiples of this.
pub(super) const ALIGN: usize = 8;

const SOURCE: usize = 4;
const TARGET: usize = 8;
const STREAM: usize = 12;
const KIND: usize = 14;
const COUNT: usize = 16;
const USED: usize = 20;
const EDGE_BASE: usize = 24;
const ROOT: usize = 32;

const _: () =
    assert!(SOURCE + 4 == TARGET && TARGET + 4 == STREAM && STREAM + 2 == KIND && KIND + 2 == COUNT);
const _: () = assert!(COUNT + 4 == USED && USED + 4 == EDGE_BASE && EDGE_BASE + 8 == ROOT);
const _: () = assert!(ROOT + ROOT_BYTES <= HEADER_BYTES && HEADER_BYTES.is_multiple_of(ALIGN));

/// What the body of a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum BlockKind {
    /// Tuples.
    Data = 1,
    /// Records of what was acked.
    Ack = 2,
    /// Records of what failed.
    Fail = 3,
}

/// Why bytes are no block of the expected kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Shorter than a header.
    #[error("a block of {0} bytes is shorter than its header")]
    Short(usize),
    /// It does not begin as a block does.
    #[error("not a block of this version")]
    NotABlock,
    /// A block, but not of a kind that is right here.
    #[error("the block's kind is {0}, which is unknown or out of place")]
    Kind(u16),
    /// The header claims more bytes than there are.
    #[error("the block claims {claimed} bytes of {actual}")]
    Used {
        /// What the header says.
        claimed: u32,
        /// What there is.
        actual: usize,
    },
    /// A tuple reaches beyond the end, or has roots where there is no edge base, or the count is wrong.
    #[error("tuple {0} of the block is malformed")]
    Tuple(u32),
    /// The number of records is not that of the bytes.
    #[error("a block of {used} bytes that claims {count} records")]
    Records {
        /// What the header says.
        count: u32,
        /// Bytes in use.
        used: u32,
    },
}

/// The header as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: u16,
    pub(super) source: u32,
    pub(super) target: u32,
    pub(super) stream: u16,
    pub(super) count: u32,
    pub(super) used: u32,
    pub(super) edge_base: u64,
    pub(super) root: Root,
}

impl Header {
    /// Writes it to the start of `block`, which is long enough.
    pub(super) fn write(&self, block: &mut [u8]) {
        let bytes = &mut block[..HEADER_BYTES];
        bytes.fill(0);
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &MAGIC.to_le_bytes());
        put(2, &VERSION.to_le_bytes());
        put(SOURCE, &self.source.to_le_bytes());
        put(TARGET, &self.target.to_le_bytes());
        put(STREAM, &self.stream.to_le_bytes());
        put(KIND, &self.kind.to_le_bytes());
        put(COUNT, &self.count.to_le_bytes());
        put(USED, &self.used.to_le_bytes());
        put(EDGE_BASE, &self.edge_base.to_le_bytes());
        put(ROOT, &self.root.to_bytes());
    }

    /// Reads it, and the body that is in use.
    #[inline]
    pub(super) fn read(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let Some(head) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(Malformed::Short(bytes.len()));
        };
        let u16_at = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        if (u16_at(0), u16_at(2)) != (MAGIC, VERSION) {
            return Err(Malformed::NotABlock);
        }
        let header = Self {
            kind: u16_at(KIND),
            source: u32_at(SOURCE),
            target: u32_at(TARGET),
            stream: u16_at(STREAM),
            count: u32_at(COUNT),
            used: u32_at(USED),
            edge_base: u64_at(EDGE_BASE),
            root: Root {
                owner: Owner::new(TaskId(u32_at(ROOT)), Incarnation(u32_at(ROOT + 4))),
                id: u64_at(ROOT + 8),
            },
        };
        match bytes.get(HEADER_BYTES..header.used as usize) {
            Some(body) => Ok((header, body)),
            None => Err(Malformed::Used { claimed: header.used, actual: bytes.len() }),
        }
    }
}

/// Puts a plausible header of this kind before random bytes, so that what is behind it is looked at.
#[cfg(test)]
pub(super) fn make_plausible(bytes: &mut [u8], kind: BlockKind) {
    let mut fields = bytes.to_vec();
    if let Some(head) = fields.first_chunk_mut::<HEADER_BYTES>() {
        head[0..2].copy_from_slice(&MAGIC.to_le_bytes());
        head[2..4].copy_from_slice(&VERSION.to_le_bytes());
        head[KIND..COUNT].copy_from_slice(&(kind as u16).to_le_bytes());
        head[USED..EDGE_BASE].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        bytes.copy_from_slice(&fields);
    }
}
