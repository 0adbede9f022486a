//! The blocks of a container, in one `memfd` that its stmgr makes and its instances map.
//!
//! ```text
//!  0        8         12        16               64           128          4096
//!  | magic  | version | classes | 3 x (size u32, | advise u32 | asleep u32 | blocks of class 0 | class 1 | class 2 |
//!  |  u64   |   u32   |   u32   | count u32,     |            | (a line)   |
//!  |        |         |         | offset u64)    |            |            |
//! ```
//!
//! Blocks are numbered through all classes. Pages are only backed by memory once a block is used, unless they are of
//! [reserved huge pages](Pages::Huge). `advise` is 1 where everyone who maps the pool asks for transparent ones.

use super::block::OwnedBlock;
use super::map::Mapping;
use super::pages::{self, HugePages, Pages};
use super::park::{Parker, Waker};
use crate::frame::{BLOCK_OVERHEAD, ROOT_BYTES};
use crate::ids::BlockId;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const MAGIC: u64 = u64::from_le_bytes(*b"EGRTPOOL");
const VERSION: u64 = 2;
const ADVISE_OFFSET: usize = 64;
const ASLEEP_OFFSET: usize = 128;
const HEADER_BYTES: usize = 4096;

/// Roots that a tuple of the greatest allowed size may have and still fit a large block.
const LARGEST_ROOTS: usize = 64;

/// How many size classes there are.
pub const CLASSES: usize = 3;

/// A size class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// 16 KiB: nearly all batches.
    Standard = 0,
    /// 256 KiB: tuples that do not fit a standard block.
    Medium = 1,
    /// One tuple of the greatest allowed size.
    Large = 2,
}

impl Class {
    /// All classes, smallest blocks first.
    pub const ALL: [Self; CLASSES] = [Self::Standard, Self::Medium, Self::Large];

    /// The class of this number.
    #[must_use]
    pub fn from_index(index: usize) -> Option<Self> {
        Self::ALL.get(index).copied()
    }
}

/// How many blocks of which size a pool has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Blocks of each class.
    pub counts: [u32; CLASSES],
    /// Bytes that one tuple may have at most; decides the size of a large block.
    pub max_tuple_bytes: usize,
}

impl PoolConfig {
    /// Bytes of a block of each class.
    #[must_use]
    pub fn block_bytes(&self) -> [usize; CLASSES] {
        let roots = LARGEST_ROOTS * ROOT_BYTES;
        let large = (self.max_tuple_bytes + BLOCK_OVERHEAD + roots).next_multiple_of(4096).max(512 << 10);
        [Pool::STANDARD_BYTES, 256 << 10, large]
    }
}

/// Why a pool cannot be made or attached.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// The kernel refused.
    #[error("cannot map the block pool of {bytes} bytes: {source}")]
    Map {
        /// Its size; 0 when it is not known yet.
        bytes: usize,
        /// Why.
        source: io::Error,
    },
    /// What was received is no pool of this version.
    #[error("the shared memory received is not a block pool of this version")]
    NotAPool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ClassLayout {
    first: u32,
    count: u32,
    bytes: usize,
    offset: usize,
}

/// The mapped blocks of a container.
pub struct Pool {
    map: Arc<Mapping>,
    classes: [ClassLayout; CLASSES],
    pages: Pages,
    /// Which blocks this process holds as [`OwnedBlock`]: two of one block would alias.
    claimed: Box<[AtomicBool]>,
}

impl Pool {
    /// Bytes of a block of [`Class::Standard`], in every pool.
    pub const STANDARD_BYTES: usize = 16 << 10;

    /// Makes the pool, of standard pages.
    ///
    /// # Errors
    /// [`PoolError::Map`] when there is not enough address space or files.
    pub fn create(config: &PoolConfig) -> Result<Self, PoolError> {
        Self::create_of(config, HugePages::None)
    }

