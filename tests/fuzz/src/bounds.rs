//! No input is worth a large allocation: one over the bound ends the process, which libFuzzer reports.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};

/// More than anything here needs: a frame of the greatest size is 4 MiB.
const MOST_BYTES: usize = 32 << 20;

struct Bounded;

#[global_allocator]
static ALLOCATOR: Bounded = Bounded;

// SAFETY: the system's allocator, but for requests that end the process.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check(layout.size());
        // SAFETY: as this function's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as this function's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        check(size);
        // SAFETY: as this function's.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

fn check(bytes: usize) {
    if bytes > MOST_BYTES {
        // Nothing that allocates.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), b"an oversize allocation\n");
        std::process::abort();
    }
}
