//! How many blocks a container's pool has, and whose they are.
//!
//! Every block has a *home*: a local task, which writes into it, or a window, which receives into it. The pool is the
//! sum of all homes, so nobody's blocks are ever used up by others:
//!
//! ```text
//! blocks of a class = quotas of local tasks                (emitted or acked, and not yet consumed everywhere)
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

/// Standard blocks of a task for each of its destinations, so that none waits for a block that another one has: one is
/// written while another is consumed.
const TASK_PER_DESTINATION: u32 = 2;
/// But no more than so many for all of them.
const TASK_STANDARD_MAX: u32 = 512;
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
    /// Blocks of each task, at least.
    pub task: [u32; CLASSES],
    /// Standard blocks of a task for each of its destinations, if that is more; 0 where the configuration has the last
    /// word.
    pub per_destination: u32,
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
            per_destination: if config.is_set(config::TASK_BLOCKS) { 0 } else { TASK_PER_DESTINATION },
            window: [window, WINDOW_MEDIUM, WINDOW_LARGE],
            ack_window: [window, 1, 1],
            block_bytes: bytes.map(|b| b as u32),
            max_tuple_bytes,
        }
    }

    /// The pool of a container: see the sum at the top.
    #[must_use]
    pub fn pool(&self, routes: &Routes) -> PoolConfig {
        let tasks = |c: usize| -> u32 { slots(routes).map(|slot| self.of_task(routes, slot)[c]).sum() };
        let windows =
            |c: usize| -> u32 { routes.windows.iter().map(|&pair| self.of_pair(routes, pair)[c]).sum() };
        let counts = std::array::from_fn(|c| tasks(c) + windows(c));
        PoolConfig { counts, max_tuple_bytes: self.max_tuple_bytes }
    }

    /// The quota of a local task.
    #[must_use]
    pub fn of_task(&self, routes: &Routes, slot: Slot) -> [u32; CLASSES] {
        let destinations = routes.destinations(routes.component(slot));
        let wanted = destinations.saturating_mul(self.per_destination).min(TASK_STANDARD_MAX);
        let [standard, medium, large] = self.task;
        [standard.max(wanted), medium, large]
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
}

fn slots(routes: &Routes) -> impl Iterator<Item = Slot> {
    (0..routes.tasks.len() as u32).map(Slot)
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
    let mut homes = Vec::new();
    for class in 0..CLASSES {
        for slot in slots(routes) {
            homes.extend((0..sizes.of_task(routes, slot)[class]).map(|_| (Home::Task(slot), class)));
        }
        for (window, &pair) in routes.windows.iter().enumerate() {
            let home = Home::Window(WindowIndex(window as u32));
            homes.extend((0..sizes.of_pair(routes, pair)[class]).map(|_| (home, class)));
        }
    }
    homes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ContainerId;
    use crate::stmgr::core::tests::{component, packing, topology};

    fn quota_of_a_task_that_emits_to(tasks: u32, blocks: Option<&str>) -> u32 {
        let mut topology = topology(vec![component("a", 1, &[]), component("b", tasks, &[("a", false)])]);
        if let Some(blocks) = blocks {
            topology.config.set(config::TASK_BLOCKS, blocks).unwrap();
        }
        let all_in_one = vec![1; tasks as usize + 1];
        let routes = Routes::new(&topology, &packing(&topology, &all_in_one), ContainerId(1)).unwrap();
        let sizes = Sizes::of(&topology.config);
        let quota = sizes.of_task(&routes, Slot(0))[0];
        let pool = sizes.pool(&routes).counts[0];
        assert_eq!(pool, quota + tasks * sizes.of_task(&routes, Slot(1))[0]);
        assert_eq!(homes(&sizes, &routes).iter().filter(|(_, class)| *class == 0).count(), pool as usize);
        quota
    }

    #[test]
    fn a_task_has_two_blocks_for_each_destination_unless_it_is_told_otherwise() {
        let quotas = [1, 32, 33, 256, 300].map(|tasks| quota_of_a_task_that_emits_to(tasks, None));
        assert_eq!(quotas, [64, 64, 66, 512, 512]);
        assert_eq!(quota_of_a_task_that_emits_to(100, Some("64")), 64);
        assert_eq!(quota_of_a_task_that_emits_to(100, Some("1000")), 1000);
    }
}
