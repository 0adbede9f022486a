//! Acks and fails on their way to the spout whose roots they are about.
//!
//! ```text
//!  body: count records   0        8        16       24
//!                        | first  | mask   | xor    |
//!                        |  u64   |  u64   |  u64   |
//! ```
//!
//! All records of a block are about roots of one process of one spout task, and of one kind. `first` is a root's id, a
//! multiple of 64; bit `i` of the mask stands for the root `first + i`. To the tree of each belongs `xor`: the edge of
//! the tuple that was acked ^ the edges of all that was emitted with it as the anchor, and 0 in a fail. Tuples that come
//! one after the other and are treated alike have the same xor (see [`FRESH`](super::root::FRESH)), so a record mostly
//! tells of many.

use super::header::{ALIGN, BlockKind, HEADER_BYTES, Header, Malformed};
use super::{Destination, NoRoom, Owner, Root};
use crate::ids::TaskId;
use crate::memory::{Class, Descriptor, DescriptorKind, MAX_COUNT, OwnedBlock, Pool};

/// Bytes of an [`AckRecord`].
pub const RECORD_BYTES: usize = 24;

const _: () = assert!(RECORD_BYTES.is_multiple_of(ALIGN));

/// How many roots a record can tell of: the bits of its mask.
pub const PAGE: u64 = u64::BITS as u64;

/// Whose acks or fails a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckHeader {
    /// The bolt's task.
    pub source: TaskId,
    /// The spout's task, and which process of it.
    pub owner: Owner,
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

/// What became of tuples of some roots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckRecord {
    /// The root that bit 0 stands for.
    pub first: u64,
    /// Which roots.
    pub mask: u64,
    /// What to xor into the tree of each.
    pub xor: u64,
}

impl AckRecord {
    /// About one root.
    #[inline]
    #[must_use]
    pub fn of(id: u64, xor: u64) -> Self {
        Self { first: id & !(PAGE - 1), mask: 1 << (id % PAGE), xor }
    }

    /// The ids of the roots.
    pub fn ids(self) -> impl Iterator<Item = u64> {
        bits(self.mask).map(move |bit| self.first.wrapping_add(bit as u64))
    }

    #[inline]
    fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        let (words, _) = bytes.as_chunks_mut();
        for (word, value) in words.iter_mut().zip([self.first, self.mask, self.xor]) {
            *word = value.to_le_bytes();
        }
        bytes
    }

    #[inline]
    fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Self {
        let (words, _) = bytes.as_chunks();
        let word = |index: usize| words.get(index).map_or(0, |&word| u64::from_le_bytes(word));
        Self { first: word(0), mask: word(1), xor: word(2) }
    }
}

/// The positions of the bits of a mask, the lowest first.
#[inline]
pub fn bits(mask: u64) -> impl Iterator<Item = usize> {
    let left = std::iter::successors(Some(mask), |&mask| Some(mask & mask.wrapping_sub(1)));
    left.take_while(|&mask| mask != 0).map(|mask| mask.trailing_zeros() as usize)
}

/// Writes records into a block, in place.
#[derive(Debug)]
pub struct AckBuilder {
    block: OwnedBlock,
    header: AckHeader,
    limit: usize,
    /// Where the last record stands, which may become one of more roots.
    at: usize,
    last: AckRecord,
}

impl AckBuilder {
    /// The class of the blocks to use. A larger one is filled no further than one of this class would be, since this
    /// is the class that stmgrs keep ready for acks.
    pub const CLASS: Class = Class::Standard;

    /// No record in `block`.
    #[must_use]
    pub fn new(block: OwnedBlock, header: AckHeader) -> Self {
        let limit = block.bytes().len().min(Pool::STANDARD_BYTES);
        Self { block, header, limit, at: HEADER_BYTES, last: AckRecord::default() }
    }

    /// Adds that this is to be xored into the tree of a root.
    ///
    /// # Errors
    /// [`NoRoom`] when the block is full.
    #[inline(always)]
    pub fn push(&mut self, id: u64, xor: u64) -> Result<(), NoRoom> {
        let bit = 1 << (id % PAGE);
        // Once for each root: what comes twice must be applied twice.
        if id ^ self.last.first < PAGE && xor == self.last.xor && self.last.mask & bit == 0 {
            self.last.mask |= bit;
            return Ok(());
        }
        self.begin(AckRecord::of(id, xor))
    }

    #[inline(never)]
    fn begin(&mut self, record: AckRecord) -> Result<(), NoRoom> {
        let next = self.used();
        if next + RECORD_BYTES > self.limit {
            return Err(NoRoom);
        }
        self.write_last();
        (self.at, self.last) = (next, record);
        Ok(())
    }

