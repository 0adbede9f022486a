//! Packing: which task runs in which container.

mod round_robin;

pub use round_robin::RoundRobin;

use egret_dataplane::plan::{PackingPlan, Topology};

/// A way to pack.
pub trait Packing {
    /// Puts every task of a valid topology into a container, within the containers' limits.
    ///
    /// # Errors
    /// [`PackingError`] when it does not fit.
    fn pack(&self, topology: &Topology) -> Result<PackingPlan, PackingError>;
}

/// Why a topology cannot be packed.
#[derive(thiserror::Error, Clone, Debug, PartialEq, Eq)]
pub enum PackingError {
    /// A container is too small for what it must hold.
    #[error(
        "container {container} needs {needed} of {what}, but is given {given} by `{key}`: {reserved}; {remedy}"
    )]
    TooSmall {
        /// The container.
        container: egret_dataplane::ids::ContainerId,
        /// RAM, CPU or disk.
        what: &'static str,
        /// How much is needed, with its unit.
        needed: String,
        /// How much there is, with its unit.
        given: String,
        /// The configuration key that limits it.
        key: &'static str,
        /// Who reserves how much of what is needed.
        reserved: String,
        /// What would be right.
        remedy: String,
    },
}
