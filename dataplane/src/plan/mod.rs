//! Who runs where: the logical topology, the packing plan and the physical plan.
//!
//! * [`topology`]: components, streams and groupings, as the user wrote them, and the one validator.
//! * [`packing`]: which task goes into which container.
//! * [`physical`]: both together with the addresses of the stmgrs and an epoch; what the tmaster distributes.
//! * [`config`]: the keys of `config:` with their types and defaults.

pub mod config;
pub mod packing;
pub mod physical;
pub mod topology;
pub mod validate;

pub use config::Config;
pub use packing::{ContainerPlan, PackingPlan, TaskPlan};
pub use physical::{Broadcast, PhysicalPlan, StmgrAddress};
pub use topology::{
    Component, Field, FieldKind, Grouping, Input, LinkedProgram, Program, Resources, Role, Schema, Stream,
    Topology,
};
pub use validate::{Problem, Subject};
