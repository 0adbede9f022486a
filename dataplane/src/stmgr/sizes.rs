//! How many blocks a container's pool has, and whose they are.
//!
//! Every block has a *home*: a local task, which writes into it, or a window, which receives into it. The pool is the
//! sum of all homes, so nobody's blocks are ever used up by others:
//!
//! ```text
//! blocks of a class = local tasks  x quota of a task       (emitted or acked, and not yet consumed everywhere)
//!                   + windows      x size of a window      (received and not yet consumed here)
//!                   + ack windows  x size of an ack window (the same, for spouts)
//! ```
//!
//! Acks come in standard blocks only. An ack window has one block of each other class all the same, for blocks of
//! tuples that were lost, which may be of any class. A spout takes what comes at once, whatever else it waits for, so
//! one of each keeps them moving. Pages that are never written take no memory.

use super::route::{Pair, Routes, Slot, WindowIndex};
use crate::frame::BLOCK_OVERHEAD;
use crate::memory::{CLASSES, PoolConfig};
use crate::plan::{Config, config};

/// Medium blocks of each task: tuples of up to 256 KiB are the exception, and a few in flight keep a stream moving.
const TASK_MEDIUM: u32 = 8;
/// Large blocks of each task: one to be written while another is consumed.
const TASK_LARGE: u32 = 2;
/// A window is a fraction of a task's quota: it covers one round trip, not the whole queue. Half of it, since with every
/// quarter of a window both ends of a link are woken.
const WINDOW_DIVISOR: u32 = 2;
/// The smallest window of standard blocks.
const WINDOW_STANDARD_MIN: u32 = 4;
/// Medium blocks of each window.
const WINDOW_MEDIUM: u32 = 4;
/// Large blocks of each window: one arrives while another is consumed.
const WINDOW_LARGE: u32 = 2;

/// The shortest batch: a block's header. An instance that emits less would make its stmgr send a frame that the peer
/// refuses together with the link.
pub const MIN_BATCH_BYTES: u32 = BLOCK_OVERHEAD as u32 - 16;

/// Quotas and block sizes by class. The same on every container of a topology, since both ends of a link reckon
/// with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Blocks of each task.
    pub task: [u32; CLASSES],
    /// Blocks of each window for a bolt.
    pub window: [u32; CLASSES],
    /// Blocks of each window for a spout.
    pub ack_window: [u32; CLASSES],
    /// Bytes of a block.
    pub block_bytes: [u32; CLASSES],
    /// Bytes of a tuple at most.
    pub max_tuple_bytes: usize,
}

impl Sizes {
    /// The sizes that a topology's configuration asks for.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let standard = config.number(config::TASK_BLOCKS) as u32;
        let max_tuple_bytes = config.number(config::TUPLE_MAX_BYTES) as usize;
        let bytes = PoolConfig { counts: [0; CLASSES], max_tuple_bytes }.block_bytes();
        let window = (standard / WINDOW_DIVISOR).max(WINDOW_STANDARD_MIN);
        Self {
            task: [standard, TASK_MEDIUM, TASK_LARGE],
            window: [window, WINDOW_MEDIUM, WINDOW_LARGE],
            ack_window: [window, 1, 1],
            block_bytes: bytes.map(|b| b as u32),
            max_tuple_bytes,
        }
    }

    /// The pool of a container: see the sum at the top.
    #[must_use]
    pub fn pool(&self, routes: &Routes) -> PoolConfig {
        let tasks = routes.tasks.len() as u32;
        let windows =
            |c: usize| -> u32 { routes.windows.iter().map(|&pair| self.of_pair(routes, pair)[c]).sum() };
        let counts = std::array::from_fn(|c| tasks * self.task[c] + windows(c));
        PoolConfig { counts, max_tuple_bytes: self.max_tuple_bytes }
    }

    /// The size of the window at the receiving end of a pair.
    #[must_use]
    pub fn of_pair(&self, routes: &Routes, pair: Pair) -> &[u32; CLASSES] {
        if routes.is_for_acks(pair.destination) { &self.ack_window } else { &self.window }
    }

    /// The class that receives `bytes`: the smallest that holds them.
    #[must_use]
    pub fn class_for(&self, bytes: u32) -> Option<usize> {
        self.block_bytes.iter().position(|&size| bytes <= size)
    }

    /// Blocks that one task's emissions occupy at most.
    #[must_use]
    pub fn task_total(&self) -> u32 {
        self.task.iter().sum()
    }
}

/// Whose a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// A local task's.
    Task(Slot),
    /// A window's.
    Window(WindowIndex),
}

/// The homes of all blocks, by block number, as [`Sizes::pool`] counts them: class by class, first the tasks' in the
/// order of slots, then the windows'. With each its class.
#[must_use]
pub fn homes(sizes: &Sizes, routes: &Routes) -> Vec<(Home, usize)> {
    let tasks = routes.tasks.len() as u32;
    let mut homes = Vec::new();
    for class in 0..CLASSES {
        for slot in 0..tasks {
            homes.extend((0..sizes.task[class]).map(|_| (Home::Task(Slot(slot)), class)));
        }
        for (window, &pair) in routes.windows.iter().enumerate() {
            let home = Home::Window(WindowIndex(window as u32));
            homes.extend((0..sizes.of_pair(routes, pair)[class]).map(|_| (home, class)));
        }
    }
    homes
}
