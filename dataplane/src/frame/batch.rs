//! A block's header and its tuples.
//!
//! ```text
//!  0         2         4        8        12       14      16      20     24          32         64
//!  | magic   | version | source | target | stream | flags | count | used | edge base | reserved | tuples …
//!  |  u16    |   u16   |  u32   |  u32   |  u16   |  u16  |  u32  | u32  |   u64     |          |
//!
//!  tuple:  0        4        8
//!          | length | roots  | archive (length bytes) | zero to 8 bytes |
//!          |  u32   |  u32   |
//! ```
//!
//! Little-endian. Tuples begin at multiples of 8, so an archive may be read in place. `roots` is 0 until tuples are
//! tracked; `edge base` is 0 for the same reason. The reader checks every number against the bytes there are.

use super::Destination;
use crate::ids::{StreamIndex, TaskId};
use crate::memory::{Descriptor, DescriptorKind, MAX_COUNT, OwnedBlock};

const MAGIC: u16 = u16::from_le_bytes(*b"EB");
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 64;
const TUPLE_HEADER_BYTES: usize = 8;
const ALIGN: usize = 8;

/// Bytes of a block that a single tuple in it cannot use.
pub const BLOCK_OVERHEAD: usize = HEADER_BYTES + TUPLE_HEADER_BYTES + ALIGN;

const _: () = assert!(HEADER_BYTES.is_multiple_of(ALIGN) && TUPLE_HEADER_BYTES.is_multiple_of(ALIGN));

/// Who emitted the tuples of a block, on which stream and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// The emitter.
    pub source: TaskId,
    /// Who gets it.
    pub target: Destination,
    /// The emitter's output stream.
    pub stream: StreamIndex,
}

/// The tuple does not fit into what is left of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no room left in the block")]
pub struct NoRoom;

/// Writes tuples into a block, in place.
#[derive(Debug)]
pub struct BatchBuilder {
    block: OwnedBlock,
    header: BatchHeader,
    used: usize,
    count: u32,
}

impl BatchBuilder {
    /// An empty batch in `block`.
    #[must_use]
    pub fn new(block: OwnedBlock, header: BatchHeader) -> Self {
        Self { block, header, used: HEADER_BYTES, count: 0 }
    }

    /// Appends one tuple: `write` gets the free bytes, aligned to 8, writes an archive at their start and says how
    /// long it is, or `None` when they are too few.
    ///
    /// # Errors
    /// [`NoRoom`] when it does not fit; the batch is as before.
    ///
    /// # Panics
    /// When `write` claims more bytes than it was given.
    #[inline]
    pub fn append(&mut self, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> Result<(), NoRoom> {
        let start = self.used + TUPLE_HEADER_BYTES;
        let bytes = self.block.bytes_mut();
        if start > bytes.len() || self.count == MAX_COUNT {
            return Err(NoRoom);
        }
        let len = write(&mut bytes[start..]).ok_or(NoRoom)?;
        let end = (start + len).next_multiple_of(ALIGN);
        if end > bytes.len() {
            return Err(NoRoom);
        }
        bytes[self.used..start].copy_from_slice(&u64::from(len as u32).to_le_bytes());
        if start + len < end {
            // Most archives end at a multiple of 8; the test spares them a call.
            bytes[start + len..end].fill(0);
        }
        self.used = end;
        self.count += 1;
        Ok(())
    }

    /// How many tuples it holds.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Where it goes.
    #[inline]
    #[must_use]
    pub fn header(&self) -> BatchHeader {
        self.header
    }

    /// Writes the header; the block is ready to go with its descriptor.
    #[must_use]
    pub fn finish(mut self) -> (OwnedBlock, Descriptor) {
        let bytes = &mut self.block.bytes_mut()[..HEADER_BYTES];
        bytes.fill(0);
        bytes[0..2].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[2..4].copy_from_slice(&VERSION.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.header.source.0.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.header.target.to_u32().to_le_bytes());
        bytes[12..14].copy_from_slice(&self.header.stream.0.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.count.to_le_bytes());
        bytes[20..24].copy_from_slice(&(self.used as u32).to_le_bytes());
        let descriptor = Descriptor {
            kind: DescriptorKind::Data,
            block: self.block.id(),
            target: self.header.target.to_u32(),
            used: self.used as u32,
            count: self.count,
        };
        (self.block, descriptor)
    }
}

/// Why bytes are no batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Shorter than a header.
    #[error("a batch of {0} bytes is shorter than its header")]
    Short(usize),
    /// It does not begin as a batch does.
    #[error("not a batch of this version")]
    NotABatch,
    /// The header claims more bytes than there are.
    #[error("the batch claims {claimed} bytes of {actual}")]
    Used {
        /// What the header says.
        claimed: u32,
        /// What there is.
        actual: usize,
    },
    /// A tuple reaches beyond the end, or says that it has roots, or the count is wrong.
    #[error("tuple {0} of the batch is malformed")]
    Tuple(u32),
}

/// Reads a batch and trusts nothing of it.
#[derive(Clone, Copy, Debug)]
pub struct BatchReader<'a> {
    bytes: &'a [u8],
    header: BatchHeader,
    count: u32,
}

