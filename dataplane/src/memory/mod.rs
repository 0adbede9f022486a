//! Memory that the processes of a container share: the pool of blocks, and a channel of two rings per instance.
//!
//! * [`pool`]: the blocks, in size classes, in one sealed `memfd` per container; [`pages`]: of which pages.
//! * [`block`]: a block that this process owns, and its bytes for a gather write.
//! * [`descriptor`]: the 16 bytes that name a block in a ring.
//! * [`ring`]: a single-producer single-consumer queue of descriptors.
//! * [`park`]: how a consumer sleeps and a producer wakes it.
//! * [`channel`]: the rings, the parker, the counters and the word that holds a spout, between one instance and its stmgr.
//!
//! Ownership of a block moves only with its descriptor through a ring. Nothing here knows what a block holds.

mod atomics;
pub mod block;
pub mod channel;
pub mod descriptor;
mod futex;
mod map;
pub mod pages;
pub mod park;
pub mod pool;
pub mod ring;

#[cfg(test)]
mod handover_tests;
#[cfg(test)]
mod park_tests;
#[cfg(test)]
mod ring_tests;

pub use block::{BlockBytes, OwnedBlock};
pub use channel::{Channel, ChannelEnd, Counters, Hold, IN_SLOTS, OUT_SLOTS};
pub use descriptor::{Descriptor, DescriptorKind, MAX_COUNT};
pub use pages::{HugePages, Pages};
pub use park::{Parker, Sleep, Waker};
pub use pool::{CLASSES, Class, Pool, PoolConfig, PoolError};
pub use ring::{Consumer, Full, Producer, UNPUBLISHED_MAX};
