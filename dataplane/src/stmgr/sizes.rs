//! How many blocks a container's pool has, and whose they are.
//!
//! Every block has a *home*: a local task, which writes into it, or a window, which receives into it. The pool is the
//! sum of all homes, so nobody's blocks are ever used up by others:
//!
//! ```text
//! blocks of a class = local tasks  x quota of a task       (emitted and not yet consumed everywhere)
//!                   + windows      x size of a window      (received and not yet consumed here)
//! ```

use super::route::{Routes, Slot, WindowIndex};
use crate::frame::BLOCK_OVERHEAD;
use crate::memory::{CLASSES, PoolConfig};
use crate::plan::{Config, config};

/// Medium blocks of each task: tuples of up to 256 KiB are the exception, and a few in flight keep a stream moving.
const TASK_MEDIUM: u32 = 8;
/// Large blocks of each task: one to be written while another is consumed.
const TASK_LARGE: u32 = 2;
/// A window is a fraction of a task's quota: it covers one round trip, not the whole queue.
const WINDOW_DIVISOR: u32 = 4;
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
    /// Blocks of each window.
    pub window: [u32; CLASSES],
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
        Self {
            task: [standard, TASK_MEDIUM, TASK_LARGE],
            window: [(standard / WINDOW_DIVISOR).max(WINDOW_STANDARD_MIN), WINDOW_MEDIUM, WINDOW_LARGE],
            block_bytes: bytes.map(|b| b as u32),
            max_tuple_bytes,
        }
    }

    /// The pool of a container: see the sum at the top.
    #[must_use]
    pub fn pool(&self, routes: &Routes) -> PoolConfig {
        let (tasks, windows) = (routes.tasks.len() as u32, routes.windows.len() as u32);
        let counts = std::array::from_fn(|c| tasks * self.task[c] + windows * self.window[c]);
        PoolConfig { counts, max_tuple_bytes: self.max_tuple_bytes }
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
    let (tasks, windows) = (routes.tasks.len() as u32, routes.windows.len() as u32);
    let mut homes = Vec::new();
    for class in 0..CLASSES {
        for slot in 0..tasks {
            homes.extend((0..sizes.task[class]).map(|_| (Home::Task(Slot(slot)), class)));
        }
        for window in 0..windows {
            homes.extend((0..sizes.window[class]).map(|_| (Home::Window(WindowIndex(window)), class)));
        }
    }
    homes
}
