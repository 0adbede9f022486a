//! The executors of a topology that was started here: what their ends mean, and starting those again that died with
//! their containers.
//!
//! | an executor | in a run | in a submit |
//! |---|---|---|
//! | ends in good order, so that its container is cleaned up | it has ended | it has ended |
//! | exits with a failure | the topology fails | the topology fails, unless the container has another |
//! | is killed, or told to end by somebody else | it is started again | the others start it again |
//! | is ended by another signal, [`GIVES_UP_AFTER`] times in a row | the topology fails | the others start it again |

use super::follow::{Ending, last_status};
use super::progress::Progress;
use super::start::Started;
use crate::backoff::{Backoff, Row};
use crate::executor;
use crate::layout::{ExecutorPresence, WorkDir};
use crate::scheduler::{LaunchedExecutor, Revival};
use crate::state::ExecutionMode;
use egret_dataplane::plan::Config;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// How long the last status may take when every executor has ended already.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How often in a row an executor may crash.
const GIVES_UP_AFTER: u32 = 3;
/// How long to wait for somebody else who holds the topology.
const BUSY: Duration = Duration::from_millis(200);
/// The signal that nobody can do anything about.
const SIGKILL: i32 = 9;

/// See the module.
pub(crate) struct Executors {
    all: Vec<Watched>,
    backoff: Backoff,
    all_ended_at: Option<Instant>,
}

struct Watched {
    executor: LaunchedExecutor,
    life: Life,
    deaths: Row,
    /// The deaths of that row that nobody caused from outside.
    crashes: Row,
}

#[derive(Clone, Copy, Debug)]
enum Life {
    Runs { since: Instant },
    Due { at: Instant },
    Ended,
}

/// What an executor's end means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Ended,
    Failed,
    /// It is to come back; whether it crashed.
    Died {
        crashed: bool,
    },
}

impl Executors {
    pub(crate) fn new(executors: Vec<LaunchedExecutor>, config: &Config) -> Self {
        let life = Life::Runs { since: Instant::now() };
        let (deaths, crashes) = (Row::default(), Row::default());
        let all = executors.into_iter().map(|executor| Watched { executor, life, deaths, crashes }).collect();
        Self { all, backoff: Backoff::of(config), all_ended_at: None }
    }

    /// The processes, whether they live or not.
    pub(crate) fn into_inner(self) -> Vec<LaunchedExecutor> {
        self.all.into_iter().map(|watched| watched.executor).collect()
    }

    /// Looks after all of them, and says what their ends mean, if anything yet.
    pub(crate) fn turn(&mut self, started: &Started, progress: &Progress) -> Option<Ending> {
        let work_dir = WorkDir::at(&started.execution.work_dir);
        for watched in &mut self.all {
            if let Some(reason) = watched.turn(started, &work_dir, self.backoff, progress) {
                return Some(Ending::Failed(reason));
            }
        }
        if !self.all.iter().all(|watched| matches!(watched.life, Life::Ended)) {
            return None;
        }
        if let Some(status) = last_status(&work_dir) {
            return Some(Ending::Final(Box::new(status)));
        }
        let since = *self.all_ended_at.get_or_insert_with(Instant::now);
        let reason = "all its processes have ended, and its tmaster left no last status".to_owned();
        (since.elapsed() > LAST_WORDS).then_some(Ending::Failed(reason))
    }
}

impl Watched {
    /// Why the topology fails, if it does.
    fn turn(
        &mut self,
        started: &Started,
        work_dir: &WorkDir,
        backoff: Backoff,
        progress: &Progress,
    ) -> Option<String> {
        match self.life {
            Life::Ended => None,
            Life::Due { at } if at > Instant::now() => None,
            Life::Due { .. } => self.revive(started, work_dir, backoff),
            Life::Runs { since } => {
                let Ok(Some(status)) = self.executor.try_wait() else { return None };
                let presence = work_dir.container(self.executor.container).executor();
                let presence = presence.unwrap_or(ExecutorPresence::Died);
                match verdict(status, presence, started.execution.mode) {
                    Verdict::Failed if last_status(work_dir).is_none() => {
                        return Some(why_it_ended(&mut self.executor, status, work_dir));
                    }
                    Verdict::Ended | Verdict::Failed => self.life = Life::Ended,
                    Verdict::Died { crashed } => {
                        return self.died((status, crashed), since, backoff, progress);
                    }
                }
                None
            }
        }
    }

