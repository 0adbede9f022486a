//! What comes from outside and may be anything, each as a function over bytes that must return.
//!
//! `.ci/fuzz` runs each with libFuzzer for a while, and `cargo test` replays the corpus. A target asserts what holds
//! whatever the bytes are; that nothing panics, hangs or takes much memory, libFuzzer sees.

pub mod block;
mod bounds;
mod bytes;
pub mod descriptor;
pub mod frame;
pub mod message;
pub mod ring;
pub mod state;
pub mod yaml;

// As it stands: only the state manager sees it otherwise.
#[path = "../../../control/src/state/codec.rs"]
mod codec;

/// A function over bytes.
pub type Target = fn(&[u8]);

/// Every target by its name.
pub const TARGETS: [(&str, Target); 7] = [
    ("frame", frame::run),
    ("block", block::run),
    ("message", message::run),
    ("state", state::run),
    ("yaml", yaml::run),
    ("ring", ring::run),
    ("descriptor", descriptor::run),
];
