//! Shared memory that a hostile instance writes while its stmgr reads: pool and channel headers, cursors, slots, counters.
#![allow(unsafe_code)]

use crate::bytes::Bytes;
use egret_dataplane::ids::{BlockId, Incarnation, TaskId};
use egret_dataplane::memory::{Channel, Descriptor, DescriptorKind, OUT_SLOTS, Pool, PoolConfig};
use memmap2::{MmapOptions, MmapRaw};
use std::cell::OnceCell;
use std::os::fd::OwnedFd;

const CONFIG: PoolConfig = PoolConfig { counts: [4, 2, 1], max_tuple_bytes: 1 << 16 };
/// Where cursors and the first slots are; see `docs/protocol.md`.
const HOT: u64 = 2048;

struct Shared {
    channel: Channel,
    channel_map: MmapRaw,
    pool: Pool,
    pool_map: MmapRaw,
    blank_pool: [u64; 8],
}

thread_local! {
    static SHARED: OnceCell<Shared> = const { OnceCell::new() };
}

fn map(fd: OwnedFd) -> MmapRaw {
    MmapOptions::new().map_raw(&fd).expect("it maps")
}

fn share() -> Shared {
    let channel = Channel::create().expect("a channel");
    let channel_map = map(channel.duplicate_fd().expect("a file"));
    let pool = Pool::create(&CONFIG).expect("a pool");
    let pool_map = map(pool.duplicate_fd().expect("a file"));
    let blank_pool = std::array::from_fn(|i| peek(&pool_map, i as u64 * 8));
    Shared { channel, channel_map, pool, pool_map, blank_pool }
}

fn poke(map: &MmapRaw, offset: u64, value: u64) {
    let offset = (offset as usize & !7).min(map.len() - 8);
    // SAFETY: inside the mapping and aligned; only this thread uses it.
    unsafe { map.as_mut_ptr().add(offset).cast::<u64>().write_volatile(value) };
}

fn peek(map: &MmapRaw, offset: u64) -> u64 {
    // SAFETY: as in `poke`.
    unsafe { map.as_ptr().add(offset as usize).cast::<u64>().read_volatile() }
}

/// See the module.
pub fn run(data: &[u8]) {
    SHARED.with(|shared| {
        let shared = shared.get_or_init(share);
        let mut bytes = Bytes(data);
        if bytes.u8() % 2 == 0 { channel(shared, bytes) } else { pool(shared, bytes) }
    });
}

fn channel(shared: &Shared, mut bytes: Bytes<'_>) {
    // Cursors of an earlier run.
    for line in [512, 640, 768, 896] {
        poke(&shared.channel_map, line, 0);
    }
    let mut stmgr = shared.channel.stmgr_end();
    while !bytes.is_empty() {
        match bytes.below(4) {
            0 => poke(&shared.channel_map, u64::from(bytes.u32()) % HOT, bytes.u64()),
            1 => poke(&shared.channel_map, 512 + 128 * bytes.below(4) as u64, u64::from(bytes.u8())),
            2 => {
                let most = OUT_SLOTS + 1;
                let taken = std::iter::from_fn(|| stmgr.consumer.pop()).take(most).count();
                assert!(taken < most, "more than a ring holds came out of it at once");
                let _ = stmgr.consumer.has_some();
            }
            _ => {
                let descriptor = Descriptor::of_block(DescriptorKind::Grant, BlockId(bytes.u32()));
                let _ = stmgr.producer.push(descriptor);
            }
        }
        let _ = stmgr.counters.load(TaskId(1), Incarnation(1));
    }
}

fn pool(shared: &Shared, mut bytes: Bytes<'_>) {
    for (word, value) in shared.blank_pool.iter().enumerate() {
        poke(&shared.pool_map, word as u64 * 8, *value);
    }
    while !bytes.is_empty() {
        poke(&shared.pool_map, 8 * bytes.below(16) as u64, bytes.u64());
    }
    let fd = shared.pool.duplicate_fd().expect("a file");
    if let Ok(pool) = Pool::attach(fd) {
        let pool = std::sync::Arc::new(pool);
        let blocks = pool.block_count();
        for block in [0, blocks / 2, blocks.saturating_sub(1), blocks, u32::MAX] {
            if let Some(block) = pool.claim(BlockId(block)) {
                // Touches its first and last byte, which would fault outside the mapping.
                let bytes = block.bytes();
                let _ = std::hint::black_box(bytes[0] ^ bytes[bytes.len() - 1]);
            }
        }
    }
}
