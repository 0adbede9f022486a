//! Tuples in a block.
//!
//! ```text
//!  block:  | header (64) | tuples …
//!
//!  tuple:  0        4        8
//!          | length | roots  | root …      | archive (length bytes) | zero to 8 bytes |
//!          |  u32   |  u32   | 16 bytes each
//! ```
//!
//! Little-endian. Tuples begin at multiples of 8, so an archive may be read in place. `roots` counts the
//! [roots](super::root) that are listed, or names the tuple's only one by its distance from the block's; it is 0 in a
//! block whose edge base is 0. The block's root is the first one that is the only one of its tuple. The
//! [header](super::header) is that of every block.

use super::Destination;
use super::header::{ALIGN, BlockKind, HEADER_BYTES, Header, Malformed};
use super::parts::{TUPLE_HEADER_BYTES, split_first};
use super::root::{Freshness, ROOT_BYTES, Root, RootMark, Roots, edge};
use crate::ids::{StreamIndex, TaskId};
use crate::memory::{Descriptor, DescriptorKind, MAX_COUNT, OwnedBlock};

/// Bytes of a block that a single tuple in it cannot use, besides [`ROOT_BYTES`] for each of its roots.
pub const BLOCK_OVERHEAD: usize = HEADER_BYTES + TUPLE_HEADER_BYTES + ALIGN;

const _: () = assert!(TUPLE_HEADER_BYTES.is_multiple_of(ALIGN) && ROOT_BYTES.is_multiple_of(ALIGN));

/// Who emitted the tuples of a block, on which stream and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// The emitter.
    pub source: TaskId,
    /// Who gets it.
    pub target: Destination,
    /// The emitter's output stream.
    pub stream: StreamIndex,
    /// What the edges of its tuples derive from: random and never 0, another for each block; or 0, then no tuple in
    /// it has roots.
    pub edge_base: u64,
}

/// The tuple does not fit into what is left of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no room left in the block")]
pub struct NoRoom;

/// A root that is named by a block's.
#[derive(Clone, Copy, Debug)]
pub struct Near {
    mark: RootMark,
    distance: u64,
}

/// Writes tuples into a block, in place.
#[derive(Debug)]
pub struct BatchBuilder {
    block: OwnedBlock,
    header: BatchHeader,
    used: usize,
    count: u32,
    /// The root that those of other tuples are named by.
    root: Root,
    fresh: Freshness,
}

impl BatchBuilder {
    /// An empty batch in `block`.
    #[must_use]
    pub fn new(block: OwnedBlock, header: BatchHeader) -> Self {
        Self { block, header, used: HEADER_BYTES, count: 0, root: Root::NONE, fresh: Freshness::NEW }
    }

