//! The packing plan: which task runs in which container. Made by a packing algorithm of the control plane.

use super::Resources;
use crate::ids::{ContainerId, TaskId};
use rkyv::{Archive, Deserialize, Serialize};

/// The containers of a topology and their tasks.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq, Eq,
)]
pub struct PackingPlan {
    /// The topology's name.
    pub topology: String,
    /// Containers 1 and up, in order. Container 0, the tmaster's, is not listed.
    pub containers: Vec<ContainerPlan>,
}

/// One container.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq, Eq,
)]
pub struct ContainerPlan {
    /// Which one; never 0.
    pub id: ContainerId,
    /// Its tasks, by ascending id.
    pub tasks: Vec<TaskPlan>,
    /// What it needs as a whole: its tasks and its stmgr.
    pub required: Resources,
}

/// One task in its container.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq, Eq,
)]
pub struct TaskPlan {
    /// The task.
    pub task: TaskId,
    /// The id of its component.
    pub component: String,
    /// Its index among its component's tasks, from 0.
    pub index: u32,
    /// What it may use.
    pub resources: Resources,
}

impl PackingPlan {
    /// The container called `id`.
    #[must_use]
    pub fn container(&self, id: ContainerId) -> Option<&ContainerPlan> {
        self.containers.iter().find(|c| c.id == id)
    }

    /// The container that `task` runs in.
    #[must_use]
    pub fn container_of(&self, task: TaskId) -> Option<ContainerId> {
        self.containers.iter().find(|c| c.tasks.iter().any(|t| t.task == task)).map(|c| c.id)
    }
}
