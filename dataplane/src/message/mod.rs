//! The control protocol: one set of rkyv messages for every conversation.
//!
//! A message travels as the body of a [`Control`](crate::net::link::FrameKind::Control) frame. Who says what to whom:
//!
//! | message | from | to |
//! |---|---|---|
//! | [`Message::RegisterInstance`] | instance | stmgr |
//! | [`Message::InstanceAccepted`] | stmgr | instance, with the file descriptors beside it |
//! | [`Message::RegisterStmgr`] | stmgr | tmaster, once all its instances have registered |
//! | [`Message::Refused`] | whoever was asked | whoever asked; the connection closes |
//! | [`Message::Plan`] | tmaster | stmgr, and stmgr to instance |
//! | [`Message::MeshWhole`] | stmgr | tmaster, once it is linked with every peer of the plan |
//! | [`Message::SetState`] | tmaster | stmgr, and stmgr to instance; *stopped* also stmgr to tmaster, when it leaves |
//! | [`Message::Heartbeat`] | stmgr | tmaster, every second and before it ends |
//! | [`Message::TaskEnded`] | stmgr | tmaster |
//! | [`Message::Report`] | instance | stmgr, and stmgr to tmaster |
//! | [`Message::Latency`] | spout instance | stmgr, and stmgr to tmaster |
//! | [`Message::UserCounters`] | instance | stmgr, and stmgr to tmaster |
//! | [`Message::HelloPeer`] | stmgr | stmgr, first thing on a link, both ways |
//! | [`Message::Backpressure`] | stmgr | stmgr, when it changes, on a new link, and every second |
//! | [`Message::FailAll`] | stmgr | stmgr, when tuples are gone that nobody can name, or once linked again |
//! | [`Message::StatusRequest`], [`Message::Watch`], [`Message::MetricsRequest`], [`Message::Request`] | client | tmaster |
//! | [`Message::Status`], [`Message::Metrics`], [`Message::Done`] | tmaster | client |

mod metrics;
mod status;

pub use metrics::{MAX_COUNTER_NAME_BYTES, MAX_USER_COUNTERS, TaskMetrics, TopologyMetrics, UserCounters};
pub use status::{
    BackpressureStatus, BackpressureTotals, CompleteLatency, ComponentTotals, HeldSpout, ProcessRole,
    ProcessStatus, RoleCpu, RoleRestarts, SlowTask, SpoutTotals, TaskCounters, TopologyState, TopologyStatus,
};

use crate::ids::{ContainerId, Epoch, Incarnation, TaskId};
use crate::plan::PhysicalPlan;
use rkyv::{Archive, Deserialize, Serialize};

/// Bumped whenever a message or a frame changes its layout; both ends of a connection must agree.
pub const PROTOCOL_VERSION: u32 = 4;

/// Everything that is said on a control connection.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq)]
pub enum Message {
    /// An instance introduces itself to its stmgr.
    RegisterInstance(RegisterInstance),
    /// The stmgr takes the instance. With it come three file descriptors: the pool, the channel and the
    /// eventfd that wakes the stmgr.
    InstanceAccepted(InstanceAccepted),
    /// A stmgr introduces itself to the tmaster.
    RegisterStmgr(RegisterStmgr),
    /// The request was refused; one sentence for a person says why.
    Refused(String),
    /// The physical plan to route by.
    Plan(Box<PhysicalPlan>),
    /// All links of the plan of this epoch stand.
    MeshWhole(Epoch),
    /// What instances should do now; of a stmgr, that it leaves.
    SetState(RunState),
    /// A stmgr's regular report.
    Heartbeat(Heartbeat),
    /// A task has emitted its last tuple and its end-of-stream has gone out.
    TaskEnded(TaskId),
    /// Something a person should know of a task.
    Report(Report),
    /// How long the tuple trees of a spout took, so far.
    Latency(Latency),
    /// What the user code of a task has counted, so far.
    UserCounters(UserCounters),
    /// A stmgr introduces itself to a peer.
    HelloPeer(HelloPeer),
    /// A stmgr tells a peer for which tasks spouts are to be held.
    Backpressure(Backpressure),
    /// A stmgr tells a peer that tuples are gone which nobody can name: these spouts of the peer fail all in flight.
    FailAll(Vec<TaskId>),
    /// Asks for a [`Message::Status`].
    StatusRequest,
    /// Asks for a [`Message::Status`] now, and again at every change of [`TopologyStatus::state`].
    Watch,
    /// The answer.
    Status(Box<TopologyStatus>),
    /// Asks for a [`Message::Metrics`].
    MetricsRequest,
    /// The answer.
    Metrics(Box<TopologyMetrics>),
    /// Asks the tmaster to act.
    Request(Request),
    /// It was done, or begun.
    Done,
}

/// See [`Message::HelloPeer`].
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelloPeer {
    /// The sender's container.
    pub container: ContainerId,
    /// Tells apart the processes that may have this container's number; a higher one is the newer.
    pub incarnation: Incarnation,
}

/// See [`Message::Backpressure`]: all tasks for which the sender wants spouts held. It replaces what the sender said
/// before on the same link.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Backpressure {
    /// Grows with each change. The same set, stated again, has the same version.
    pub version: u64,
    /// Each task once.
    pub holders: Vec<Holder>,
}

/// A task that is so far behind that the spouts above it are held.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The task.
    pub task: TaskId,
    /// For how long the sender has wanted them held, in milliseconds.
    pub for_ms: u64,
}

