//! A block goes out by one ring and home by another: its bytes are written and read without any lock, and loom reports
//! every access that the rings do not put in order.
#![allow(unsafe_code)]

use crate::{block, explore, ring};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// The bytes of the two blocks of a pool.
type Blocks = Arc<[UnsafeCell<u32>; 2]>;

#[test]
fn the_bytes_of_a_block_belong_to_one_at_a_time() {
    explore(3, || {
        let blocks: Blocks = Arc::new([UnsafeCell::new(0), UnsafeCell::new(0)]);
        let (mut out, mut incoming) = ring(4);
        let (mut done, mut home) = ring(4);
        let receiver = thread::spawn({
            let blocks = blocks.clone();
            move || {
                for n in 1..=3u32 {
                    let descriptor = loop {
                        match incoming.pop() {
                            Some(descriptor) => break descriptor,
                            None => thread::yield_now(),
                        }
                    };
                    // SAFETY: its descriptor has come.
                    let seen = blocks[descriptor.block.0 as usize].with(|bytes| unsafe { *bytes });
                    assert_eq!(seen, n);
                    done.push(descriptor).unwrap();
                }
            }
        });
        let mut free = vec![0, 1];
        for n in 1..=3u32 {
            let id = loop {
                match free.pop().or_else(|| home.pop().map(|descriptor| descriptor.block.0)) {
                    Some(id) => break id,
                    None => thread::yield_now(),
                }
            };
            // SAFETY: it is free.
            blocks[id as usize].with_mut(|bytes| unsafe { *bytes = n });
            out.push(block(id)).unwrap();
        }
        receiver.join().unwrap();
    });
}
