//! The numbers by which tasks, containers, components, streams and blocks are known.

use rkyv::{Archive, Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Copy, PartialEq, Eq,
            PartialOrd, Ord, Hash, Debug, Default,
        )]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// One parallel copy of a component. Tasks are numbered from 1 over the whole topology, component by component
    /// in the order of its definition, so the same topology has the same numbers whatever its containers are.
    TaskId(u32)
}
id! {
    /// A container. Container 0 holds the tmaster and no instance.
    ContainerId(u32)
}
id! {
    /// A component's position in [`Topology::components`](crate::plan::Topology::components).
    ComponentIndex(u16)
}
id! {
    /// A stream's position in [`Component::outputs`](crate::plan::Component::outputs).
    StreamIndex(u16)
}
id! {
    /// A block of a container's pool.
    BlockId(u32)
}
id! {
    /// The version of a physical plan. A higher epoch always wins.
    Epoch(u64)
}
id! {
    /// The how-many-th process that runs a task, counted by its executor from 1.
    Incarnation(u32)
}