    fn write_last(&mut self) {
        if self.last.mask != 0 {
            self.block.bytes_mut()[self.at..self.at + RECORD_BYTES].copy_from_slice(&self.last.to_bytes());
        }
    }

    /// Bytes in use, the header included.
    fn used(&self) -> usize {
        if self.last.mask == 0 { self.at } else { self.at + RECORD_BYTES }
    }

    /// How many records it holds.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u32 {
        ((self.used() - HEADER_BYTES) / RECORD_BYTES) as u32
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
        self.write_last();
        let (target, used, count) =
            (Destination::Task(self.header.owner.spout()).to_u32(), self.used() as u32, self.count());
        let header = Header {
            kind: self.header.kind.block_kind() as u16,
            source: self.header.source.0,
            target,
            stream: 0,
            count,
            used,
            edge_base: 0,
            root: Root { owner: self.header.owner, id: 0 },
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
        let (source, owner) = (TaskId(header.source), header.root.owner);
        let header = AckHeader { source, owner, kind };
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
        self.records.iter().map(AckRecord::from_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::header::make_plausible;
    use super::*;
    use crate::ids::{BlockId, Incarnation};
    use crate::memory::PoolConfig;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn builder(kind: AckKind, class: usize) -> AckBuilder {
        let mut counts = [0; 3];
        counts[class] = 1;
        let pool = Arc::new(Pool::create(&PoolConfig { counts, max_tuple_bytes: 1 << 20 }).unwrap());
        let header = AckHeader { source: TaskId(3), owner: Owner::new(TaskId(1), Incarnation(9)), kind };
        AckBuilder::new(pool.claim(BlockId(0)).unwrap(), header)
    }

    proptest! {
        #[test]
        fn what_is_pushed_is_read(few: bool, records in proptest::collection::vec(any::<(u64, u64)>(), 0..1100), fail: bool) {
            let mut builder = builder(if fail { AckKind::Fail } else { AckKind::Ack }, 0);
            let mut fitted = Vec::new();
            for (id, xor) in records {
                // Of few roots and values, so that some are told of together and some come twice.
                let (id, xor) = if few { (id % 80, xor % 2) } else { (id, xor) };
                if builder.push(id, xor).is_ok() { fitted.push((id, xor)); }
            }
            prop_assert!(few || fitted.len() <= 680);
            let header = builder.header();
            let (block, descriptor) = builder.finish();
            let reader = AckReader::new(block.bytes()).unwrap();
            prop_assert_eq!(reader.header(), header);
            prop_assert_eq!((descriptor.kind, descriptor.target), (DescriptorKind::Ack, 1));
            prop_assert_eq!((descriptor.used as usize, descriptor.count), (reader.used(), reader.count()));
            let mut read: Vec<_> = reader.records().flat_map(|r| r.ids().map(move |id| (id, r.xor))).collect();
            read.sort_unstable();
            fitted.sort_unstable();
            prop_assert_eq!(read, fitted);
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
        while builder.push(1, 2).is_ok() {}
        assert_eq!(builder.count(), 680);
    }

    #[test]
    fn roots_that_are_treated_alike_are_one_record() {
        let mut builder = builder(AckKind::Ack, 0);
        (64..200).for_each(|id| builder.push(id, 7).unwrap());
        builder.push(199, 7).unwrap();
        builder.push(198, 8).unwrap();
        let (block, _) = builder.finish();
        let read: Vec<_> = AckReader::new(block.bytes()).unwrap().records().collect();
        let whole = |first| AckRecord { first, mask: u64::MAX, xor: 7 };
        let rest = AckRecord { first: 192, mask: 0xff, xor: 7 };
        assert_eq!(read, [whole(64), whole(128), rest, AckRecord::of(199, 7), AckRecord::of(198, 8)]);
    }

    #[test]
    fn numbers_that_do_not_fit_each_other_are_refused() {
        let mut builder = builder(AckKind::Ack, 0);
        builder.push(1, 2).unwrap();
        let (block, _) = builder.finish();
        let good = block.bytes()[..88].to_vec();
        let with = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            AckReader::new(&bytes).map(|reader| reader.count())
        };
        assert_eq!(with(0, b'E'), Ok(1));
        assert_eq!(with(14, BlockKind::Data as u8), Err(Malformed::Kind(1)));
        assert_eq!(with(16, 2), Err(Malformed::Records { count: 2, used: 88 }));
        assert_eq!(with(20, 87), Err(Malformed::Records { count: 1, used: 87 }));
        assert_eq!(with(20, 89), Err(Malformed::Used { claimed: 89, actual: 88 }));
        assert_eq!(with(20, 63), Err(Malformed::Used { claimed: 63, actual: 88 }));
    }
}
