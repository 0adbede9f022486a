//! Who holds spouts: the tasks that are behind, here and at the peers.
//!
//! A task is *behind* while it is over its high watermark at some place of this container. The stmgr then makes it a
//! *holder*, and says so to all peers; it stops being one as soon as it is no longer behind anywhere here:
//!
//! ```text
//!          over           2 s since the last start
//!   Calm ───────▶ Behind ─────────────────────────▶ Holding
//!    ▲              │                                  │
//!    └──────────────┴──────── under, everywhere ───────┘
//! ```
//!
//! A start comes no sooner than 2 s after the last one of the same task, whoever made that: so its starts and stops
//! are one a second at most. Until then the quotas hold its emitters back, which costs neither memory nor speed. Where
//! some stmgr holds spouts for the task already, joining in changes nothing for them, and only waits for 2 s after this
//! stmgr's own last start: so the first to recover does not release what another still needs held. A stmgr that has no
//! more than a queue for the task leaves the start to the task's own stmgr, which sees the same, for 100 ms.
//!
//! Each stmgr states its whole set, again and again: so a statement that got lost does no lasting harm. The set of a
//! peer counts until the link with it is gone.

use super::bits::Bits;
use super::route::Peer;
use crate::ids::TaskId;
use crate::message::{Backpressure, Holder, TaskPressure};
use crate::mutants::{self, Mutant};
use std::collections::BTreeSet;
use std::time::Duration;

/// The least time between two starts of one task.
pub const START_INTERVAL: Duration = Duration::from_secs(2);

/// How long a stmgr leaves a start to the stmgr of the task.
pub const REMOTE_PATIENCE: Duration = Duration::from_millis(100);

/// How often each stmgr states its holders, once it has had one.
pub const RESTATE_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Calm,
    Behind,
    Holding,
}

#[derive(Clone, Debug, Default)]
struct Task {
    phase: Phase,
    is_local: bool,
    /// At how many places it is over.
    places: u32,
    /// When it got behind.
    since: Duration,
    /// When this stmgr last made it a holder.
    own_start: Option<Duration>,
    /// When any stmgr last began to hold spouts for it that were not held for it before.
    last_start: Option<Duration>,
    starts: u64,
    /// How long it had been behind before it got behind last.
    behind: Duration,
}

#[derive(Clone, Debug)]
struct PeerSet {
    version: u64,
    holders: Bits,
}

/// The state of it. Time is the time since any fixed moment, and never falls.
#[derive(Debug)]
pub struct Pressure {
    /// By task id.
    tasks: Vec<Task>,
    /// Tasks that are not calm.
    troubled: Bits,
    peers: Vec<PeerSet>,
    /// Nothing is held: what is too much is dropped instead.
    drop: bool,
    version: u64,
    restate_at: Duration,
    /// When there is something to see to.
    due: Option<Duration>,
    own_changed: bool,
    any_changed: bool,
}

/// What is to be done after a [`Pressure::turn`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Turn {
    /// The set of this stmgr is to be stated to all peers.
    pub state: bool,
    /// Whoever is to be held is to be worked out anew.
    pub holders_changed: bool,
}

impl Pressure {
    /// All calm; of the tasks up to `max_task` these are local.
    #[must_use]
    pub fn new(max_task: u32, local: &[TaskId], peers: usize, drop: bool) -> Self {
        let none = PeerSet { version: 0, holders: Bits::new(max_task as usize + 1) };
        let mut tasks = vec![Task::default(); max_task as usize + 1];
        local.iter().for_each(|task| tasks[task.0 as usize].is_local = true);
        Self {
            tasks,
            troubled: Bits::new(max_task as usize + 1),
            peers: vec![none; peers],
            drop,
            version: 0,
            restate_at: Duration::ZERO,
            due: None,
            own_changed: false,
            any_changed: false,
        }
    }

