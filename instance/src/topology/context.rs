//! What a component learns of its task.

use super::{Counter, Metrics};
use egret_dataplane::ids::{ComponentIndex, Incarnation, TaskId};
use egret_dataplane::plan::config::USER_PREFIX;
use egret_dataplane::plan::{Component, Config, Topology};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a component learns of its task: who it is, its configuration, its metrics.
#[derive(Clone, Debug)]
pub struct Context {
    topology: Arc<Topology>,
    task: TaskId,
    component: ComponentIndex,
    index: u32,
    metrics: Metrics,
    container_dir: PathBuf,
    incarnation: Incarnation,
}

impl Context {
    /// The context of a task; `None` when the topology has no such task.
    #[must_use]
    pub fn new(topology: Arc<Topology>, task: TaskId, metrics: Metrics) -> Option<Self> {
        let (component, index) = topology.component_of(task)?;
        let (container_dir, incarnation) = (PathBuf::from("."), Incarnation(1));
        Some(Self { topology, task, component, index, metrics, container_dir, incarnation })
    }

    /// The same, of this process: the folder of its container and its incarnation. Without it they are the working
    /// directory and the first.
    #[must_use]
    pub fn in_process(self, container_dir: PathBuf, incarnation: Incarnation) -> Self {
        Self { container_dir, incarnation, ..self }
    }

    /// The folder of the task's container, which lives as long as the topology.
    #[must_use]
    pub fn container_dir(&self) -> &Path {
        &self.container_dir
    }

    /// The how-many-th process that runs this task, from 1: above 1, an earlier one died.
    #[must_use]
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The task's number, unique in the topology.
    #[must_use]
    pub fn task(&self) -> TaskId {
        self.task
    }

    /// The task's index among its component's tasks, from 0.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The component's id.
    #[must_use]
    pub fn component(&self) -> &str {
        &self.definition().id
    }

    /// How many tasks the component has.
    #[must_use]
    pub fn parallelism(&self) -> u32 {
        self.definition().parallelism
    }

    /// The component as the topology defines it: its streams, its inputs, its arguments.
    #[must_use]
    pub fn definition(&self) -> &Component {
        &self.topology.components[self.component.0 as usize]
    }

    /// The topology.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The tasks of a component in order, to emit to them by direct grouping; none for an unknown component.
    pub fn tasks(&self, component: &str) -> impl Iterator<Item = TaskId> + use<> {
        let tasks = self.topology.component(component).map(|component| self.topology.tasks(component));
        tasks.unwrap_or_default().map(TaskId)
    }

    /// The topology's configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.topology.config
    }

    /// The text of the entry `user.NAME`, if it is set.
    #[must_use]
    pub fn user_config(&self, name: &str) -> Option<&str> {
        self.topology.config.text(&format!("{USER_PREFIX}{name}"))
    }

    /// The counter of this name, made when it is asked for first.
    #[must_use]
    pub fn counter(&self, name: &str) -> Counter {
        self.metrics.counter(name)
    }
}
