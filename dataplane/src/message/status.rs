//! What the tmaster knows of a running topology, and the counters it is made of.

use super::Report;
use crate::ids::{ContainerId, Epoch, Incarnation, TaskId};
use rkyv::{Archive, Deserialize, Serialize};

/// Where a topology is in its life.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Copy, Debug, PartialEq, Eq,
)]
#[serde(rename_all = "lowercase")]
pub enum TopologyState {
    /// Processes are starting; no tuple flows.
    Starting,
    /// Tuples flow.
    Running,
    /// Spouts have been told to end.
    Draining,
    /// Every task has ended by itself.
    Completed,
    /// Every task has ended after a drain.
    Interrupted,
    /// It cannot go on.
    Failed,
    /// It was killed.
    Killed,
}

/// A topology as its tmaster sees it.
#[derive(Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq)]
pub struct TopologyStatus {
    /// The topology's name.
    pub topology: String,
    /// Where it is in its life.
    pub state: TopologyState,
    /// The epoch of its plan; 0 before there is one.
    pub epoch: Epoch,
    /// Seconds since tuples began to flow (until the end, for an ended topology).
    pub elapsed_s: f64,
    /// Every process that is known to run.
    pub processes: Vec<ProcessStatus>,
    /// Per component, in the topology's order.
    pub components: Vec<ComponentTotals>,
    /// Over all spouts.
    pub spouts: SpoutTotals,
    /// CPU seconds by role, of every process of the topology so far.
    pub cpu_s: Vec<RoleCpu>,
    /// How often processes were started again, by role.
    pub restarts: Vec<RoleRestarts>,
    /// Tuple copies handed to a task and neither executed nor still on their way. Exact once the topology ended.
    pub lost: u64,
    /// Tuples dropped, by cause.
    pub dropped: Vec<(String, u64)>,
    /// Bytes of tuples that stmgrs received from each other, and so copied into blocks. None within a container.
    pub copied_bytes: u64,
    /// Connections that stmgrs closed because of what their other end did.
    pub closed_for_fault: u64,
    /// Who is behind, and whom that holds.
    pub backpressure: BackpressureStatus,
    /// The newest reports, oldest first, a bounded number.
    pub reports: Vec<Report>,
}

/// How often tasks were so far behind that spouts were held for them, and for how long they were behind.
#[derive(
    Archive,
    Serialize,
    Deserialize,
    serde::Serialize,
    serde::Deserialize,
    Clone,
    Copy,
    Debug,
    PartialEq,
    Default,
)]
pub struct BackpressureTotals {
    /// How often spouts were held that were not held for the same task before.
    pub starts: u64,
    /// Seconds that the task which was behind for longest was over its high watermark: either spouts were held for it,
    /// or all its emitters waited for blocks that it had not consumed.
    pub time_s: f64,
}

/// See [`TopologyStatus::backpressure`].
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq, Default,
)]
pub struct BackpressureStatus {
    /// As in [`BackpressureTotals`], over all tasks.
    pub starts: u64,
    /// As in [`BackpressureTotals`].
    pub time_s: f64,
    /// The tasks that are behind now, first the one that has been for longest.
    pub tasks: Vec<SlowTask>,
}

/// A task that is behind now.
#[derive(Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq)]
pub struct SlowTask {
    /// The task.
    pub task: TaskId,
    /// What it runs.
    pub component: String,
    /// Where.
    pub container: ContainerId,
    /// For how many seconds it has been behind.
    pub for_s: f64,
    /// The spouts that are held for it; none where its emitters wait for blocks.
    pub holds: Vec<HeldSpout>,
}

/// A spout that is held.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq, Eq,
)]
pub struct HeldSpout {
    /// The task.
    pub task: TaskId,
    /// What it runs.
    pub component: String,
}

/// What a process is for.
#[allow(missing_docs)]
#[derive(
    Archive,
    Serialize,
    Deserialize,
    serde::Serialize,
    serde::Deserialize,
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
)]
#[serde(rename_all = "lowercase")]
pub enum ProcessRole {
    Executor,
    Tmaster,
    Stmgr,
    Instance,
}

