//! Acks and fails on their way to the spout whose roots they are about.
//!
//! ```text
//!  body: count records   0        8        16
//!                        | id     | xor    |
//!                        |  u64   |  u64   |
//! ```
//!
//! All records of a block are about roots of one process of one spout task, and of one kind. `id` is the root's; `xor`
//! is the edge of the tuple that was acked ^ the edges of all that was emitted with it as the anchor, and 0 in a fail.

use super::header::{BlockKind, HEADER_BYTES, Header, Malformed};
use super::{Destination, NoRoom};
use crate::ids::{Incarnation, TaskId};
use crate::memory::{Class, Descriptor, DescriptorKind, MAX_COUNT, OwnedBlock, Pool};

/// Bytes of an [`AckRecord`].
pub const RECORD_BYTES: usize = 16;

const _: () = assert!(HEADER_BYTES.is_multiple_of(RECORD_BYTES));

/// Whose acks or fails a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckHeader {
    /// The bolt's task.
    pub source: TaskId,
    /// The spout's task.
    pub spout: TaskId,
    /// The process of the spout.
    pub incarnation: Incarnation,
    /// What the records say.
    pub kind: AckKind,
}

/// What became of tuples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckKind {
    /// They were acked.
    Ack,
    /// They failed.
    Fail,
}

impl AckKind {
    fn block_kind(self) -> BlockKind {
        match self {
            Self::Ack => BlockKind::Ack,
            Self::Fail => BlockKind::Fail,
        }
    }
}

/// One root of a tuple that was acked or failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckRecord {
    /// Which root.
    pub id: u64,
    /// What to xor into its tree.
    pub xor: u64,
}

/// Writes records into a block, in place.
#[derive(Debug)]
pub struct AckBuilder {
    block: OwnedBlock,
    header: AckHeader,
    limit: usize,
    used: usize,
}

impl AckBuilder {
    /// The class of the blocks to use. A larger one is filled no further than one of this class would be, since this
    /// is the class that stmgrs keep ready for acks.
    pub const CLASS: Class = Class::Standard;

    /// No record in `block`.
    #[must_use]
    pub fn new(block: OwnedBlock, header: AckHeader) -> Self {
        let limit = block.bytes().len().min(Pool::STANDARD_BYTES);
        Self { block, header, limit, used: HEADER_BYTES }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// [`NoRoom`] when the block is full.
    #[inline]
    pub fn push(&mut self, record: AckRecord) -> Result<(), NoRoom> {
        let end = self.used + RECORD_BYTES;
        if end > self.limit {
            return Err(NoRoom);
        }
        let both = u128::from(record.id) | u128::from(record.xor) << 64;
        self.block.bytes_mut()[self.used..end].copy_from_slice(&both.to_le_bytes());
        self.used = end;
        Ok(())
    }

    /// How many records it holds.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u32 {
        ((self.used - HEADER_BYTES) / RECORD_BYTES) as u32
    }

    /// Whose they are.
    #[inline]
    #[must_use]
    pub fn header(&self) -> AckHeader {
        self.header
    }

    /// Writes the header; the block is ready to go with its descriptor.
    #[must_use]
    pub fn finish(mut self) -> (OwnedBlock, Descriptor) {
        let (target, used, count) =
            (Destination::Task(self.header.spout).to_u32(), self.used as u32, self.count());
        let header = Header {
            kind: self.header.kind.block_kind() as u16,
            source: self.header.source.0,
            target,
            stream: 0,
            count,
            used,
            edge_base: 0,
            incarnation: self.header.incarnation.0,
        };
        header.write(self.block.bytes_mut());
        let kind = DescriptorKind::Ack;
        let descriptor = Descriptor { kind, block: self.block.id(), target, used, count };
        (self.block, descriptor)
    }
}

const _: () = assert!(Pool::STANDARD_BYTES / RECORD_BYTES <= MAX_COUNT as usize);

/// Reads a block of acks or fails and trusts nothing of it.
#[derive(Clone, Copy, Debug)]
pub struct AckReader<'a> {
    header: AckHeader,
    records: &'a [[u8; RECORD_BYTES]],
}

