//! Packing: which task runs in which container.

mod round_robin;

pub use round_robin::RoundRobin;

use egret_dataplane::ids::ContainerId;
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
    #[error(transparent)]
    TooSmall(Box<TooSmall>),
}

/// A container that is too small for what it must hold.
#[derive(thiserror::Error, Clone, Debug, PartialEq, Eq)]
#[error(
    "container {container} needs {needed} of {what}, but is given {given} by `{key}`: {reserved}; {remedy}"
)]
pub struct TooSmall {
    /// The container.
    pub container: ContainerId,
    /// RAM, CPU or disk.
    pub what: &'static str,
    /// How much is needed, with its unit.
    pub needed: String,
    /// How much there is, with its unit.
    pub given: String,
    /// The configuration key that limits it.
    pub key: &'static str,
    /// Who reserves how much of what is needed.
    pub reserved: String,
    /// What would be right.
    pub remedy: String,
}