/// One process.
#[derive(Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq)]
pub struct ProcessStatus {
    /// What it is for.
    pub role: ProcessRole,
    /// Its container.
    pub container: ContainerId,
    /// The task, for an instance.
    pub task: Option<TaskId>,
    /// The component, for an instance.
    pub component: Option<String>,
    /// Its process id.
    pub pid: u32,
    /// How many times it was started; 0 where that is not known.
    pub incarnation: Incarnation,
}

/// CPU time of all processes of a role.
#[derive(Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq)]
pub struct RoleCpu {
    /// The role.
    pub role: ProcessRole,
    /// User and system time in seconds.
    pub seconds: f64,
}

/// How often processes of a role were started again after a death.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq, Eq,
)]
pub struct RoleRestarts {
    /// The role.
    pub role: ProcessRole,
    /// Over all processes of that role.
    pub restarts: u64,
}

/// Cumulative counters of one process that runs a task. Read from shared memory by its stmgr.
#[derive(
    Archive,
    Serialize,
    Deserialize,
    serde::Serialize,
    serde::Deserialize,
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Default,
)]
pub struct TaskCounters {
    /// The task.
    pub task: TaskId,
    /// Which process.
    pub incarnation: Incarnation,
    /// Tuples emitted, each once however many tasks get it.
    pub emitted: u64,
    /// Tuple copies handed to tasks downstream: a tuple that three tasks get counts three times.
    pub sent: u64,
    /// Tuples taken from upstream and given to the bolt; ticks are not counted.
    pub executed: u64,
    /// Tuples acked (bolt) or tuple trees completed (spout).
    pub acked: u64,
    /// Tuples or trees failed.
    pub failed: u64,
    /// Trees timed out.
    pub timed_out: u64,
    /// Trees in flight now: a gauge, not a sum over time.
    pub pending: u64,
    /// User and system CPU time of the process, in microseconds.
    pub cpu_us: u64,
}

/// Counters of all tasks of a component.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq, Default,
)]
pub struct ComponentTotals {
    /// The component.
    pub id: String,
    /// As in [`TaskCounters`].
    pub emitted: u64,
    /// As in [`TaskCounters`].
    pub executed: u64,
    /// As in [`TaskCounters`].
    pub acked: u64,
    /// As in [`TaskCounters`].
    pub failed: u64,
    /// As in [`TaskCounters`].
    pub timed_out: u64,
    /// As in [`TaskCounters`].
    pub pending: u64,
    /// Of its tasks, as those that were behind.
    pub backpressure: BackpressureTotals,
}

/// What all spouts together have seen of their tuple trees.
#[derive(
    Archive,
    Serialize,
    Deserialize,
    serde::Serialize,
    serde::Deserialize,
    Clone,
    Debug,
    PartialEq,
    Eq,
    Default,
)]
pub struct SpoutTotals {
    /// Trees completed.
    pub acked: u64,
    /// Trees failed or timed out.
    pub failed: u64,
    /// Those of them that timed out.
    pub timed_out: u64,
    /// Trees in flight now.
    pub pending: u64,
    /// How long trees took from emission to completion.
    pub complete_latency_us: CompleteLatency,
}

/// Quantiles of the time from emission to completion, in microseconds; all `None` until a tree is complete.
#[derive(
    Archive,
    Serialize,
    Deserialize,
    serde::Serialize,
    serde::Deserialize,
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Default,
)]
pub struct CompleteLatency {
    /// Half of the trees took no longer.
    pub p50: Option<u64>,
    /// Nine of ten trees took no longer.
    pub p90: Option<u64>,
    /// 99 of 100 trees took no longer.
    pub p99: Option<u64>,
    /// 999 of 1000 trees took no longer.
    pub p999: Option<u64>,
    /// No tree took longer.
    pub max: Option<u64>,
}
