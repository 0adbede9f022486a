//! The files under test, as they are.

#[path = "../../../src/memory/descriptor.rs"]
pub mod descriptor;
#[path = "../../../src/memory/park.rs"]
pub mod park;
#[path = "../../../src/memory/ring.rs"]
pub mod ring;

pub(crate) use crate::model::{atomics, futex, map};
