//! Egret's user library.

pub mod components;
pub mod yaml;
