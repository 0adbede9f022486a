//! What the stmgr counts: tuples it had to drop, by cause, and bytes it had to copy.

use crate::message::Heartbeat;

/// Why tuples were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// They had been handed to an instance that died before it executed them.
    InstanceDied,
    /// They were for a task that had said that it ended.
    TaskEnded,
    /// Too much waited for their task, and the topology drops what is too much.
    Backpressure,
    /// They came over the network in a batch that does not hold together.
    Malformed,
    /// These are no tuples, but acks, fails or losses that came so; the trees time out.
    MalformedAcks,
}

impl Cause {
    const ALL: [Self; 5] =
        [Self::InstanceDied, Self::TaskEnded, Self::Backpressure, Self::Malformed, Self::MalformedAcks];

    /// The name in heartbeats and in `egret status`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::InstanceDied => "instance_died",
            Self::TaskEnded => "task_ended",
            Self::Backpressure => "backpressure",
            Self::Malformed => "malformed_batch",
            Self::MalformedAcks => "malformed_acks",
        }
    }
}

/// Cumulative counters of one stmgr process.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    dropped: [u64; Cause::ALL.len()],
    /// Bytes of tuple data received from peers and copied into blocks. Local relay adds nothing.
    pub copied_bytes: u64,
    /// Blocks of acks, fails or losses for a spout whose process is gone, or which has ended.
    pub void_acks: u64,
    /// Connections closed because of what their other end did.
    pub closed_for_fault: u64,
}

impl Counters {
    /// Counts tuples that nobody will get.
    pub fn drop_tuples(&mut self, cause: Cause, tuples: u64) {
        self.dropped[cause as usize] += tuples;
    }

    /// Tuples dropped so far for this cause.
    #[must_use]
    pub fn dropped(&self, cause: Cause) -> u64 {
        self.dropped[cause as usize]
    }

    /// Fills in the stmgr's own part of a heartbeat.
    pub fn report(&self, heartbeat: &mut Heartbeat) {
        let counted = Cause::ALL.into_iter().filter(|&cause| self.dropped(cause) > 0);
        heartbeat.dropped = counted.map(|cause| (cause.name().to_owned(), self.dropped(cause))).collect();
        heartbeat.copied_bytes = self.copied_bytes;
        heartbeat.closed_for_fault = self.closed_for_fault;
    }
}