    /// Appends one tuple: `write` gets the `length` bytes of its archive, aligned to 8, and writes all of them. `roots` are
    /// those of the trees it belongs to, each once; none where the block has no edge base. Says the place of its
    /// [edges](edge).
    ///
    /// # Errors
    /// [`NoRoom`] when it does not fit; the batch is as before, and nothing was written.
    #[inline(always)]
    pub fn append(
        &mut self,
        roots: &[Root],
        length: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<u32, NoRoom> {
        let index = self.count;
        self.put(RootMark(roots.len() as u32), roots, length, write).map(|()| index)
    }

    /// How a root is named by the block's, if it can be, for the tuple that is appended next. Without one so far it becomes the
    /// block's.
    #[inline(always)]
    pub fn near(&mut self, root: Root) -> Option<Near> {
        if root.owner != self.root.owner && !self.adopt(root) {
            return None;
        }
        let distance = root.id.wrapping_sub(self.root.id);
        RootMark::near(distance).map(|mark| Near { mark, distance })
    }

    /// As [`append`](Self::append), of a tuple whose only root is [near](Self::near).
    ///
    /// # Errors
    /// As there.
    #[inline(always)]
    pub fn append_near(
        &mut self,
        root: Near,
        length: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<u32, NoRoom> {
        let index = self.count;
        self.put(root.mark, &[], length, write)?;
        Ok(self.fresh.place(root.distance, index))
    }

    /// Makes it the block's root, if there is none yet.
    #[cold]
    fn adopt(&mut self, root: Root) -> bool {
        let is_first = self.fresh.is_new();
        if is_first {
            self.root = root;
        }
        is_first
    }

    // Always inlined, as its callers: they know how many roots there are, and what is written. That comes last, as it may take
    // a call.
    #[inline(always)]
    fn put(
        &mut self,
        mark: RootMark,
        listed: &[Root],
        length: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<(), NoRoom> {
        debug_assert!(mark == RootMark(0) || self.header.edge_base != 0, "roots need an edge base");
        let start = self.used + TUPLE_HEADER_BYTES + listed.len() * ROOT_BYTES;
        let end = (start + length + ALIGN - 1) & !(ALIGN - 1);
        let bytes = self.block.bytes_mut();
        if end > bytes.len() || self.count == MAX_COUNT {
            return Err(NoRoom);
        }
        let (head, rest) = bytes[self.used..end].split_at_mut(TUPLE_HEADER_BYTES);
        head.copy_from_slice(&(u64::from(length as u32) | u64::from(mark.0) << 32).to_le_bytes());
        if !length.is_multiple_of(ALIGN)
            && let Some(last) = rest.last_chunk_mut()
        {
            // What follows the archive, and of the archive what is about to be written.
            *last = [0; ALIGN];
        }
        if !listed.is_empty() {
            list(rest, listed);
        }
        write(&mut rest[listed.len() * ROOT_BYTES..][..length]);
        self.used = end;
        self.count += 1;
        Ok(())
    }

    /// The edge of the copy for `task` of the tuple with its edges at this place.
    #[inline]
    #[must_use]
    pub fn edge(&self, place: u32, task: TaskId) -> u64 {
        edge(self.header.edge_base, place, task)
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
        let (target, used) = (self.header.target.to_u32(), self.used as u32);
        let header = Header {
            kind: BlockKind::Data as u16,
            source: self.header.source.0,
            target,
            stream: self.header.stream.0,
            count: self.count,
            used,
            edge_base: self.header.edge_base,
            root: self.root,
        };
        header.write(self.block.bytes_mut());
        let kind = DescriptorKind::Data;
        let descriptor = Descriptor { kind, block: self.block.id(), target, used, count: self.count };
        (self.block, descriptor)
    }
}

#[inline(never)]
fn list(space: &mut [u8], roots: &[Root]) {
    for (space, root) in space.as_chunks_mut().0.iter_mut().zip(roots) {
        *space = root.to_bytes();
    }
}

/// Reads a batch and trusts nothing of it.
#[derive(Clone, Copy, Debug)]
pub struct BatchReader<'a> {
    body: &'a [u8],
    header: BatchHeader,
    root: Root,
    count: u32,
}

impl<'a> BatchReader<'a> {
    /// Reads the header of a batch at the start of `bytes`.
    ///
    /// # Errors
    /// [`Malformed`] when it is none or claims more than there is.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, body) = Header::read(bytes)?;
        if header.kind != BlockKind::Data as u16 {
            return Err(Malformed::Kind(header.kind));
        }
        let (source, stream) = (TaskId(header.source), StreamIndex(header.stream));
        let (target, edge_base) = (Destination::from_u32(header.target), header.edge_base);
        let (root, count) = (header.root, header.count);
        Ok(Self { body, header: BatchHeader { source, target, stream, edge_base }, root, count })
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
        HEADER_BYTES + self.body.len()
    }

    /// The tuples, one after the other. After an error there are no more.
    #[inline]
    #[must_use]
    pub fn tuples(&self) -> Tuples<'a> {
        let (accepts_roots, root) = (self.accepts_roots(), self.root);
        let (next, count, fresh) = (0, self.count, Freshness::NEW);
        Tuples { rest: self.body, next, count, accepts_roots, ignores_roots: false, root, fresh }
    }

    fn accepts_roots(&self) -> bool {
        self.header.edge_base != 0
    }