    fn died(
        &mut self,
        (status, crashed): (ExitStatus, bool),
        since: Instant,
        backoff: Backoff,
        progress: &Progress,
    ) -> Option<String> {
        let container = self.executor.container;
        self.deaths.died(since.elapsed());
        if crashed {
            self.crashes.died(since.elapsed());
            if self.crashes.deaths() >= GIVES_UP_AFTER {
                let (deaths, words) = (self.crashes.deaths(), early_words(&mut self.executor));
                return Some(format!(
                    "the executor of container {container} ended ({status}), {deaths} times in a row{words}"
                ));
            }
        }
        let delay = backoff.after(self.deaths);
        progress.say(&format!(
            "container {container} has died (its executor: {status}); it is started again in {} ms",
            delay.as_millis()
        ));
        self.life = Life::Due { at: Instant::now() + delay };
        None
    }

    fn revive(&mut self, started: &Started, work_dir: &WorkDir, backoff: Backoff) -> Option<String> {
        let (now, container) = (Instant::now(), self.executor.container);
        match started.revive(container) {
            Ok(Revival::Started(executor)) => {
                self.executor = executor;
                self.life = Life::Runs { since: now };
            }
            // Only somebody who typed it himself can have started another.
            Ok(Revival::Busy | Revival::Alive) => self.life = Life::Due { at: now + BUSY },
            Ok(Revival::Over) if last_status(work_dir).is_some() => self.life = Life::Ended,
            Ok(Revival::Over) => {
                return Some(format!("{} was removed from elsewhere", started.topology.name));
            }
            Err(error) => {
                tracing::warn!("container {container} cannot be started again yet: {error}");
                self.deaths.died(Duration::ZERO);
                self.life = Life::Due { at: now + backoff.after(self.deaths) };
            }
        }
        None
    }
}

/// What the end of an executor means. One that is killed or told to end leaves its pid file.
fn verdict(status: ExitStatus, presence: ExecutorPresence, mode: ExecutionMode) -> Verdict {
    let looked_after_by_others = mode == ExecutionMode::Submit;
    match (status.code(), presence) {
        (Some(0), ExecutorPresence::Absent) => Verdict::Ended,
        (Some(1..), ExecutorPresence::Lives) if looked_after_by_others => Verdict::Ended,
        (Some(1..), _) => Verdict::Failed,
        _ if looked_after_by_others => Verdict::Ended,
        _ => Verdict::Died { crashed: status.signal().is_some_and(|signal| signal != SIGKILL) },
    }
}

/// The reason that an executor left, or what it said before it could.
fn why_it_ended(executor: &mut LaunchedExecutor, status: ExitStatus, work_dir: &WorkDir) -> String {
    let failures = executor::Failure::find(work_dir);
    if !failures.is_empty() {
        return failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    }
    let words = early_words(executor);
    format!("the executor of container {} ended ({status}){words}", executor.container)
}

fn early_words(executor: &mut LaunchedExecutor) -> String {
    let words = executor.early_words();
    if words.is_empty() { String::new() } else { format!("; it said:\n{words}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ExecutionMode::{Run, Submit};
    use ExecutorPresence::{Absent, Died, Lives};

    #[test]
    fn an_end_is_judged_by_its_status_and_by_what_it_left() {
        let (exited, signalled) = (|code: i32| ExitStatus::from_raw(code << 8), ExitStatus::from_raw);
        let cases = [
            (exited(0), Absent, Run, Verdict::Ended),
            (exited(0), Died, Run, Verdict::Died { crashed: false }),
            (exited(0), Died, Submit, Verdict::Ended),
            (exited(1), Absent, Run, Verdict::Failed),
            (exited(1), Died, Submit, Verdict::Failed),
            (exited(1), Lives, Submit, Verdict::Ended),
            (signalled(9), Died, Run, Verdict::Died { crashed: false }),
            (signalled(9), Absent, Run, Verdict::Died { crashed: false }),
            (signalled(11), Died, Run, Verdict::Died { crashed: true }),
            (signalled(9), Died, Submit, Verdict::Ended),
        ];
        for (status, presence, mode, expected) in cases {
            assert_eq!(verdict(status, presence, mode), expected, "{status:?} {presence:?} {mode:?}");
        }
    }
}
