//! The tmaster's process: reads the state, claims the topology, and turns between the connections and the core.

use super::core::{Effect, Event, PeerId, Setup, Tmaster};
use super::cpu;
use super::memory::Memory;
use super::server::Server;
use crate::executor::Starts;
use crate::layout::{ContainerDir, ProcessName, WorkDir};
use crate::state::{Ephemeral, Execution, ExecutionMode, State, StateError, TmasterLocation};
use anyhow::{Context as _, anyhow, bail};
use egret_dataplane::host;
use egret_dataplane::ids::{ContainerId, Incarnation, TaskId};
use egret_dataplane::message::{ProcessRole, ProcessStatus, TopologyState, TopologyStatus};
use egret_dataplane::net::handshake::Secret;
use egret_dataplane::plan::PhysicalPlan;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often time is told to the core, and CPU time is looked at.
const TICK: Duration = Duration::from_millis(500);
/// How long the tmaster before this one may still be seen to live.
const CLAIM_PATIENCE: Duration = Duration::from_secs(5);
/// How often what is counted is stored for the next tmaster, while it changes.
const REMEMBER_EVERY: Duration = Duration::from_secs(1);
/// How often the claim is looked at: an entry that somebody removed is made again.
const CLAIM_EVERY: Duration = Duration::from_secs(2);
/// How long peers may take to close after the last message.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long to wait for somebody who starts or ends the same topology at this moment.
const REMOVE_PATIENCE: Duration = Duration::from_secs(5);

/// What a tmaster is told on its command line.
#[derive(Clone, Debug)]
pub struct TmasterOptions {
    /// The state that holds the topology.
    pub state_url: String,
    /// The topology's name.
    pub topology: String,
    /// Which process for this role.
    pub incarnation: Incarnation,
}

/// Everything around the core.
struct Driver {
    state: State,
    name: String,
    execution: Execution,
    location: TmasterLocation,
    claim: Option<Ephemeral>,
    claim_checked: Instant,
    remembered: Instant,
    server: Server,
    tmaster: Tmaster,
    begun: Instant,
    /// Processes without counters of their own, whose CPU time is looked at from here.
    sampled: Vec<(ProcessRole, u32)>,
    outcome: Option<TopologyState>,
}

/// Runs the tmaster until its topology has ended.
///
/// # Errors
/// When the topology is not in the state, another tmaster lives, or the state or the network fails. Its executor
/// starts it again.
pub fn run(options: &TmasterOptions) -> anyhow::Result<ExitCode> {
    run_in(State::open(&options.state_url)?, options)
}

/// The same in a state that is open already.
///
/// # Errors
/// As [`run`].
pub fn run_in(state: State, options: &TmasterOptions) -> anyhow::Result<ExitCode> {
    let mut driver = Driver::open(state, options)?;
    tracing::info!("tmaster of `{}` listens at {}", driver.name, driver.location.address);
    while driver.outcome.is_none() {
        driver.turn()?;
    }
    driver.farewell()?;
    Ok(ExitCode::SUCCESS)
}

impl Driver {
    fn open(state: State, options: &TmasterOptions) -> anyhow::Result<Self> {
        let name = options.topology.clone();
        let absent = || anyhow!("topology `{name}` is not in {}", options.state_url);
        let execution = state.execution(&name)?.ok_or_else(absent)?;
        let topology = state.topology(&name)?.ok_or_else(absent)?;
        let packing = state.packing_plan(&name)?.ok_or_else(absent)?;
        let secret = Secret::from_hex(&execution.secret)
            .ok_or_else(|| anyhow!("the execution of `{name}` in {} holds no valid secret", state.url()))?;
        let (server, address) = Server::open(secret).context("cannot listen on the loopback")?;
        let location = TmasterLocation { address: address.to_string(), pid: std::process::id() };
        let claim = claim(&state, &name, &location)?;
        // Read after the claim: nobody else stores a plan from now on.
        let stored = state.physical_plan(&name)?;
        if let Some(plan) = &stored {
            tracing::info!("goes on from the stored plan of epoch {}", plan.epoch);
        }
        let container = WorkDir::at(&execution.work_dir).container(ContainerId(0));
        let memory = Memory::read(&container.tmaster_memory());
        let processes = own_processes(&container, options.incarnation);
        let now = host::now();
        Ok(Self {
            tmaster: Tmaster::new(Setup { topology, packing, stored, memory, processes }),
            claim: Some(claim),
            claim_checked: now,
            remembered: now,
            begun: now,
            sampled: Vec::new(),
            outcome: None,
            state,
            name,
            execution,
            location,
            server,
        })
    }

