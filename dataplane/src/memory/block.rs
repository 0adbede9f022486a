//! A block in this process's hands.
#![allow(unsafe_code)]

use super::pool::Pool;
use crate::ids::BlockId;
use std::sync::Arc;

/// A block that this process owns: it alone may write it, or read it together with the other receivers of a
/// broadcast. Dropping it gives up the claim, not the block: ownership moves by descriptor.
pub struct OwnedBlock {
    pool: Arc<Pool>,
    id: BlockId,
    start: *mut u8,
    len: usize,
}

// SAFETY: the claim makes this the only access to the block in this process, and the memory is plain bytes that stay
// mapped while the pool lives; nothing is bound to the thread that made it.
unsafe impl Send for OwnedBlock {}
// SAFETY: a shared reference only reads.
unsafe impl Sync for OwnedBlock {}

impl OwnedBlock {
    pub(super) fn new(pool: Arc<Pool>, id: BlockId, len: usize) -> Self {
        let start = pool.address(id, len);
        Self { pool, id, start, len }
    }

    /// Which block it is.
    #[inline]
    #[must_use]
    pub fn id(&self) -> BlockId {
        self.id
    }

    /// All its bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `start..start + len` lies in the mapping that `pool` keeps; by the protocol no process writes a
        // block that another holds, and the claim keeps this process from writing it elsewhere.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    /// All its bytes, for writing.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; the exclusive reference makes it the only access here.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl AsMut<[u8]> for OwnedBlock {
    fn as_mut(&mut self) -> &mut [u8] {
        self.bytes_mut()
    }
}

impl Drop for OwnedBlock {
    fn drop(&mut self) {
        self.pool.release(self.id);
    }
}

impl std::fmt::Debug for OwnedBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnedBlock").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The used bytes of a block, for the kernel to read: kept mapped, but not claimed.
#[derive(Clone)]
pub struct BlockBytes {
    pool: Arc<Pool>,
    id: BlockId,
    len: usize,
}

impl BlockBytes {
    /// The first `len` bytes of `block`, or `None` when there is no such block or it is shorter.
    #[must_use]
    pub fn new(pool: &Arc<Pool>, block: BlockId, len: usize) -> Option<Self> {
        let class = pool.class_of(block)?;
        (len <= pool.block_bytes(class)).then(|| Self { pool: pool.clone(), id: block, len })
    }

    /// Which block it is.
    #[must_use]
    pub fn id(&self) -> BlockId {
        self.id
    }

    /// Where the bytes begin. They stay mapped while this value lives.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.pool.address(self.id, self.len)
    }

    /// Appends a copy of them to `out`.
    pub(crate) fn copy_into(&self, out: &mut Vec<u8>) {
        // SAFETY: the range lies in the mapping that `pool` keeps, and by the protocol nobody writes a block that is being
        // sent.
        out.extend_from_slice(unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len) });
    }

    /// How many they are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl std::fmt::Debug for BlockBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockBytes").field("id", &self.id).field("len", &self.len).finish_non_exhaustive()
    }
}
