//! What the tmaster decides: events in, effects out; no sockets, no clock, no state manager.
//!
//! Its life, from the top:
//! 1. *Starting*: stmgrs register. When every container of the packing plan has one, a plan with a higher epoch is
//!    stored and sent to all of them.
//! 2. Each stmgr answers [`Message::MeshWhole`] with that epoch. When all have, the topology is *Running*.
//! 3. A stmgr that comes back, wherever it listens now, makes a new plan with a higher epoch. The others go on
//!    meanwhile under the plan that they have; the one that came back is told to run when its own mesh is whole.
//! 4. *Draining* on request: spouts end. Tasks end one by one either way; a task that ended stays ended.
//! 5. When all have ended, or on a stop request: *Stopping*. Stmgrs are told, send their last counters, say the same and close.
//! 6. *Over*: the last status is final.
//!
//! A tmaster that is restarted begins at 1 with the stored plan and the memory of the one before: stmgrs that registered
//! go on relaying, and the next epoch is higher than any that it or they know. When all tasks have ended by then it begins
//! at 5: stmgrs that have left already do not come back. One that was replaced goes on until it notices, and may stop stmgrs
//! meanwhile; what it has heard of ends counts for the one that waits for them.
//!
//! A container belongs to the stmgr with the highest incarnation that has registered for it. Incarnations go on over
//! restarts of the whole container, so an older one is a zombie: it is refused, and ends.

mod registration;

use super::memory::Memory;
use super::totals::Totals;
use egret_dataplane::ids::{ContainerId, Epoch, Incarnation, TaskId};
use egret_dataplane::message::{
    Message, ProcessRole, ProcessStatus, Report, Request, RunState, Severity, TopologyMetrics, TopologyState,
    TopologyStatus,
};
use egret_dataplane::plan::{PackingPlan, PhysicalPlan, StmgrAddress, Topology};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// How long stmgrs may take to stop: their instances get 3 s, and one heartbeat follows.
pub const STOP_DEADLINE: Duration = Duration::from_secs(5);

/// How long a stop waits for stmgrs that have not registered yet: they may be about to, and nobody tells them later.
pub const STRAGGLERS: Duration = Duration::from_secs(1);

/// How many reports a status carries.
const REPORTS_MAX: usize = 64;

/// A connection, numbered by the driver; never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PeerId(pub u64);

/// What a tmaster starts from.
#[derive(Debug)]
pub struct Setup {
    /// The topology.
    pub topology: Topology,
    /// Which task is where.
    pub packing: PackingPlan,
    /// The plan of the tmaster before this one, if there was one.
    pub stored: Option<PhysicalPlan>,
    /// What that one left.
    pub memory: Option<Memory>,
    /// The processes of container 0.
    pub processes: Vec<ProcessStatus>,
}

/// What happens to the tmaster.
#[derive(Debug)]
pub enum Event {
    /// A peer that proved the secret says something.
    Message(PeerId, Message),
    /// The connection is gone.
    Closed(PeerId),
    /// A process of the topology has used this much CPU time, in seconds.
    Cpu(ProcessRole, u32, f64),
    /// These tasks have ended, as another tmaster of the topology has heard.
    EndedElsewhere(BTreeSet<TaskId>),
    /// Time has passed.
    Tick,
}

/// What the tmaster wants done, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Say this to each of these.
    Send(Vec<PeerId>, Message),
    /// Close the connection after what was sent has gone out.
    Close(PeerId),
    /// Store the plan, unless a newer one is stored.
    Store(Box<PhysicalPlan>),
    /// This is the last status; keep it.
    Final(Box<TopologyStatus>),
    /// End the process once everything sent has gone out.
    Exit,
    /// Tell the log.
    Warn(String),
}

/// The tmaster of one topology.
#[derive(Debug)]
pub struct Tmaster {
    topology: Topology,
    plan: Option<PhysicalPlan>,
    packing: PackingPlan,
    /// The highest epoch that anyone has been heard to hold.
    epoch: Epoch,
    /// Whether a tmaster before this one made a plan, so that tuples may be flowing already.
    recovered: bool,
    phase: Phase,
    drain_wanted: bool,
    /// A task has said that it ended without all of its results.
    incomplete: bool,
    slots: BTreeMap<ContainerId, Slot>,
    peers: BTreeMap<PeerId, ContainerId>,
    watchers: BTreeSet<PeerId>,
    ended: BTreeSet<TaskId>,
    /// The stored plan lacks tasks that have ended.
    stale: bool,
    totals: Totals,
    processes: Vec<ProcessStatus>,
    reports: VecDeque<Report>,
    started: Option<Duration>,
    /// How long tuples had flowed under the tmaster before this one.
    elapsed_before: Duration,
    elapsed: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Starting,
    Running,
    Draining,
    Stopping { deadline: Duration, outcome: TopologyState },
    Over(TopologyState),
}