    /// Waits for something to happen, and sees to it.
    fn turn(&mut self) -> anyhow::Result<()> {
        let (mut events, mut effects) = (Vec::new(), Vec::new());
        self.server.poll(TICK, &mut events).context("the network failed")?;
        self.sample_cpu(&mut events);
        if self.tmaster.is_waiting() {
            events.push(Event::EndedElsewhere(self.ended_elsewhere()));
        }
        events.push(Event::Tick);
        let now = host::now().saturating_duration_since(self.begun);
        for event in events {
            self.tmaster.handle(event, now, &mut effects);
        }
        self.tmaster.flush(&mut effects);
        // A task that has ended says so once, and what it said with it.
        let urgent = effects.iter().any(|effect| matches!(effect, Effect::Store(_)));
        if urgent || host::now() >= self.remembered + REMEMBER_EVERY {
            self.remember();
        }
        for effect in effects {
            self.carry_out(effect)?;
        }
        // Nobody has to take over what is over.
        if self.outcome.is_none() { self.keep_claim() } else { Ok(()) }
    }

    /// What the tmaster before this one leaves, which may not have noticed yet that its entry was removed.
    fn ended_elsewhere(&self) -> BTreeSet<TaskId> {
        let stored = self.state.ended_tasks(&self.name).unwrap_or_default();
        let memory = Memory::read_ended(&self.container().tmaster_memory());
        stored.into_iter().chain(memory).collect()
    }

    fn carry_out(&mut self, effect: Effect) -> anyhow::Result<()> {
        match effect {
            Effect::Send(peers, message) => self.send(&peers, &message),
            Effect::Close(peer) => self.server.close(peer),
            Effect::Store(plan) => self.store(&plan)?,
            Effect::Final(status) => {
                self.keep_final(&status);
                self.outcome = Some(status.state);
            }
            // The loop ends when there is an outcome, after the rest of the effects.
            Effect::Exit => {}
            Effect::Warn(text) => tracing::warn!("{text}"),
        }
        Ok(())
    }

    fn send(&mut self, peers: &[PeerId], message: &egret_dataplane::message::Message) {
        self.server.send(peers, message);
    }

    /// Stores a plan unless a newer one is there: then this tmaster is not the present one.
    fn store(&self, plan: &PhysicalPlan) -> anyhow::Result<()> {
        match self.state.physical_plan(&self.name) {
            Ok(Some(stored)) if stored.epoch > plan.epoch => bail!(
                "the state holds a plan of epoch {}, newer than this tmaster's {}; begins again from there",
                stored.epoch,
                plan.epoch
            ),
            Ok(_) => {}
            Err(error @ StateError::Damaged { .. }) => tracing::error!("{error}; the plan is written anew"),
            Err(error) => tracing::warn!("cannot read the stored plan: {error}"),
        }
        // Stmgrs know the plan once it is sent; a state that is down for a while must not stop a topology that runs.
        if let Err(error) = self.state.put_physical_plan(plan) {
            tracing::error!("cannot store the plan of epoch {}: {error}", plan.epoch);
        }
        Ok(())
    }

    fn remember(&mut self) {
        self.remembered = host::now();
        let Some(memory) = self.tmaster.remember() else { return };
        let path = self.container().tmaster_memory();
        let written = serde_json::to_vec(&memory)
            .map_err(std::io::Error::other)
            .and_then(|bytes| write_private(&path, &bytes));
        if let Err(error) = written {
            tracing::warn!("cannot write {}: {error}", path.display());
        }
    }