    /// Makes the pool of the largest pages that are allowed and to be had.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn create_of(config: &PoolConfig, allowed: HugePages) -> Result<Self, PoolError> {
        let (classes, bytes) = lay_out(config);
        let (map, pages) =
            pages::create("egret-pool", bytes, allowed).map_err(|source| PoolError::Map { bytes, source })?;
        map.word(ADVISE_OFFSET).store((pages == Pages::Transparent).into(), Ordering::Relaxed);
        let words = map.words64(0, 8);
        words[0].store(MAGIC, Ordering::Relaxed);
        words[1].store(VERSION | (CLASSES as u64) << 32, Ordering::Relaxed);
        for (i, class) in classes.iter().enumerate() {
            words[2 + 2 * i].store(class.bytes as u64 | u64::from(class.count) << 32, Ordering::Relaxed);
            words[3 + 2 * i].store(class.offset as u64, Ordering::Relaxed);
        }
        Ok(Self::with(map, classes, pages))
    }

    /// Maps a pool that the stmgr made.
    ///
    /// # Errors
    /// [`PoolError`] when it cannot be mapped or does not describe itself rightly.
    pub fn attach(fd: OwnedFd) -> Result<Self, PoolError> {
        let map = Mapping::attach(fd).map_err(|source| PoolError::Map { bytes: 0, source })?;
        if map.len() < HEADER_BYTES {
            return Err(PoolError::NotAPool);
        }
        let words: Vec<u64> = map.words64(0, 8).iter().map(|w| w.load(Ordering::Relaxed)).collect();
        if words[0] != MAGIC || words[1] != VERSION | (CLASSES as u64) << 32 {
            return Err(PoolError::NotAPool);
        }
        let mut classes = [ClassLayout { first: 0, count: 0, bytes: 0, offset: 0 }; CLASSES];
        let mut first = 0u32;
        let mut end = HEADER_BYTES as u64;
        for (i, class) in classes.iter_mut().enumerate() {
            let (bytes, count) = (words[2 + 2 * i] & 0xffff_ffff, (words[2 + 2 * i] >> 32) as u32);
            let offset = words[3 + 2 * i];
            let size = bytes.checked_mul(u64::from(count)).ok_or(PoolError::NotAPool)?;
            let well_formed = offset == end && bytes >= BLOCK_OVERHEAD as u64 && bytes.is_multiple_of(4096);
            *class = ClassLayout { first, count, bytes: bytes as usize, offset: offset as usize };
            first = first.checked_add(count).filter(|_| well_formed).ok_or(PoolError::NotAPool)?;
            end = end.checked_add(size).ok_or(PoolError::NotAPool)?;
        }
        if end > map.len() as u64 {
            return Err(PoolError::NotAPool);
        }
        let advised = map.word(ADVISE_OFFSET).load(Ordering::Relaxed) == 1 && map.advise_huge().is_ok();
        let pages = if advised { Pages::Transparent } else { Pages::Standard };
        Ok(Self::with(map, classes, pages))
    }

    fn with(map: Mapping, classes: [ClassLayout; CLASSES], pages: Pages) -> Self {
        let count = classes.iter().map(|c| c.count as usize).sum();
        let claimed = (0..count).map(|_| AtomicBool::new(false)).collect();
        Self { map: Arc::new(map), classes, pages, claimed }
    }

    /// The file, to hand to an instance.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn duplicate_fd(&self) -> io::Result<OwnedFd> {
        self.map.duplicate_fd()
    }

    /// Which pages it is made of.
    #[must_use]
    pub fn pages(&self) -> Pages {
        self.pages
    }

    /// Bytes of all blocks and the header, whether their pages are backed yet or not.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.map.len()
    }

    /// How many blocks there are in all classes.
    #[must_use]
    pub fn block_count(&self) -> u32 {
        self.claimed.len() as u32
    }

    /// The blocks of a class.
    #[must_use]
    pub fn blocks(&self, class: Class) -> std::ops::Range<u32> {
        let layout = &self.classes[class as usize];
        layout.first..layout.first + layout.count
    }

    /// The class of a block, `None` when there is no such block.
    #[inline]
    #[must_use]
    pub fn class_of(&self, block: BlockId) -> Option<Class> {
        Class::ALL.into_iter().find(|&class| self.blocks(class).contains(&block.0))
    }

    /// Bytes of a block of this class.
    #[inline]
    #[must_use]
    pub fn block_bytes(&self, class: Class) -> usize {
        self.classes[class as usize].bytes
    }

    /// The smallest class whose blocks have `bytes` bytes, the block's header included.
    #[inline]
    #[must_use]
    pub fn class_for(&self, bytes: usize) -> Option<Class> {
        Class::ALL.into_iter().find(|&class| self.block_bytes(class) >= bytes)
    }

    /// Takes a block into this process's hands: to be called when its descriptor came in, and by whoever gives
    /// blocks out. `None` when there is no such block or this process holds it already, which means that a
    /// descriptor lied.
    #[must_use]
    pub fn claim(self: &Arc<Self>, block: BlockId) -> Option<OwnedBlock> {
        let class = self.class_of(block)?;
        let taken = self.claimed[block.0 as usize].swap(true, Ordering::Acquire);
        (!taken).then(|| OwnedBlock::new(self.clone(), block, self.block_bytes(class)))
    }

    /// Undoes [`claim`](Self::claim).
    pub(crate) fn release(&self, block: BlockId) {
        self.claimed[block.0 as usize].store(false, Ordering::Release);
    }

    /// The address of a block of this pool.
    pub(crate) fn address(&self, block: BlockId, len: usize) -> *mut u8 {
        let class = self.class_of(block).map_or(&self.classes[0], |class| &self.classes[class as usize]);
        assert!(len <= class.bytes, "inside the block");
        self.map.at(class.offset + (block.0 - class.first) as usize * class.bytes, len)
    }

    /// Where the stmgr says that it sleeps.
    #[must_use]
    pub fn stmgr_parker(&self) -> Parker {
        Parker::new(self.map.clone(), ASLEEP_OFFSET)
    }

    /// Wakes the stmgr, which sleeps in its reactor and watches `eventfd`.
    #[must_use]
    pub fn stmgr_waker(&self, eventfd: OwnedFd) -> Waker {
        Waker::eventfd(self.map.clone(), ASLEEP_OFFSET, eventfd)
    }
}