    /// `task` has gone over its high watermark at one more place, or has come back at one.
    pub fn set(&mut self, id: TaskId, over: bool, now: Duration) {
        self.due = Some(Duration::ZERO);
        let task = &mut self.tasks[id.0 as usize];
        if over {
            task.places += 1;
            if task.phase == Phase::Calm {
                (task.phase, task.since) = (Phase::Behind, now);
                self.troubled.insert(id.0 as usize);
            }
            return;
        }
        task.places -= 1;
        if task.places == 0 {
            task.behind += now.saturating_sub(task.since);
            let phase = std::mem::take(&mut task.phase);
            self.troubled.remove(id.0 as usize);
            self.own_changed |= phase == Phase::Holding;
        }
    }

    /// Sees to what is due at this time.
    pub fn turn(&mut self, now: Duration) -> Turn {
        let mut from = 0;
        while let Some(at) = self.troubled.first_from(from).filter(|_| !self.drop) {
            let id = TaskId(at as u32);
            if self.start_at(id).is_some_and(|at| at <= now) {
                self.start(id, now);
            }
            from = at + 1;
        }
        if std::mem::take(&mut self.own_changed) {
            self.version += 1;
            self.any_changed = true;
            if !mutants::is(Mutant::StatementLate) {
                self.restate_at = now;
            }
        }
        let state = self.version > 0 && self.restate_at <= now;
        if state {
            self.restate_at = now + RESTATE_INTERVAL;
        }
        let behind = self.troubled.iter().filter(|_| !self.drop);
        let starts = behind.filter_map(|id| self.start_at(TaskId(id as u32)));
        self.due = starts.chain((self.version > 0).then_some(self.restate_at)).min();
        Turn { state, holders_changed: std::mem::take(&mut self.any_changed) }
    }

    /// When a task that is behind may become a holder.
    fn start_at(&self, id: TaskId) -> Option<Duration> {
        let task = &self.tasks[id.0 as usize];
        if task.phase != Phase::Behind {
            return None;
        }
        if self.peers_hold(id) {
            return Some(task.own_start.map_or(task.since, |last| last + START_INTERVAL));
        }
        let last = task.own_start.max(task.last_start);
        let may = last.map_or(task.since, |last| task.since.max(last + START_INTERVAL));
        Some(if task.is_local { may } else { may + REMOTE_PATIENCE })
    }

    fn start(&mut self, id: TaskId, now: Duration) {
        let joins = self.peers_hold(id);
        let task = &mut self.tasks[id.0 as usize];
        (task.phase, task.own_start) = (Phase::Holding, Some(now));
        if !joins {
            task.last_start = Some(now);
            task.starts += 1;
        }
        self.own_changed = true;
    }

    fn peers_hold(&self, task: TaskId) -> bool {
        self.peers.iter().any(|peer| peer.holders.contains(task.0 as usize))
    }

    /// How many tasks it is about, by task id.
    pub(super) fn task_count(&self) -> usize {
        self.tasks.len()
    }

    /// Whether spouts are held for what a peer has stated.
    pub(super) fn is_told_by(&self, peer: Peer) -> bool {
        self.peers[peer.at()].holders.iter().next().is_some()
    }

    /// Whether nothing has changed since the last turn.
    pub(super) fn is_settled(&self) -> bool {
        !self.own_changed && !self.any_changed
    }

    /// Whether it takes each task to be over at so many places.
    pub(super) fn audit(&self, places: &[u32]) -> Result<(), String> {
        for (id, (task, &places)) in self.tasks.iter().zip(places).enumerate() {
            let calm = task.phase == Phase::Calm;
            let is_listed = self.troubled.contains(id);
            if task.places != places || calm != (places == 0) || is_listed == calm {
                return Err(format!("task {id} is over at {places} places, and this is known: {task:?}"));
            }
        }
        Ok(())
    }

