//! The physical plan: the topology, its packing and where each container's stmgr listens.

use super::{Grouping, PackingPlan, Topology};
use crate::ids::{ComponentIndex, ContainerId, Epoch, StreamIndex, TaskId};
use rkyv::{Archive, Deserialize, Serialize};

/// What the tmaster distributes and everyone routes by.
#[derive(Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq)]
pub struct PhysicalPlan {
    /// Rises with every change; an older plan never replaces a newer one.
    pub epoch: Epoch,
    /// The logical topology.
    pub topology: Topology,
    /// Which task is where.
    pub packing: PackingPlan,
    /// One entry for each container of the packing plan, in the same order.
    pub stmgrs: Vec<StmgrAddress>,
    /// The tasks that have ended for good; a task that restarts later learns it from here.
    pub ended: Vec<TaskId>,
}

/// Where a stmgr takes connections of its peers.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq, Eq,
)]
pub struct StmgrAddress {
    /// Its container.
    pub container: ContainerId,
    /// `HOST:PORT` with a numeric host.
    pub address: String,
}

/// A stream that goes to every task of a bolt (grouping `ALL`). One block serves them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broadcast {
    /// Who emits.
    pub from: ComponentIndex,
    /// On which stream.
    pub stream: StreamIndex,
    /// Who gets it, on all its tasks.
    pub to: ComponentIndex,
}

impl Topology {
    /// All broadcasts, in an order that every holder of the plan computes alike; the position is the broadcast's
    /// number in a [`Destination`](crate::frame::Destination).
    #[must_use]
    pub fn broadcasts(&self) -> Vec<Broadcast> {
        let mut found = Vec::new();
        for (to, component) in self.components.iter().enumerate() {
            for input in component.inputs.iter().filter(|i| i.grouping == Grouping::All) {
                let Some(from) = self.component(&input.from) else { continue };
                let Some(stream) = self.components[from.0 as usize].stream(&input.stream) else { continue };
                found.push(Broadcast { from, stream, to: ComponentIndex(to as u16) });
            }
        }
        found
    }
}
