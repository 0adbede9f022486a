//! A topology together with the code of its components.

use super::bolt::Basic;
use super::{BasicBolt, Bolt, Runner, Spout};
use crate::collector::Emitter;
use crate::grouping::CustomFn;
use egret_dataplane::ids::{ComponentIndex, TaskId};
use egret_dataplane::plan::{Problem, Topology};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// What makes a task on the thread that runs it.
type Make = Box<dyn Fn(Emitter) -> Runner + Send>;

/// Makes the tasks of one component. The lock is for those who run several of them in one process.
#[derive(Clone)]
pub struct Factory(Arc<Mutex<Make>>);

impl Factory {
    fn new(make: Make) -> Self {
        Self(Arc::new(Mutex::new(make)))
    }

    /// Of a spout.
    pub fn spout<S: Spout>(make: impl Fn() -> S + Send + 'static) -> Self {
        Self::new(Box::new(move |emitter| Runner::spout(make(), emitter)))
    }

    /// Of a bolt.
    pub fn bolt<B: Bolt>(make: impl Fn() -> B + Send + 'static) -> Self {
        Self::new(Box::new(move |emitter| Runner::bolt(make(), emitter)))
    }

    /// Of a basic bolt.
    pub fn basic_bolt<B: BasicBolt>(make: impl Fn() -> B + Send + 'static) -> Self {
        Self::bolt(move || Basic(make()))
    }

    /// Makes a task; to be called on the thread that runs it.
    #[must_use]
    pub fn make(&self, emitter: Emitter) -> Runner {
        let make = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        make(emitter)
    }
}

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Factory")
    }
}

/// The function of a custom grouping.
#[derive(Clone)]
pub struct CustomGrouping {
    /// The bolt that reads.
    pub reader: ComponentIndex,
    /// Which of its inputs.
    pub input: usize,
    /// The function.
    pub function: CustomFn,
}

impl fmt::Debug for CustomGrouping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomGrouping").field("reader", &self.reader).field("input", &self.input).finish()
    }
}

/// A valid topology together with the code of its components.
#[derive(Debug)]
pub struct Blueprint {
    topology: Topology,
    factories: Vec<Factory>,
    customs: Vec<CustomGrouping>,
}

impl Blueprint {
    /// A blueprint of a topology and one factory for each of its components, in order.
    ///
    /// # Errors
    /// Everything that [`Topology::validate`] finds.
    ///
    /// # Panics
    /// When there are not as many factories as components.
    pub fn new(
        topology: Topology,
        factories: Vec<Factory>,
        customs: Vec<CustomGrouping>,
    ) -> Result<Self, Vec<Problem>> {
        assert_eq!(factories.len(), topology.components.len(), "a factory for each component");
        let problems = topology.validate();
        if problems.is_empty() { Ok(Self { topology, factories, customs }) } else { Err(problems) }
    }

    /// The topology.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The functions of its custom groupings.
    #[must_use]
    pub fn customs(&self) -> &[CustomGrouping] {
        &self.customs
    }

    /// As [`factory`](Self::factory), for a process that makes just this one.
    #[must_use]
    pub fn into_factory(mut self, task: TaskId) -> Option<Factory> {
        let (component, _) = self.topology.component_of(task)?;
        let index = component.0 as usize;
        (index < self.factories.len()).then(|| self.factories.swap_remove(index))
    }

    /// What makes the component of `task`; `None` for an unknown task.
    #[must_use]
    pub fn factory(&self, task: TaskId) -> Option<&Factory> {
        let (component, _) = self.topology.component_of(task)?;
        self.factories.get(component.0 as usize)
    }
}
