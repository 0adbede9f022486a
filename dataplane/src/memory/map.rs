//! A shared mapping of a sealed `memfd`, and the atomics in it.
#![allow(unsafe_code)]

use memmap2::{Advice, MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64};

const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A `memfd` mapped for reading and writing. It cannot shrink, so an access inside it never faults.
pub(crate) struct Mapping {
    map: MmapRaw,
    fd: OwnedFd,
}

impl Mapping {
    /// Makes a zeroed `memfd` of `len` bytes, sealed against any change of its size.
    pub(crate) fn create(name: &str, len: usize) -> io::Result<Self> {
        Self::create_of(name, len, MemfdFlags::empty())
    }

    /// Makes one of pages of 2 MiB, all of which are set aside for it; its length is the next multiple of that.
    ///
    /// # Errors
    /// Also when there are not enough of them.
    pub(crate) fn create_huge(name: &str, len: usize) -> io::Result<Self> {
        let flags = MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        Self::create_of(name, len.next_multiple_of(HUGE_PAGE_BYTES), flags)
    }

    fn create_of(name: &str, len: usize, flags: MemfdFlags) -> io::Result<Self> {
        let flags = flags | MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create(name, flags)?;
        rustix::fs::ftruncate(&fd, len as u64)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Self::map(fd, len)
    }

    /// Maps a `memfd` that another process made, all of it.
    pub(crate) fn attach(fd: OwnedFd) -> io::Result<Self> {
        let seals = rustix::fs::fcntl_get_seals(&fd)?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the shared memory is not sealed against shrinking",
            ));
        }
        let len = rustix::fs::fstat(&fd)?.st_size;
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::InvalidData)?;
        Self::map(fd, len)
    }

    fn map(fd: OwnedFd, len: usize) -> io::Result<Self> {
        let map = MmapOptions::new().len(len).map_raw(&fd)?;
        Ok(Self { map, fd })
    }

    /// Asks for huge pages where the kernel gives them to those who ask; pages that this process is the first to touch
    /// are such from now on.
    pub(crate) fn advise_huge(&self) -> io::Result<()> {
        self.map.advise(Advice::HugePage)
    }

    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    pub(crate) fn duplicate_fd(&self) -> io::Result<OwnedFd> {
        self.fd.as_fd().try_clone_to_owned()
    }

    /// The address of the byte at `offset`, with `len` bytes after it inside the mapping.
    ///
    /// # Panics
    /// When the range is not inside the mapping.
    pub(crate) fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset <= self.len() && len <= self.len() - offset, "inside the mapping");
        // SAFETY: the assertion keeps the address inside the one allocation that the mapping is.
        unsafe { self.map.as_mut_ptr().add(offset) }
    }

    /// The word at `offset`, shared with other processes.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4), "aligned");
        // SAFETY: in bounds by `at`, aligned since mappings begin on a page, and only ever accessed as an atomic.
        unsafe { &*self.at(offset, 4).cast::<AtomicU32>() }
    }

    /// `count` double words from `offset`, shared with other processes.
    pub(crate) fn words64(&self, offset: usize, count: usize) -> &[AtomicU64] {
        assert!(offset.is_multiple_of(8), "aligned");
        let start = self.at(offset, count * 8).cast::<AtomicU64>();
        // SAFETY: in bounds by `at`, aligned since mappings begin on a page, and only ever accessed as atomics.
        unsafe { std::slice::from_raw_parts(start, count) }
    }
}
