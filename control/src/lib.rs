//! Egret's control plane.

pub mod executor;
pub mod layout;
pub mod logs;
pub mod packing;
pub mod scheduler;
pub mod state;
pub mod tmaster;
