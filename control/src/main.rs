//! The `egret` command.
fn main() {}
