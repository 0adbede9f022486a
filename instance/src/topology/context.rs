//! What a component learns of its task.

use super::{Counter, Metrics};
use egret_dataplane::ids::{ComponentIndex, TaskId};
use egret_dataplane::plan::config::USER_PREFIX;
use egret_dataplane::plan::{Component, Config, Topology};
use std::sync::Arc;

/// What a component learns of its task: who it is, its configuration, its metrics.
#[derive(Clone, Debug)]
pub struct Context {
    topology: Arc<Topology>,
    task: TaskId,
    component: ComponentIndex,
    index: u32,
    metrics: Metrics,
}

impl Context {
    /// The context of a task; `None` when the topology has no such task.
    #[must_use]
    pub fn new(topology: Arc<Topology>, task: TaskId, metrics: Metrics) -> Option<Self> {
        let (component, index) = topology.component_of(task)?;
        Some(Self { topology, task, component, index, metrics })
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
