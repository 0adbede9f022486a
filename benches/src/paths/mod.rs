//! The hot paths, each alone in one thread: what instructions are counted of, and what the criterion benches time.
//!
//! They drive the code that runs in a topology: an emitter and its collector, a bolt's runner, a stmgr's core, a ledger.
//! Left out are the rings, parking and the kernel, whose cost is no number of instructions.

pub mod rig;
mod stmgr;
mod task;

use anyhow::{Context, Result};

/// A path: does so many units of work each time it is called.
pub type Work = Box<dyn FnMut(u64) -> Result<()>>;

/// A hot path.
pub struct Path {
    /// Its name.
    pub name: &'static str,
    /// What a unit is.
    pub unit: &'static str,
    /// What is done for each.
    pub help: &'static str,
    make: fn() -> Result<Work>,
}

/// All of them. A batch is what a standard block holds.
pub const PATHS: &[Path] = &[
    Path {
        name: "emit",
        unit: "tuple",
        help: "a spout emits a tuple of 16 B into its batch",
        make: task::emit,
    },
    Path {
        name: "relay",
        unit: "batch",
        help: "a stmgr passes a batch on, and takes it back",
        make: stmgr::relay,
    },
    Path { name: "execute", unit: "tuple", help: "a bolt reads a tuple of 16 B", make: task::execute },
    Path {
        name: "ack",
        unit: "tuple",
        help: "a tracked tuple all round: emitted, executed, acked, its tree complete",
        make: task::ack,
    },
    Path {
        name: "hops",
        unit: "tuple",
        help: "the same over two hops, by `sequence`, `identity` and `null-sink`",
        make: task::hops,
    },
    Path {
        name: "hops untracked",
        unit: "tuple",
        help: "those two hops without tracking",
        make: task::hops_untracked,
    },
    Path {
        name: "receive",
        unit: "batch",
        help: "a stmgr receives a batch from a peer",
        make: stmgr::receive,
    },
];

/// Makes the path of this name ready.
///
/// # Errors
/// When there is none, or it cannot be made ready.
pub fn work(name: &str) -> Result<Work> {
    let path = PATHS.iter().find(|path| path.name == name);
    (path.with_context(|| format!("there is no path `{name}`"))?.make)()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_does_its_work_again_and_again() {
        for path in PATHS {
            let mut work = work(path.name).unwrap();
            (0..3).for_each(|_| work(5000).unwrap());
        }
        assert!(work("none").is_err());
    }
}
