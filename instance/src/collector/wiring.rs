//! Builds an emitter's streams, readers and lanes from the physical plan.

use super::StreamInfo;
use super::emitter::{OutStream, StreamReader};
use super::lanes::Lanes;
use crate::grouping::{Chooser, Reader};
use crate::topology::CustomGrouping;
use egret_dataplane::frame::Destination;
use egret_dataplane::ids::{ComponentIndex, ContainerId, StreamIndex, TaskId};
use egret_dataplane::plan::{Broadcast, Component, Input, PhysicalPlan};

/// Why there can be no emitter for a task.
#[derive(thiserror::Error, Clone, Debug, PartialEq, Eq)]
pub enum EmitterError {
    /// The plan does not know the task.
    #[error("the physical plan has no task {0}")]
    UnknownTask(TaskId),
    /// The plan is not one that the validator accepts, or is not this program's.
    #[error(
        "the grouping of `{reader}` on stream `{stream}` cannot be made from the plan; is this the program that was submitted?"
    )]
    Grouping {
        /// The bolt that reads.
        reader: String,
        /// The stream.
        stream: String,
    },
}

pub(super) struct Wiring<'a> {
    plan: &'a PhysicalPlan,
    task: TaskId,
    index: ComponentIndex,
    container: Option<ContainerId>,
    broadcasts: Vec<Broadcast>,
    customs: &'a [CustomGrouping],
    seed: u64,
    lanes: &'a mut Lanes,
}

impl<'a> Wiring<'a> {
    pub(super) fn new(
        plan: &'a PhysicalPlan,
        task: TaskId,
        customs: &'a [CustomGrouping],
        seed: u64,
        lanes: &'a mut Lanes,
    ) -> Result<Self, EmitterError> {
        let (index, _) = plan.topology.component_of(task).ok_or(EmitterError::UnknownTask(task))?;
        let container = plan.packing.container_of(task);
        let broadcasts = plan.topology.broadcasts();
        Ok(Self { plan, task, index, container, broadcasts, customs, seed, lanes })
    }

    pub(super) fn component(&self) -> &'a Component {
        &self.plan.topology.components[self.index.0 as usize]
    }

    pub(super) fn streams(&mut self) -> Result<Vec<OutStream>, EmitterError> {
        let component = self.component();
        let mut streams = Vec::with_capacity(component.outputs.len());
        for (i, stream) in component.outputs.iter().enumerate() {
            let info = StreamInfo::new(&component.id, stream);
            let readers = self.readers(&info, StreamIndex(i as u16))?;
            streams.push(OutStream { info, readers });
        }
        Ok(streams)
    }

    fn readers(&mut self, info: &StreamInfo, stream: StreamIndex) -> Result<Vec<StreamReader>, EmitterError> {
        let plan = self.plan;
        let mut readers = Vec::new();
        for (r, reader) in plan.topology.components.iter().enumerate() {
            for (i, input) in reader.inputs.iter().enumerate() {
                if input.from == info.component() && input.stream == info.name() {
                    let reader = ComponentIndex(r as u16);
                    readers.push(self.reader(info, stream, (reader, i, input))?);
                }
            }
        }
        Ok(readers)
    }

    fn reader(
        &mut self,
        info: &StreamInfo,
        stream: StreamIndex,
        (reader, position, input): (ComponentIndex, usize, &Input),
    ) -> Result<StreamReader, EmitterError> {
        let tasks: Vec<TaskId> = self.plan.topology.tasks(reader).map(TaskId).collect();
        let custom = self.customs.iter().find(|c| (c.reader, c.input) == (reader, position));
        let parts = Reader {
            tasks: &tasks,
            local: &self.local(&tasks),
            schema: info.layout().schema(),
            custom: custom.map(|c| c.function.clone()),
            // Each reader's round robin has a start of its own.
            seed: self.seed ^ u64::from(reader.0) << 48 ^ (position as u64) << 32 ^ u64::from(self.task.0),
        };
        let chooser = Chooser::new(&input.grouping, parts).ok_or_else(|| EmitterError::Grouping {
            reader: self.plan.topology.components[reader.0 as usize].id.clone(),
            stream: info.name().to_owned(),
        })?;
        let first_lane = self.lanes.count();
        match chooser {
            Chooser::All(_) => {
                let tasks = self.plan.topology.tasks(reader);
                self.lanes.add(self.broadcast(stream, reader), stream, tasks);
            }
            _ => {
                for task in tasks {
                    self.lanes.add(Destination::Task(task), stream, task.0..task.0 + 1);
                }
            }
        }
        Ok(StreamReader { chooser, first_lane, chosen: 0 })
    }

    /// The indices of the tasks that share the emitter's container.
    fn local(&self, tasks: &[TaskId]) -> Vec<usize> {
        let here = |task: &TaskId| {
            self.container.is_some() && self.plan.packing.container_of(*task) == self.container
        };
        tasks.iter().enumerate().filter(|(_, task)| here(task)).map(|(i, _)| i).collect()
    }

    fn broadcast(&self, stream: StreamIndex, to: ComponentIndex) -> Destination {
        let this = Broadcast { from: self.index, stream, to };
        let number = self.broadcasts.iter().position(|b| *b == this);
        // Every input with this grouping is in the list, by construction of the list.
        Destination::Broadcast(number.unwrap_or_default() as u32)
    }
}
