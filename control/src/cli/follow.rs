//! Following a topology that was started here, until it has come where it should, ends, fails or is interrupted.

use super::executors::Executors;
use super::interrupts::{Interrupts, Wish};
use super::link::Link;
use super::progress::{Progress, report_line};
use super::start::Started;
use crate::layout::WorkDir;
use crate::scheduler::LaunchedExecutor;
use egret_dataplane::ids::ContainerId;
use egret_dataplane::message::{Message, Request, Severity, TopologyState, TopologyStatus};
use std::time::{Duration, Instant};

/// How long one turn waits for the tmaster to say something; also how late a Ctrl-C may be seen.
const TURN: Duration = Duration::from_millis(50);
/// How often a live line is renewed, and how often reports are asked for without one.
const LIVE_EVERY: Duration = Duration::from_millis(250);
const QUIET_EVERY: Duration = Duration::from_secs(1);
/// How long executors may take to end by themselves after the last status.
const EXECUTORS_END: Duration = Duration::from_secs(5);

/// How long nothing may go wrong before every task counts as running: user code begins when tuples may flow. After a
/// death it is longer than the first pauses before a restart.
const SETTLE: Duration = Duration::from_millis(300);
const SETTLE_AFTER_DEATH: Duration = Duration::from_millis(1500);
/// How often it is asked meanwhile.
const SETTLE_EVERY: Duration = Duration::from_millis(100);
/// How often a task may die before a start is given up.
const DEATHS: usize = 3;

/// How far to follow.
pub(crate) enum Until {
    /// Until every task runs, or this much time has passed.
    Running(Duration),
    /// Until it has ended.
    Ended,
}

/// Why following ended.
pub(crate) enum Ending {
    /// Every task runs.
    Reached(Box<TopologyStatus>),
    /// This is the last status.
    Final(Box<TopologyStatus>),
    /// It cannot go on, and why.
    Failed(String),
    /// The user wants it to end at once.
    Interrupted,
}

impl Ending {
    /// The last status that was seen, where it tells how it ended.
    pub(crate) fn status(&self) -> Option<&TopologyStatus> {
        match self {
            Self::Reached(status) | Self::Final(status) => Some(status),
            Self::Failed(_) | Self::Interrupted => None,
        }
    }
}

/// Whether a topology in this state has ended.
pub(crate) fn is_final(state: TopologyState) -> bool {
    !matches!(state, TopologyState::Starting | TopologyState::Running | TopologyState::Draining)
}

/// Follows a topology.
pub(crate) fn follow(
    started: &mut Started,
    interrupts: &mut Interrupts,
    progress: &mut Progress,
    until: &Until,
) -> Ending {
    let taken = std::mem::take(&mut started.executors);
    let mut executors = Executors::new(taken, &started.topology.config);
    let ending = follow_with(started, &mut executors, interrupts, progress, until);
    started.executors = executors.into_inner();
    ending
}

fn follow_with(
    started: &Started,
    executors: &mut Executors,
    interrupts: &mut Interrupts,
    progress: &mut Progress,
    until: &Until,
) -> Ending {
    let begun = Instant::now();
    let mut link = match Link::new(&started.state, &started.topology.name, &started.execution) {
        Ok(link) => link.watch(),
        Err(failure) => return Ending::Failed(failure.message),
    };
    let mut watch = Watch { drained: false, flowed: false, ask_at: begun, calm_since: begun, deaths: 0 };
    loop {
        if watch.interrupted(interrupts.wish(), &mut link, progress) {
            return Ending::Interrupted;
        }
        watch.ask(&mut link, progress, until);
        if let Some(Message::Status(status)) = link.hear(TURN) {
            progress.update(&status);
            if let Some(ending) = watch.judge(status, until) {
                return ending;
            }
        }
        if let Some(ending) = executors.turn(started, progress) {
            // A tmaster that was gone before its last status was heard has left it in a file: its reports are shown too.
            if let Ending::Final(status) = &ending {
                progress.update(status);
            }
            return ending;
        }
        if let Until::Running(limit) = until
            && begun.elapsed() > *limit
        {
            return Ending::Failed(format!("not every task runs after {} s", limit.as_secs()));
        }
    }
}

struct Watch {
    drained: bool,
    /// Tuples have flowed: an end would lose some.
    flowed: bool,
    ask_at: Instant,
    /// Since when tuples flow and no task has died.
    calm_since: Instant,
    /// How many deaths of tasks are known.
    deaths: usize,
}

impl Watch {
    /// Does what the user wants, and says whether that is to end now.
    fn interrupted(&mut self, wish: Wish, link: &mut Link<'_>, progress: &Progress) -> bool {
        match wish {
            Wish::GoOn => false,
            Wish::Stop => true,
            // Without a tmaster nothing has flowed; with one it knows whether something has.
            Wish::Drain if !self.flowed && !link.reach() => true,
            Wish::Drain => {
                if !std::mem::replace(&mut self.drained, true) {
                    progress.note(
                        "draining: spouts end, what is in flight is executed; Ctrl-C again stops at once",
                    );
                    link.insist(Request::Drain);
                }
                false
            }
        }
    }

    /// What a status means, if it ends the following.
    fn judge(&mut self, status: Box<TopologyStatus>, until: &Until) -> Option<Ending> {
        if is_final(status.state) {
            return Some(Ending::Final(status));
        }
        let deaths: Vec<_> = status.reports.iter().filter(|r| r.severity == Severity::Fatal).collect();
        let flows = status.state != TopologyState::Starting;
        if deaths.len() != self.deaths || flows != self.flowed {
            (self.deaths, self.flowed, self.calm_since) =
                (deaths.len(), flows || self.flowed, Instant::now());
        }
        if matches!(until, Until::Ended) {
            return None;
        }
        let died_often = |task| deaths.iter().filter(|r| r.task == task).count() >= DEATHS;
        if let Some(report) = deaths.iter().rev().find(|r| died_often(r.task)) {
            return Some(Ending::Failed(format!("a task dies again and again: {}", report_line(report))));
        }
        let settle = if self.deaths == 0 { SETTLE } else { SETTLE_AFTER_DEATH };
        (flows && self.calm_since.elapsed() >= settle).then_some(Ending::Reached(status))
    }

    fn ask(&mut self, link: &mut Link<'_>, progress: &Progress, until: &Until) {
        if Instant::now() >= self.ask_at {
            let every = match until {
                Until::Running(_) => SETTLE_EVERY,
                Until::Ended if progress.is_live() => LIVE_EVERY,
                Until::Ended => QUIET_EVERY,
            };
            self.ask_at = Instant::now() + every;
            link.say(&Message::StatusRequest);
        }
    }
}

/// What the tmaster wrote last of all.
pub(crate) fn last_status(work_dir: &WorkDir) -> Option<TopologyStatus> {
    let path = work_dir.container(ContainerId(0)).final_status();
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// Gives the executors time to end in good order, after the last status.
pub(crate) fn await_executors(started: &mut Started) {
    let deadline = Instant::now() + EXECUTORS_END;
    let all_ended = |executors: &mut Vec<LaunchedExecutor>| {
        executors.iter_mut().all(|executor| matches!(executor.try_wait(), Ok(Some(_)) | Err(_)))
    };
    while !all_ended(&mut started.executors) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
}