    /// Walks all tuples.
    ///
    /// # Errors
    /// [`Malformed::Tuple`] when one of them is, or their number is not the header's.
    pub fn validate(&self) -> Result<(), Malformed> {
        let mut rest = self.body;
        for index in 0..self.count {
            (_, rest) = split_first(rest, self.accepts_roots()).ok_or(Malformed::Tuple(index))?;
        }
        if rest.is_empty() { Ok(()) } else { Err(Malformed::Tuple(self.count)) }
    }
}

/// A tuple, where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TupleAt<'a> {
    /// Its fields, aligned to 8.
    pub archive: &'a [u8],
    /// The trees it belongs to.
    pub roots: Roots<'a>,
    /// The place of its [edges](edge).
    pub place: u32,
}

impl TupleAt<'_> {
    /// The edge of the copy for `task`, where the block's edge base is `base`.
    #[inline]
    #[must_use]
    pub fn edge(&self, base: u64, task: TaskId) -> u64 {
        edge(base, self.place, task)
    }
}

/// The tuples of a batch.
#[derive(Clone, Debug)]
pub struct Tuples<'a> {
    rest: &'a [u8],
    next: u32,
    count: u32,
    accepts_roots: bool,
    ignores_roots: bool,
    root: Root,
    fresh: Freshness,
}

impl<'a> Iterator for Tuples<'a> {
    type Item = Result<TupleAt<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.count {
            return None;
        }
        let Some((parts, rest)) = split_first(self.rest, self.accepts_roots) else {
            let index = std::mem::replace(&mut self.next, self.count);
            return Some(Err(Malformed::Tuple(index)));
        };
        let mut place = self.next;
        self.rest = rest;
        self.next += 1;
        // Last, so that whoever asks for the roots knows which they are without another look.
        let roots = match parts.mark.distance() {
            _ if self.ignores_roots => Roots::None,
            Some(distance) => {
                place = self.fresh.place(distance, place);
                Roots::One(Root { id: self.root.id.wrapping_add(distance), ..self.root })
            }
            None if parts.mark.is_count() => Roots::listed(parts.listed),
            None => Roots::None,
        };
        Some(Ok(TupleAt { archive: parts.archive, roots, place }))
    }
}