    /// When [`turn`](Self::turn) is to be called, if ever.
    #[inline]
    #[must_use]
    pub fn due(&self) -> Option<Duration> {
        self.due
    }

    /// A peer states its whole set. One that is older than what it stated before changes nothing.
    pub fn stated(&mut self, peer: Peer, statement: &Backpressure, now: Duration) {
        let set = &mut self.peers[peer.at()];
        if statement.version < set.version {
            return;
        }
        let mut holders = Bits::new(self.tasks.len());
        for &Holder { task, for_ms } in &statement.holders {
            holders.insert(task.0 as usize);
            let since = now.saturating_sub(Duration::from_millis(for_ms));
            let task = &mut self.tasks[task.0 as usize];
            task.last_start = task.last_start.max(Some(since));
        }
        self.any_changed |= set.holders != holders;
        self.due = Some(Duration::ZERO);
        *set = PeerSet { version: statement.version, holders };
    }

    /// The link with a peer is gone, and what it stated with it.
    pub fn forget(&mut self, peer: Peer) {
        let present = self.peers[peer.at()].version;
        let version = if mutants::is(Mutant::VersionKept) { present } else { 0 };
        let none = PeerSet { version, holders: Bits::new(self.tasks.len()) };
        let set = std::mem::replace(&mut self.peers[peer.at()], none);
        self.any_changed |= set.holders.iter().next().is_some();
        self.due = Some(Duration::ZERO);
    }

    /// Whether this stmgr has ever stated a set.
    #[must_use]
    pub fn has_stated(&self) -> bool {
        self.version > 0
    }

    /// What this stmgr states.
    #[must_use]
    pub fn statement(&self, now: Duration) -> Backpressure {
        let holders = self.own_holders().map(|(task, state)| {
            let started = state.own_start.unwrap_or(now);
            Holder { task, for_ms: now.saturating_sub(started).as_millis() as u64 }
        });
        Backpressure { version: self.version, holders: holders.collect() }
    }

    /// How often the set of this stmgr has changed.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// The tasks for which this stmgr says that spouts are to be held.
    pub(super) fn own(&self) -> Vec<TaskId> {
        self.own_holders().map(|(task, _)| task).collect()
    }

    /// The tasks of which `peer` has said that.
    pub(super) fn told_by(&self, peer: Peer) -> Vec<TaskId> {
        self.peers[peer.at()].holders.iter().map(|task| TaskId(task as u32)).collect()
    }

    fn own_holders(&self) -> impl Iterator<Item = (TaskId, &Task)> {
        let troubled = self.troubled.iter().map(|id| (TaskId(id as u32), &self.tasks[id]));
        troubled.filter(|(_, task)| task.phase == Phase::Holding)
    }

    /// The tasks for which spouts are held, by anyone.
    #[must_use]
    pub fn holders(&self) -> BTreeSet<TaskId> {
        let peers = self.peers.iter().flat_map(|peer| peer.holders.iter()).map(|task| TaskId(task as u32));
        self.own_holders().map(|(task, _)| task).chain(peers).collect()
    }

    /// What this stmgr has seen of each task that is behind, or has been.
    #[must_use]
    pub fn report(&self, now: Duration) -> Vec<TaskPressure> {
        let seen = |task: &Task| task.phase != Phase::Calm || task.starts > 0 || !task.behind.is_zero();
        let tasks = self.tasks.iter().enumerate().filter(|(_, task)| seen(task));
        let report = |(id, task): (usize, &Task)| {
            let present = (task.phase != Phase::Calm).then(|| now.saturating_sub(task.since));
            TaskPressure {
                task: TaskId(id as u32),
                starts: task.starts,
                behind_us: (task.behind + present.unwrap_or_default()).as_micros() as u64,
                behind_for_ms: present.map(|present| present.as_millis() as u64),
                holds: task.phase == Phase::Holding,
            }
        };
        tasks.map(report).collect()
    }
}

#[cfg(test)]
mod tests;
