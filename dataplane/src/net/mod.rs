//! (in progress)
pub mod link;
