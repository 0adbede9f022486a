//! Egret's control plane.
pub mod tmaster;