    fn keep_final(&self, status: &TopologyStatus) {
        let path = self.container().final_status();
        let written = serde_json::to_vec_pretty(status)
            .map_err(std::io::Error::other)
            .and_then(|bytes| write_private(&path, &bytes));
        match written {
            Ok(()) => tracing::info!("`{}` has ended: {:?}", self.name, status.state),
            Err(error) => tracing::error!("cannot write {}: {error}", path.display()),
        }
    }

    fn container(&self) -> ContainerDir {
        WorkDir::at(&self.execution.work_dir).container(ContainerId(0))
    }

    /// Looks at the CPU time of the processes that count none themselves.
    fn sample_cpu(&mut self, events: &mut Vec<Event>) {
        for process in self.tmaster.processes() {
            let key = (process.role, process.pid);
            if process.role != ProcessRole::Instance && !self.sampled.contains(&key) {
                self.sampled.push(key);
            }
        }
        self.sampled.retain(|(role, pid)| match cpu::seconds(*pid) {
            Some(seconds) => {
                events.push(Event::Cpu(*role, *pid, seconds));
                true
            }
            None => false,
        });
    }

    /// Makes the entry again by which others find this tmaster, when somebody removed it.
    fn keep_claim(&mut self) -> anyhow::Result<()> {
        if host::now() < self.claim_checked + CLAIM_EVERY {
            return Ok(());
        }
        self.claim_checked = host::now();
        if self.claim.as_ref().is_some_and(|claim| claim.is_held().unwrap_or(true)) {
            return Ok(());
        }
        tracing::warn!("the entry of this tmaster is gone from the state; it is made again");
        self.claim = None;
        match self.state.hold_tmaster(&self.name, &self.location) {
            Ok(claim) => self.claim = Some(claim),
            Err(error @ StateError::Held { .. }) => bail!("another tmaster has taken over: {error}"),
            Err(error) => tracing::warn!("cannot make it: {error}"),
        }
        Ok(())
    }

    /// Sends what is queued, and frees the name.
    fn farewell(&mut self) -> anyhow::Result<()> {
        self.server.close_all();
        let deadline = host::now() + FAREWELL;
        let mut events = Vec::new();
        while !self.server.is_idle() && host::now() < deadline {
            self.server.poll(Duration::from_millis(50), &mut events)?;
            events.clear();
        }
        // The command that ended or ran the topology frees the name itself, when all processes are gone.
        if self.execution.mode == ExecutionMode::Submit && self.outcome != Some(TopologyState::Killed) {
            self.free_name()?;
        }
        self.claim = None;
        Ok(())
    }

    fn free_name(&self) -> anyhow::Result<()> {
        let _lock = self.state.lock(&self.name, REMOVE_PATIENCE)?;
        let present = self.state.execution(&self.name)?;
        if present.is_some_and(|present| present.id == self.execution.id) {
            self.state.remove(&self.name)?;
        }
        Ok(())
    }
}

/// Becomes the tmaster that everyone finds; the one before may take a moment to be gone.
fn claim(state: &State, name: &str, location: &TmasterLocation) -> anyhow::Result<Ephemeral> {
    let deadline = host::now() + CLAIM_PATIENCE;
    loop {
        match state.hold_tmaster(name, location) {
            Err(StateError::Held { .. }) if host::now() < deadline => {
                host::sleep(Duration::from_millis(20));
            }
            other => return other.with_context(|| format!("cannot become the tmaster of `{name}`")),
        }
    }
}

/// The tmaster and the executor that started it.
fn own_processes(dir: &ContainerDir, incarnation: Incarnation) -> Vec<ProcessStatus> {
    let process = |role, pid, incarnation| ProcessStatus {
        role,
        container: ContainerId(0),
        task: None,
        component: None,
        pid,
        incarnation,
    };
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    let starts = Incarnation(Starts::read(dir).of(&ProcessName::Executor));
    let executor = parent.map(|pid| process(ProcessRole::Executor, pid, starts));
    let tmaster = process(ProcessRole::Tmaster, std::process::id(), incarnation);
    executor.into_iter().chain([tmaster]).collect()
}

/// Writes a file that only its owner may read, whole or not at all.
fn write_private(path: &std::path::Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let partial = path.with_extension("partial");
    let mut file =
        std::fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
    file.write_all(bytes)?;
    std::fs::rename(partial, path)
}