/// What a client can ask of the tmaster.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Spouts end, everything in flight is executed, the topology completes as *interrupted*.
    Drain,
    /// Every process ends now.
    Stop,
}

/// See [`Message::RegisterInstance`].
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct RegisterInstance {
    /// [`PROTOCOL_VERSION`].
    pub version: u32,
    /// The topology's name.
    pub topology: String,
    /// The task it runs.
    pub task: TaskId,
    /// Which process for that task.
    pub incarnation: Incarnation,
    /// Its process id.
    pub pid: u32,
    /// The task had ended in this process already; it registers because its stmgr is a new one.
    pub ended: bool,
}

/// See [`Message::InstanceAccepted`].
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct InstanceAccepted {
    /// The container they are in.
    pub container: ContainerId,
    /// This task has ended in an earlier process: do not run it again.
    pub ended: bool,
}

/// See [`Message::RegisterStmgr`].
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct RegisterStmgr {
    /// [`PROTOCOL_VERSION`].
    pub version: u32,
    /// The topology's name.
    pub topology: String,
    /// Its container.
    pub container: ContainerId,
    /// Which process for that container.
    pub incarnation: Incarnation,
    /// Where its peers reach it, `HOST:PORT`.
    pub address: String,
    /// The epoch of the plan that it holds; 0 for none.
    pub epoch: Epoch,
    /// Local tasks that have ended.
    pub ended: Vec<TaskId>,
}

/// Whether tuples flow.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// Not yet, or not now: spouts do not emit.
    Paused,
    /// Spouts emit.
    Running,
    /// Spouts take themselves as exhausted.
    Draining,
    /// The topology is over: instances clean up and exit 0, then stmgrs exit 0.
    Stopped,
}

/// See [`Message::Heartbeat`].
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Default)]
pub struct Heartbeat {
    /// Cumulative counters of each local task's present process.
    pub tasks: Vec<TaskCounters>,
    /// The processes of the container.
    pub processes: Vec<ProcessStatus>,
    /// Tuples this stmgr had to drop since it started, by cause.
    pub dropped: Vec<(String, u64)>,
    /// Bytes of received tuple data copied since it started; local relay adds nothing here.
    pub copied_bytes: u64,
    /// Connections that this stmgr closed since it started because of what their other end did.
    pub closed_for_fault: u64,
    /// Tasks, here or at peers, that were or are behind with what this stmgr has for them.
    pub pressure: Vec<TaskPressure>,
    /// Local spouts that are held at the moment.
    pub held: Vec<TaskId>,
}

/// What a stmgr has seen of a task that is behind, or was, since this stmgr started.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Copy, Debug, PartialEq, Eq,
)]
pub struct TaskPressure {
    /// The task.
    pub task: TaskId,
    /// How often this stmgr was the one that began to hold spouts for it.
    pub starts: u64,
    /// How long it was over its high watermark, up to now, in microseconds.
    pub behind_us: u64,
    /// For how long it has been now; `None` when it is not.
    pub behind_for_ms: Option<u64>,
    /// Whether this stmgr has spouts held for it now.
    pub holds: bool,
}

/// See [`Message::Latency`]. It replaces what the same process said before.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Latency {
    /// The spout's task.
    pub task: TaskId,
    /// Its process.
    pub incarnation: Incarnation,
    /// An HDR histogram in its V2 serialization, of microseconds from emission to completion over all trees that
    /// this process saw complete; at most [`MAX_HISTOGRAM_BYTES`].
    pub histogram: Vec<u8>,
}

/// The longest histogram of a [`Latency`]. One from 1 µs to 1 h with two significant digits has 3,600 counts, of
/// which each takes 9 bytes at most.
pub const MAX_HISTOGRAM_BYTES: usize = 64 << 10;

/// See [`Message::Report`].
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Debug, PartialEq, Eq,
)]
pub struct Report {
    /// The component.
    pub component: String,
    /// The task.
    pub task: TaskId,
    /// How bad it is.
    pub severity: Severity,
    /// What user code or the runtime said.
    pub message: String,
}

/// How bad a [`Report`] is.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, serde::Deserialize, Clone, Copy, Debug, PartialEq, Eq,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Warning,
    /// A tuple failed.
    Error,
    /// The instance ended; it is started again.
    Fatal,
    /// The task ended without all of its results: the topology fails.
    Incomplete,
}

/// Why bytes are no message.
#[derive(thiserror::Error, Debug)]
#[error("not a valid control message: {0}")]
pub struct DecodeError(String);

impl Message {
    /// The bytes of this message.
    ///
    /// # Panics
    /// Never: serializing to memory cannot fail.
    #[must_use]
    pub fn encode(&self) -> bytes::Bytes {
        match rkyv::to_bytes::<rkyv::rancor::Error>(self) {
            Ok(bytes) => bytes::Bytes::from(bytes.into_vec()),
            Err(error) => unreachable!("a message serializes to memory: {error}"),
        }
    }

    /// Reads a message and checks all of it.
    ///
    /// # Errors
    /// [`DecodeError`] when the bytes are not exactly one valid message.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut aligned = rkyv::util::AlignedVec::<16>::with_capacity(bytes.len());
        aligned.extend_from_slice(bytes);
        rkyv::from_bytes::<Self, rkyv::rancor::Error>(&aligned).map_err(|e| DecodeError(e.to_string()))
    }
}