impl Tuples<'_> {
    /// The same as of no tree.
    #[must_use]
    pub fn without_roots(self) -> Self {
        Self { ignores_roots: true, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::super::header::make_plausible;
    use super::super::root::{FRESH, Owner};
    use super::*;
    use crate::ids::{BlockId, Incarnation};
    use crate::memory::{Pool, PoolConfig};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn batch(edge_base: u64) -> BatchBuilder {
        let pool =
            Arc::new(Pool::create(&PoolConfig { counts: [1, 1, 1], max_tuple_bytes: 1 << 20 }).unwrap());
        let (target, stream) = (Destination::Broadcast(2), StreamIndex(3));
        let header = BatchHeader { source: TaskId(1), target, stream, edge_base };
        BatchBuilder::new(pool.claim(BlockId(0)).unwrap(), header)
    }

    fn put(batch: &mut BatchBuilder, roots: &[Root], tuple: &[u8]) -> Result<u32, NoRoom> {
        let write = |space: &mut [u8]| space.copy_from_slice(tuple);
        let near = if let [root] = roots { batch.near(*root) } else { None };
        match near {
            Some(near) => batch.append_near(near, tuple.len(), write),
            None => batch.append(roots, tuple.len(), write),
        }
    }

    fn root(id: u64) -> Root {
        Root { owner: Owner::new(TaskId(id as u32 % 7), Incarnation(id as u32 % 5)), id }
    }

    fn tuple() -> impl Strategy<Value = (Vec<u8>, Vec<Root>)> {
        let bytes = proptest::collection::vec(any::<u8>(), 0..200);
        (bytes, proptest::collection::vec(any::<u64>().prop_map(root), 0..4))
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(tuples in proptest::collection::vec(tuple(), 0..200), tracked: bool) {
            let base = if tracked { 77 } else { 0 };
            let mut builder = batch(base);
            let mut fitted = Vec::new();
            for (tuple, roots) in &tuples {
                let roots = if tracked { roots.as_slice() } else { &[] };
                if let Ok(place) = put(&mut builder, roots, tuple) {
                    fitted.push((tuple.as_slice(), roots, builder.edge(place, TaskId(4))));
                }
            }
            let header = builder.header();
            let (block, descriptor) = builder.finish();
            let reader = BatchReader::new(block.bytes()).unwrap();
            reader.validate().unwrap();
            prop_assert_eq!(reader.header(), header);
            prop_assert_eq!(descriptor.used as usize, reader.used());
            prop_assert_eq!(descriptor.count, reader.count());
            let read: Vec<TupleAt<'_>> = reader.tuples().map(Result::unwrap).collect();
            prop_assert!(read.iter().all(|t| t.archive.as_ptr().addr().is_multiple_of(8)));
            prop_assert_eq!(read.len(), fitted.len());
            for (read, (archive, roots, edge)) in read.iter().zip(fitted) {
                prop_assert_eq!(read.archive, archive);
                prop_assert_eq!(&read.roots.iter().collect::<Vec<_>>(), roots);
                prop_assert_eq!(read.edge(base, TaskId(4)), edge);
            }
        }

        #[test]
        fn garbage_never_panics(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), plausible: bool) {
            if plausible { make_plausible(&mut bytes, BlockKind::Data); }
            if let Ok(reader) = BatchReader::new(&bytes) {
                let _ = reader.validate();
                assert!(reader.tuples().count() <= reader.count() as usize);
            }
        }
    }

    #[test]
    fn a_full_block_refuses_and_keeps_what_it_has() {
        let mut builder = batch(1);
        let room = (16 << 10) - HEADER_BYTES - TUPLE_HEADER_BYTES;
        assert_eq!(put(&mut builder, &[], &vec![1; room + 1]), Err(NoRoom));
        assert_eq!(put(&mut builder, &[root(1), root(2)], &vec![1; room]), Err(NoRoom));
        put(&mut builder, &[root(1), root(2)], &vec![1; room - 2 * ROOT_BYTES]).unwrap();
        assert_eq!(put(&mut builder, &[], &[]), Err(NoRoom));
        assert_eq!(builder.count(), 1);
    }

    #[test]
    fn an_only_root_takes_no_room_near_the_blocks() {
        let of = |id| Root { id, ..root(1) };
        let mut builder = batch(1);
        let room = (16 << 10) - HEADER_BYTES - 5 * TUPLE_HEADER_BYTES - ROOT_BYTES;
        let places = [of(7), of(8), of(5), of(7 + (1 << 30))].map(|root| put(&mut builder, &[root], &[]));
        assert_eq!(places, [Ok(FRESH), Ok(FRESH), Ok(2), Ok(3)], "the third comes late, the last is too far");
        put(&mut builder, &[of(9)], &vec![1; room]).unwrap();
        let (block, _) = builder.finish();
        let read: Vec<_> = BatchReader::new(block.bytes()).unwrap().tuples().map(Result::unwrap).collect();
        let roots: Vec<_> = read.iter().flat_map(|tuple| tuple.roots.iter()).collect();
        assert_eq!(roots, [7, 8, 5, 7 + (1 << 30), 9].map(of));
        assert_eq!(read.iter().map(|tuple| tuple.place).collect::<Vec<_>>(), [FRESH, FRESH, 2, 3, FRESH]);
    }

    #[test]
    fn roots_need_an_edge_base_and_room() {
        let mut builder = batch(1);
        put(&mut builder, &[root(1), root(2)], &[1, 2, 3]).unwrap();
        let (block, descriptor) = builder.finish();
        let good = block.bytes()[..descriptor.used as usize].to_vec();
        let with = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            BatchReader::new(&bytes).unwrap().validate()
        };
        assert_eq!(with(24, 2), Ok(()));
        assert_eq!(with(24, 0), Err(Malformed::Tuple(0)));
        assert_eq!(with(HEADER_BYTES + 4, 3), Err(Malformed::Tuple(0)));
        assert_eq!(with(HEADER_BYTES + 4, 0), Err(Malformed::Tuple(1)));
        assert_eq!(with(HEADER_BYTES + 7, 0x7f), Err(Malformed::Tuple(0)));
        assert_eq!(with(HEADER_BYTES + 7, 0xff), Err(Malformed::Tuple(1)), "of one root, and nothing listed");
    }
}