fn lay_out(config: &PoolConfig) -> ([ClassLayout; CLASSES], usize) {
    let sizes = config.block_bytes();
    let (mut first, mut offset) = (0, HEADER_BYTES);
    let classes = std::array::from_fn(|i| {
        let class = ClassLayout { first, count: config.counts[i], bytes: sizes[i], offset };
        first += class.count;
        offset += class.count as usize * class.bytes;
        class
    });
    (classes, offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: PoolConfig = PoolConfig { counts: [4, 2, 1], max_tuple_bytes: 1 << 20 };

    #[test]
    fn what_one_process_writes_another_mapping_reads() {
        let here = Arc::new(Pool::create(&CONFIG).unwrap());
        let there = Arc::new(Pool::attach(here.duplicate_fd().unwrap()).unwrap());
        assert_eq!(there.classes, here.classes);
        for id in 0..here.block_count() {
            let mut block = here.claim(BlockId(id)).unwrap();
            block.bytes_mut().fill(id as u8);
        }
        for id in 0..here.block_count() {
            let block = there.claim(BlockId(id)).unwrap();
            assert!(block.bytes().iter().all(|&b| b == id as u8), "block {id}");
        }
    }

    #[test]
    fn a_block_is_claimed_once() {
        let pool = Arc::new(Pool::create(&CONFIG).unwrap());
        let block = pool.claim(BlockId(3)).unwrap();
        assert!(pool.claim(BlockId(3)).is_none());
        drop(block);
        assert!(pool.claim(BlockId(3)).is_some());
        assert!(pool.claim(BlockId(7)).is_none());
    }

    #[test]
    fn classes_follow_from_sizes() {
        let pool = Pool::create(&CONFIG).unwrap();
        assert_eq!(pool.class_for(100), Some(Class::Standard));
        assert_eq!(pool.class_for((16 << 10) + 1), Some(Class::Medium));
        assert_eq!(pool.class_for((1 << 20) + BLOCK_OVERHEAD), Some(Class::Large));
        assert_eq!(pool.class_for(2 << 20), None);
        assert_eq!(pool.class_of(BlockId(5)), Some(Class::Medium));
    }

    #[test]
    fn other_memory_is_no_pool() {
        let map = Mapping::create("not-a-pool", 8192).unwrap();
        assert!(matches!(Pool::attach(map.duplicate_fd().unwrap()), Err(PoolError::NotAPool)));
        let unsealed = rustix::fs::memfd_create("unsealed", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&unsealed, 8192).unwrap();
        assert!(matches!(Pool::attach(unsealed), Err(PoolError::Map { .. })));
    }
}