impl<'a> AckReader<'a> {
    /// Reads the block at the start of `bytes`.
    ///
    /// # Errors
    /// [`Malformed`] when it is none of acks or fails, or the numbers in it do not fit each other.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, body) = Header::read(bytes)?;
        let kind = match header.kind {
            kind if kind == BlockKind::Ack as u16 => AckKind::Ack,
            kind if kind == BlockKind::Fail as u16 => AckKind::Fail,
            kind => return Err(Malformed::Kind(kind)),
        };
        let (records, rest) = body.as_chunks();
        if !rest.is_empty() || records.len() != header.count as usize {
            return Err(Malformed::Records { count: header.count, used: header.used });
        }
        let (source, spout) = (TaskId(header.source), TaskId(header.target));
        let header = AckHeader { source, spout, incarnation: Incarnation(header.incarnation), kind };
        Ok(Self { header, records })
    }

    /// Whose they are.
    #[must_use]
    pub fn header(&self) -> AckHeader {
        self.header
    }

    /// How many records there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.records.len() as u32
    }

    /// Bytes in use, the header included.
    #[must_use]
    pub fn used(&self) -> usize {
        HEADER_BYTES + self.records.len() * RECORD_BYTES
    }

    /// One after the other.
    #[inline]
    pub fn records(&self) -> impl ExactSizeIterator<Item = AckRecord> + use<'a> {
        self.records.iter().map(|&bytes| {
            let both = u128::from_le_bytes(bytes);
            AckRecord { id: both as u64, xor: (both >> 64) as u64 }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::header::make_plausible;
    use super::*;
    use crate::ids::BlockId;
    use crate::memory::PoolConfig;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn builder(kind: AckKind, class: usize) -> AckBuilder {
        let mut counts = [0; 3];
        counts[class] = 1;
        let pool = Arc::new(Pool::create(&PoolConfig { counts, max_tuple_bytes: 1 << 20 }).unwrap());
        let header = AckHeader { source: TaskId(3), spout: TaskId(1), incarnation: Incarnation(9), kind };
        AckBuilder::new(pool.claim(BlockId(0)).unwrap(), header)
    }

    proptest! {
        #[test]
        fn what_is_pushed_is_read(records in proptest::collection::vec(any::<(u64, u64)>(), 0..1100), fail: bool) {
            let mut builder = builder(if fail { AckKind::Fail } else { AckKind::Ack }, 0);
            let mut fitted = Vec::new();
            for (id, xor) in records {
                if builder.push(AckRecord { id, xor }).is_ok() { fitted.push(AckRecord { id, xor }); }
            }
            prop_assert!(fitted.len() <= 1020);
            let header = builder.header();
            let (block, descriptor) = builder.finish();
            let reader = AckReader::new(block.bytes()).unwrap();
            prop_assert_eq!(reader.header(), header);
            prop_assert_eq!((descriptor.kind, descriptor.target), (DescriptorKind::Ack, 1));
            prop_assert_eq!((descriptor.used as usize, descriptor.count), (reader.used(), reader.count()));
            prop_assert_eq!(reader.records().collect::<Vec<_>>(), fitted);
        }

        #[test]
        fn garbage_never_panics(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), plausible: bool) {
            if plausible { make_plausible(&mut bytes, BlockKind::Fail); }
            if let Ok(reader) = AckReader::new(&bytes) {
                assert_eq!(reader.records().len(), reader.count() as usize);
            }
        }
    }

    #[test]
    fn a_larger_block_is_filled_no_further_than_a_standard_one() {
        let mut builder = builder(AckKind::Ack, 1);
        while builder.push(AckRecord { id: 1, xor: 2 }).is_ok() {}
        assert_eq!(builder.count(), 1020);
    }

    #[test]
    fn numbers_that_do_not_fit_each_other_are_refused() {
        let mut builder = builder(AckKind::Ack, 0);
        builder.push(AckRecord { id: 1, xor: 2 }).unwrap();
        let (block, _) = builder.finish();
        let good = block.bytes()[..80].to_vec();
        let with = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            AckReader::new(&bytes).map(|reader| reader.count())
        };
        assert_eq!(with(0, b'E'), Ok(1));
        assert_eq!(with(14, BlockKind::Data as u8), Err(Malformed::Kind(1)));
        assert_eq!(with(16, 2), Err(Malformed::Records { count: 2, used: 80 }));
        assert_eq!(with(20, 79), Err(Malformed::Records { count: 1, used: 79 }));
        assert_eq!(with(20, 81), Err(Malformed::Used { claimed: 81, actual: 80 }));
        assert_eq!(with(20, 63), Err(Malformed::Used { claimed: 63, actual: 80 }));
    }
}