/// One container's stmgr.
#[derive(Debug, Default)]
struct Slot {
    peer: Option<PeerId>,
    /// A stmgr has registered with this tmaster or one before it.
    known: bool,
    /// It was told to stop, and has said that it leaves. Without that, nobody knows whether one whose connection ended has heard
    /// of it: the system closes those of a killed process in order, too.
    has_left: bool,
    incarnation: Incarnation,
    address: String,
    /// The epoch for which it said that its mesh is whole.
    mesh: Epoch,
}

impl Tmaster {
    /// A tmaster that waits for its stmgrs.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        let stored = setup.stored.as_ref();
        let memory = setup.memory.unwrap_or_default();
        let mut totals = Totals::restore(memory.totals);
        setup.processes.iter().for_each(|process| totals.seen(process));
        // A plan is made when all have registered.
        let known = stored.is_some();
        let slot = |container| Slot { incarnation: totals.newest_stmgr(container), known, ..Slot::default() };
        let slots = setup.packing.containers.iter().map(|c| (c.id, slot(c.id))).collect();
        Self {
            epoch: stored.map_or(Epoch(0), |p| p.epoch),
            recovered: stored.is_some(),
            ended: stored.into_iter().flat_map(|p| &p.ended).chain(&memory.ended).copied().collect(),
            plan: setup.stored,
            topology: setup.topology,
            packing: setup.packing,
            phase: Phase::Starting,
            drain_wanted: false,
            incomplete: memory.incomplete,
            slots,
            peers: BTreeMap::new(),
            watchers: BTreeSet::new(),
            stale: false,
            totals,
            processes: setup.processes,
            reports: memory.reports.into(),
            started: None,
            elapsed_before: memory.elapsed,
            elapsed: memory.elapsed,
        }
    }

    /// Takes in one event. `now` is the time since any fixed moment, and never falls.
    pub fn handle(&mut self, event: Event, now: Duration, effects: &mut Vec<Effect>) {
        if let (Some(started), false) = (self.started, matches!(self.phase, Phase::Over(_))) {
            self.elapsed = self.elapsed_before + now.saturating_sub(started);
        }
        match event {
            Event::Message(peer, message) => self.message(peer, message, now, effects),
            Event::Closed(peer) => self.closed(peer, now, effects),
            Event::Cpu(role, pid, seconds) => self.totals.cpu_sample(role, pid, seconds),
            // Later its stmgrs are this one's, and tell it themselves.
            Event::EndedElsewhere(tasks) => {
                let is_waiting = self.is_waiting();
                tasks.into_iter().filter(|_| is_waiting).for_each(|task| self.task_ended(task));
            }
            Event::Tick => {
                self.stop_if_all_ended(now, effects);
                self.finish_stop(now, effects);
            }
        }
    }

    /// Whether it waits for its stmgrs.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.phase == Phase::Starting
    }

    /// To be called when all events at hand are taken in: what can wait until then is done once.
    pub fn flush(&mut self, effects: &mut Vec<Effect>) {
        let Some(plan) = self.plan.as_mut().filter(|_| self.stale) else { return };
        self.stale = false;
        plan.ended = self.ended.iter().copied().collect();
        effects.push(Effect::Store(Box::new(plan.clone())));
    }

    /// What the tmaster after this one needs to know, if that has changed.
    pub fn remember(&mut self) -> Option<Memory> {
        let totals = self.totals.save_if_changed()?;
        let reports = self.reports.iter().cloned().collect();
        let ended = self.ended.iter().copied().collect();
        Some(Memory { totals, reports, ended, incomplete: self.incomplete, elapsed: self.elapsed })
    }

    /// Every process of the topology that is known.
    pub fn processes(&self) -> impl Iterator<Item = &ProcessStatus> {
        self.processes.iter().chain(self.totals.processes())
    }

    /// The topology as it stands.
    #[must_use]
    pub fn status(&self) -> TopologyStatus {
        let dropped = self.totals.dropped();
        let lost = match self.phase {
            Phase::Over(_) => self.totals.unexecuted(),
            _ => dropped.iter().map(|(_, count)| count).sum(),
        };
        TopologyStatus {
            topology: self.topology.name.clone(),
            state: self.state(),
            epoch: self.plan.as_ref().map_or(Epoch(0), |p| p.epoch),
            elapsed_s: self.elapsed.as_secs_f64(),
            processes: self.processes().cloned().collect(),
            components: self.totals.components(&self.topology),
            spouts: self.totals.spouts(&self.topology),
            cpu_s: self.totals.cpu(),
            restarts: self.totals.restarts(),
            lost,
            dropped,
            copied_bytes: self.totals.copied_bytes(),
            closed_for_fault: self.totals.closed_for_fault(),
            backpressure: self.totals.backpressure(&self.topology, &self.packing),
            reports: self.reports.iter().cloned().collect(),
        }
    }

    fn metrics(&self) -> TopologyMetrics {
        TopologyMetrics {
            topology: self.topology.name.clone(),
            state: self.state(),
            elapsed_s: self.elapsed.as_secs_f64(),
            tasks: self.totals.metrics(&self.topology, &self.packing),
        }
    }

    fn state(&self) -> TopologyState {
        match self.phase {
            Phase::Starting => TopologyState::Starting,
            Phase::Running => TopologyState::Running,
            Phase::Over(outcome) => outcome,
            Phase::Stopping { .. } if self.started.is_some() && !self.drain_wanted => TopologyState::Running,
            Phase::Draining | Phase::Stopping { .. } => TopologyState::Draining,
        }
    }

    fn run_state(&self) -> RunState {
        match self.phase {
            Phase::Starting => RunState::Paused,
            Phase::Running => RunState::Running,
            Phase::Draining => RunState::Draining,
            Phase::Stopping { .. } | Phase::Over(_) => RunState::Stopped,
        }
    }

    fn message(&mut self, peer: PeerId, message: Message, now: Duration, effects: &mut Vec<Effect>) {
        match message {
            Message::RegisterStmgr(stmgr) => self.register(peer, stmgr, now, effects),
            Message::StatusRequest => effects.push(self.status_for(vec![peer])),
            Message::Watch => {
                self.watchers.insert(peer);
                effects.push(self.status_for(vec![peer]));
            }
            Message::MetricsRequest => {
                effects.push(Effect::Send(vec![peer], Message::Metrics(Box::new(self.metrics()))));
            }
            Message::Request(request) => {
                self.request(request, now, effects);
                effects.push(Effect::Send(vec![peer], Message::Done));
            }
            other => match self.peers.get(&peer).copied() {
                Some(container) => self.stmgr_says(container, other, now, effects),
                None => {
                    effects.push(Effect::Warn(
                        "a peer spoke before it registered; its connection closes".into(),
                    ));
                    self.refuse(peer, "register first".to_owned(), effects);
                }
            },
        }
    }

    fn stmgr_says(
        &mut self,
        container: ContainerId,
        message: Message,
        now: Duration,
        effects: &mut Vec<Effect>,
    ) {
        match message {
            Message::Heartbeat(heartbeat) => self.totals.heartbeat(container, heartbeat),
            Message::MeshWhole(epoch) => self.mesh_whole(container, epoch, now, effects),
            Message::SetState(RunState::Stopped) if self.run_state() == RunState::Stopped => {
                if let Some(slot) = self.slots.get_mut(&container) {
                    slot.has_left = true;
                }
            }
            Message::TaskEnded(task) if self.packing.container_of(task) == Some(container) => {
                self.task_ended(task);
                self.stop_if_all_ended(now, effects);
            }
            Message::Latency(latency) if self.packing.container_of(latency.task) == Some(container) => {
                if let Err(error) = self.totals.latency(&latency) {
                    let task = latency.task;
                    effects.push(Effect::Warn(format!("the latencies of task {task} are ignored: {error}")));
                }
            }
            Message::UserCounters(said) if self.packing.container_of(said.task) == Some(container) => {
                self.totals.user_counters(said);
            }
            Message::Report(report) => {
                self.totals.touch();
                self.incomplete |= report.severity == Severity::Incomplete;
                if self.reports.len() == REPORTS_MAX {
                    self.reports.pop_front();
                }
                self.reports.push_back(report);
            }
            other => {
                let kind = format!("{other:?}");
                let kind = kind.split(['(', ' ']).next().unwrap_or_default();
                effects
                    .push(Effect::Warn(format!("the stmgr of container {container} said {kind}; ignored")));
            }
        }
    }

    /// Makes the next plan from the addresses at hand, and hands it out once it is stored.
    fn publish(&mut self, effects: &mut Vec<Effect>) {
        self.epoch = Epoch(self.epoch.0 + 1);
        let address = |(container, slot): (&ContainerId, &Slot)| StmgrAddress {
            container: *container,
            address: slot.address.clone(),
        };
        let plan = PhysicalPlan {
            epoch: self.epoch,
            topology: self.topology.clone(),
            packing: self.packing.clone(),
            stmgrs: self.slots.iter().map(address).collect(),
            ended: self.ended.iter().copied().collect(),
        };
        self.stale = false;
        self.plan = Some(plan.clone());
        effects.push(Effect::Store(Box::new(plan.clone())));
        effects.push(Effect::Send(self.stmgrs(), Message::Plan(Box::new(plan))));
    }

    fn mesh_whole(&mut self, container: ContainerId, epoch: Epoch, now: Duration, effects: &mut Vec<Effect>) {
        let current = self.plan.as_ref().map_or(Epoch(0), |p| p.epoch);
        let Some(slot) = self.slots.get_mut(&container).filter(|_| epoch == current) else { return };
        slot.mesh = epoch;
        let peer = slot.peer;
        match self.phase {
            Phase::Starting if self.slots.values().all(|s| s.mesh == current) => {
                let next = if self.drain_wanted { Phase::Draining } else { Phase::Running };
                self.started = Some(now);
                self.enter(next, effects);
            }
            Phase::Starting => {}
            _ => effects.push(Effect::Send(peer.into_iter().collect(), Message::SetState(self.run_state()))),
        }
    }

    fn task_ended(&mut self, task: TaskId) {
        if self.topology.component_of(task).is_some() && self.ended.insert(task) {
            self.stale = true;
            self.totals.touch();
        }
    }

    fn stop_if_all_ended(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        if self.ended.len() as u32 == self.topology.task_count() {
            let drained = self.drain_wanted;
            let outcome = if drained { TopologyState::Interrupted } else { TopologyState::Completed };
            self.stop(outcome, now, effects);
        }
    }

    fn request(&mut self, request: Request, now: Duration, effects: &mut Vec<Effect>) {
        match (request, self.phase) {
            (Request::Stop, _) => self.stop(TopologyState::Killed, now, effects),
            (Request::Drain, Phase::Running) => {
                self.drain_wanted = true;
                self.enter(Phase::Draining, effects);
            }
            // Nothing has flowed yet, so there is nothing to drain.
            (Request::Drain, Phase::Starting) if !self.recovered => {
                self.drain_wanted = true;
                self.stop(TopologyState::Interrupted, now, effects);
            }
            (Request::Drain, Phase::Starting) => self.drain_wanted = true,
            (Request::Drain, Phase::Draining | Phase::Stopping { .. } | Phase::Over(_)) => {}
        }
    }

    fn stop(&mut self, outcome: TopologyState, now: Duration, effects: &mut Vec<Effect>) {
        if self.run_state() != RunState::Stopped {
            self.enter(Phase::Stopping { deadline: now + STOP_DEADLINE, outcome }, effects);
            self.finish_stop(now, effects);
        }
    }

    /// Ends the topology when every stmgr has left, or is too late.
    fn finish_stop(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        let Phase::Stopping { deadline, outcome } = self.phase else { return };
        let straggling = now + STOP_DEADLINE < deadline + STRAGGLERS;
        // One that registered and is away at the moment is told when it comes back.
        let open = |slot: &Slot| slot.peer.is_some() || (!slot.has_left && (slot.known || straggling));
        if now < deadline && self.slots.values().any(open) {
            return;
        }
        // Only now: what a task says of its end may come after the word that it has ended, but before its stmgr closes.
        let failed = self.incomplete && outcome != TopologyState::Killed;
        self.phase = Phase::Over(if failed { TopologyState::Failed } else { outcome });
        effects.push(Effect::Final(Box::new(self.status())));
        effects.push(self.status_for(self.watchers.iter().copied().collect()));
        effects.push(Effect::Exit);
    }

    /// Changes the phase and tells all who must know.
    fn enter(&mut self, phase: Phase, effects: &mut Vec<Effect>) {
        let before = self.state();
        self.phase = phase;
        effects.push(Effect::Send(self.stmgrs(), Message::SetState(self.run_state())));
        if self.state() != before && !self.watchers.is_empty() {
            effects.push(self.status_for(self.watchers.iter().copied().collect()));
        }
    }

    fn closed(&mut self, peer: PeerId, now: Duration, effects: &mut Vec<Effect>) {
        self.watchers.remove(&peer);
        let Some(container) = self.peers.remove(&peer) else { return };
        if let Some(slot) = self.slots.get_mut(&container).filter(|slot| slot.peer == Some(peer)) {
            slot.peer = None;
            self.totals.stmgr_gone(container);
        }
        self.finish_stop(now, effects);
    }

    fn stmgrs(&self) -> Vec<PeerId> {
        self.slots.values().filter_map(|slot| slot.peer).collect()
    }

    fn status_for(&self, peers: Vec<PeerId>) -> Effect {
        Effect::Send(peers, Message::Status(Box::new(self.status())))
    }
}

#[cfg(test)]
#[path = "core_tests.rs"]
mod tests;