impl<'a> BatchReader<'a> {
    /// Reads the header of a batch at the start of `bytes`.
    ///
    /// # Errors
    /// [`Malformed`] when it is none or claims more than there is.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let Some(head) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(Malformed::Short(bytes.len()));
        };
        let u16_at = |i: usize| u16::from_le_bytes([head[i], head[i + 1]]);
        let u32_at = |i: usize| u32::from_le_bytes([head[i], head[i + 1], head[i + 2], head[i + 3]]);
        if (u16_at(0), u16_at(2)) != (MAGIC, VERSION) {
            return Err(Malformed::NotABatch);
        }
        let used = u32_at(20);
        if (used as usize) < HEADER_BYTES || used as usize > bytes.len() {
            return Err(Malformed::Used { claimed: used, actual: bytes.len() });
        }
        let header = BatchHeader {
            source: TaskId(u32_at(4)),
            target: Destination::from_u32(u32_at(8)),
            stream: StreamIndex(u16_at(12)),
        };
        Ok(Self { bytes: &bytes[..used as usize], header, count: u32_at(16) })
    }

    /// Who emitted it, for whom.
    #[inline]
    #[must_use]
    pub fn header(&self) -> BatchHeader {
        self.header
    }

    /// How many tuples it claims to hold.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Bytes in use, the header included.
    #[must_use]
    pub fn used(&self) -> usize {
        self.bytes.len()
    }

    /// The archives, one after the other. After an error there are no more.
    #[inline]
    #[must_use]
    pub fn tuples(&self) -> Tuples<'a> {
        Tuples { rest: &self.bytes[HEADER_BYTES..], next: 0, count: self.count }
    }

    /// Walks all tuples.
    ///
    /// # Errors
    /// [`Malformed::Tuple`] when one of them is, or their number is not the header's.
    pub fn validate(&self) -> Result<(), Malformed> {
        let mut tuples = self.tuples();
        tuples.by_ref().try_for_each(|tuple| tuple.map(drop))?;
        if tuples.rest.is_empty() { Ok(()) } else { Err(Malformed::Tuple(self.count)) }
    }
}

/// The archives of a batch.
#[derive(Clone, Debug)]
pub struct Tuples<'a> {
    rest: &'a [u8],
    next: u32,
    count: u32,
}

impl<'a> Iterator for Tuples<'a> {
    type Item = Result<&'a [u8], Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.count {
            return None;
        }
        let Some((head, rest)) = self.rest.split_first_chunk::<TUPLE_HEADER_BYTES>() else {
            return self.malformed();
        };
        let head = u64::from_le_bytes(*head);
        let len = head as usize;
        // A length with bits above 32 is a tuple with roots, which nothing writes yet.
        let padded = len.checked_next_multiple_of(ALIGN);
        match padded.filter(|_| head <= u64::from(u32::MAX)).and_then(|p| rest.split_at_checked(p)) {
            Some((tuple, rest)) => {
                self.rest = rest;
                self.next += 1;
                Some(Ok(&tuple[..len]))
            }
            None => self.malformed(),
        }
    }
}

impl<'a> Tuples<'a> {
    #[cold]
    fn malformed(&mut self) -> Option<Result<&'a [u8], Malformed>> {
        let index = std::mem::replace(&mut self.next, self.count);
        Some(Err(Malformed::Tuple(index)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::BlockId;
    use crate::memory::{Pool, PoolConfig};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn batch() -> BatchBuilder {
        let pool =
            Arc::new(Pool::create(&PoolConfig { counts: [1, 1, 1], max_tuple_bytes: 1 << 20 }).unwrap());
        let header =
            BatchHeader { source: TaskId(1), target: Destination::Broadcast(2), stream: StreamIndex(3) };
        BatchBuilder::new(pool.claim(BlockId(0)).unwrap(), header)
    }

    fn put(batch: &mut BatchBuilder, tuple: &[u8]) -> Result<(), NoRoom> {
        batch.append(|space| {
            space.get_mut(..tuple.len())?.copy_from_slice(tuple);
            Some(tuple.len())
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(tuples in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..200)) {
            let mut builder = batch();
            let mut fitted = Vec::new();
            for tuple in &tuples {
                if put(&mut builder, tuple).is_ok() { fitted.push(tuple.as_slice()); }
            }
            let header = builder.header();
            let (block, descriptor) = builder.finish();
            let reader = BatchReader::new(block.bytes()).unwrap();
            reader.validate().unwrap();
            prop_assert_eq!(reader.header(), header);
            prop_assert_eq!(descriptor.used as usize, reader.used());
            prop_assert_eq!(descriptor.count, reader.count());
            let read: Vec<&[u8]> = reader.tuples().map(Result::unwrap).collect();
            prop_assert!(read.iter().all(|t| t.as_ptr().addr().is_multiple_of(8)));
            prop_assert_eq!(read, fitted);
        }

        #[test]
        fn garbage_never_panics(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), plausible: bool) {
            if plausible && bytes.len() >= 24 {
                bytes[0..4].copy_from_slice(&[b'E', b'B', 1, 0]);
                let used = bytes.len() as u32;
                bytes[20..24].copy_from_slice(&used.to_le_bytes());
            }
            if let Ok(reader) = BatchReader::new(&bytes) {
                let _ = reader.validate();
                assert!(reader.tuples().count() <= reader.count() as usize);
            }
        }
    }

    #[test]
    fn a_full_block_refuses_and_keeps_what_it_has() {
        let mut builder = batch();
        let room = (16 << 10) - HEADER_BYTES - TUPLE_HEADER_BYTES;
        assert_eq!(put(&mut builder, &vec![1; room + 1]), Err(NoRoom));
        put(&mut builder, &vec![1; room]).unwrap();
        assert_eq!(put(&mut builder, &[]), Err(NoRoom));
        assert_eq!(builder.count(), 1);
    }
}
