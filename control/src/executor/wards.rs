//! The executors of other containers that this one starts again when they die with their containers.
//!
//! `egret run` looks after its executors itself. Those of a submitted topology look after each other: that of container 0
//! after all others, and all others after that of container 0, so that as long as one lives they all come back. Of the
//! others the lowest living one is the first to act; [`revive`] sees to it that only one does.
//!
//! Deaths are noticed through pidfds. [`ward`] decides, this file does.

mod ward;

use crate::backoff::Backoff;
use crate::executor::ExecutorOptions;
use crate::layout::{ExecutorPresence, ProcessName, WorkDir};
use crate::scheduler::{LaunchRequest, Local, Revival, ReviveError, revive, sweep};
use crate::state::{Execution, ExecutionMode, State};
use egret_dataplane::ids::ContainerId;
use egret_dataplane::plan::{PackingPlan, Topology};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use tracing::{info, warn};
use ward::{Attempt, Step, Ward};

/// What is known of the topology.
#[derive(Clone, Copy)]
pub(super) struct Surroundings<'a> {
    pub(super) options: &'a ExecutorOptions,
    pub(super) state: &'a State,
    pub(super) execution: &'a Execution,
    pub(super) topology: &'a Topology,
    pub(super) packing: &'a PackingPlan,
    pub(super) work_dir: &'a WorkDir,
}

/// See the module.
pub(super) struct Wards<'a> {
    about: Surroundings<'a>,
    begun: Instant,
    wards: Vec<Watched>,
    /// The topology is over, and nobody else will say so to this container.
    over: bool,
}

struct Watched {
    container: ContainerId,
    ward: Ward,
    /// Becomes readable when the executor has ended.
    death: Option<OwnedFd>,
}

impl<'a> Wards<'a> {
    /// The wards of this executor: none in a run.
    pub(super) fn new(about: Surroundings<'a>) -> Self {
        let backoff = Backoff::of(&about.topology.config);
        let watched = |container| Watched { container, ward: Ward::new(backoff), death: None };
        let containers = wards_of(about.options.container, about.execution.mode, about.packing);
        let wards = containers.into_iter().map(watched).collect();
        Self { about, begun: Instant::now(), wards, over: false }
    }

    /// What becomes readable at a death.
    pub(super) fn death_fds(&self) -> Vec<BorrowedFd<'_>> {
        self.wards.iter().filter_map(|w| w.death.as_ref()).map(AsFd::as_fd).collect()
    }

    /// How long until there is something to do without a death.
    pub(super) fn due_in(&self) -> Option<Duration> {
        let now = self.begun.elapsed();
        self.wards.iter().filter_map(|w| w.ward.due()).min().map(|due| due.saturating_sub(now))
    }

    /// Whether the topology is over. As a rule the stmgr hears it from the tmaster and ends; this is for one that did not.
    pub(super) fn found_over(&self) -> bool {
        self.over
    }

    /// Looks after no one any more.
    pub(super) fn leave(&mut self) {
        self.wards.clear();
    }

    /// Does what is due.
    pub(super) fn turn(&mut self) {
        let mut wards = std::mem::take(&mut self.wards);
        for watched in &mut wards {
            if watched.death.as_ref().is_some_and(has_ended) {
                watched.death = None;
                watched.ward.gone(self.begun.elapsed());
            }
            match watched.ward.step(self.begun.elapsed()) {
                Step::Nothing => {}
                Step::Look => self.look(watched),
                Step::Revive => self.revive(watched),
            }
        }
        self.wards = wards;
    }

    fn look(&self, watched: &mut Watched) {
        let container = watched.container;
        let dir = self.about.work_dir.container(container);
        let presence = match dir.executor() {
            Ok(presence) => presence,
            Err(error) => {
                warn!(%container, %error, "cannot tell whether it has an executor");
                return watched.ward.unknown(self.begun.elapsed());
            }
        };
        if presence == ExecutorPresence::Lives {
            let pid = dir.pid(&ProcessName::Executor);
            let process = pid.and_then(|pid| sweep::process(&self.about.execution.id, pid));
            watched.death = process.map(sweep::Process::into_death_fd);
            if watched.death.is_none() {
                // It has not written its number yet.
                return watched.ward.unknown(self.begun.elapsed());
            }
        }
        let rank = self.living_below();
        if let Some(death) = watched.ward.found(presence, rank, self.begun.elapsed()) {
            let delay_ms = death.delay.as_millis();
            warn!(%container, deaths_in_a_row = death.in_a_row,
                "the executor of container {container} has died; starting it again in {delay_ms} ms");
        }
    }

    /// How many living executors are to act before this one.
    fn living_below(&self) -> u32 {
        let own = self.about.options.container;
        let lower = self.about.packing.containers.iter().filter(|c| c.id < own);
        let lives = |id| self.about.work_dir.container(id).executor().ok() == Some(ExecutorPresence::Lives);
        lower.filter(|c| lives(c.id)).count() as u32
    }

    fn revive(&mut self, watched: &mut Watched) {
        let container = watched.container;
        let attempt = match self.try_revive(container) {
            Ok(Revival::Started(executor)) => {
                info!(%container, pid = executor.pid(), "its executor was started again");
                let process = sweep::process(&self.about.execution.id, executor.pid());
                watched.death = process.map(sweep::Process::into_death_fd);
                Attempt::Started { watched: watched.death.is_some() }
            }
            Ok(Revival::Alive) => Attempt::NotNeeded,
            Ok(Revival::Busy) => Attempt::Later,
            Ok(Revival::Over) => {
                self.over = container == ContainerId(0) && self.is_over();
                Attempt::Over
            }
            Err(error) => {
                warn!(%container, %error, "its executor cannot be started again yet");
                Attempt::Failed
            }
        };
        watched.ward.tried(attempt, self.begun.elapsed());
    }

    /// Whether that is certain. Once there is a last status, all containers were told to end long enough ago.
    fn is_over(&self) -> bool {
        let about = &self.about;
        let has_last_status = || about.work_dir.container(ContainerId(0)).final_status().exists();
        has_last_status()
            || matches!(about.state.is_over(&about.topology.name, &about.execution.id), Ok(true))
    }

    fn try_revive(&self, container: ContainerId) -> Result<Revival, ReviveError> {
        let about = &self.about;
        let request = LaunchRequest {
            state_url: &about.options.state_url,
            topology: about.topology,
            packing: about.packing,
            execution: about.execution,
            stdout: None,
        };
        revive(about.state, &Local::default(), &request, container)
    }
}

/// Whom the executor of a container looks after.
fn wards_of(own: ContainerId, mode: ExecutionMode, packing: &PackingPlan) -> Vec<ContainerId> {
    match (mode, own) {
        (ExecutionMode::Run, _) => Vec::new(),
        (ExecutionMode::Submit, ContainerId(0)) => packing.containers.iter().map(|c| c.id).collect(),
        (ExecutionMode::Submit, _) => vec![ContainerId(0)],
    }
}

fn has_ended(death: &OwnedFd) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut [PollFd::new(death, PollFlags::IN)], Some(&at_once)), Ok(1..))
}
