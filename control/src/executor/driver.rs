//! The loop of an executor: waits for deaths, output, signals and due restarts, and does what the supervisor decides.

use super::child::RunningChild;
use super::commands::Commands;
use super::failure::Failure;
use super::starts::Starts;
use super::supervisor::{Effect, End, Outcome, Supervisor};
use crate::layout::{ContainerDir, ProcessName};
use crate::logs::{Retention, RotatedLog};
use egret_dataplane::ids::{ContainerId, Incarnation};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// What the outside tells the loop.
pub(super) trait Outside {
    /// Becomes readable when there is something new to ask for.
    fn wake_fd(&self) -> BorrowedFd<'_>;

    /// Takes what woke the loop, and says whether the executor was told to end. `children` are not reaped yet.
    fn woken(&mut self, children: &[u32]) -> bool;

    /// What else wakes the loop when it becomes readable.
    fn more_fds(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// How long until `turn` must be called, if nothing else happens.
    fn due_in(&self) -> Option<Duration> {
        None
    }

    /// Anything to be done once a turn. `ending` tells that the container is ending.
    fn turn(&mut self, _ending: bool) {}

    /// Whether the topology was found to be over, so that the container has nothing to do any more.
    fn is_over(&self) -> bool {
        false
    }
}

/// A container at work.
pub(super) struct Driver<'a, C> {
    container: ContainerId,
    dir: &'a ContainerDir,
    commands: C,
    retention: Retention,
    supervisor: Supervisor,
    starts: Starts,
    children: Vec<Option<RunningChild>>,
    started: Instant,
    /// Of the process that the container gave up on.
    failure: Option<Failure>,
}

/// What is readable.
#[derive(Clone, Copy)]
enum Source {
    Outside,
    /// What the outside sees to in its turn.
    More,
    Death(usize),
    Output(usize),
}

impl<'a, C: Commands> Driver<'a, C> {
    pub(super) fn new(
        container: ContainerId,
        dir: &'a ContainerDir,
        commands: C,
        retention: Retention,
        (names, policy): (Vec<ProcessName>, super::supervisor::Policy),
    ) -> Self {
        let children = names.iter().map(|_| None).collect();
        let starts = Starts::read(dir);
        let processes = names.into_iter().map(|name| (starts.of(&name), name)).map(|(n, name)| (name, n));
        let supervisor = Supervisor::new(processes.collect(), policy);
        let started = Instant::now();
        Self { container, dir, commands, retention, supervisor, starts, children, started, failure: None }
    }

    /// Runs until no child is left. The failure is that of the process it gave up on.
    ///
    /// # Errors
    /// When waiting itself fails.
    pub(super) fn run(&mut self, outside: &mut impl Outside) -> io::Result<(Outcome, Option<Failure>)> {
        let mut effects = Vec::new();
        loop {
            self.supervisor.tick(self.now(), &mut effects);
            self.perform(&mut effects);
            if let Some(outcome) = self.supervisor.outcome() {
                return Ok((outcome, self.failure.take()));
            }
            for source in self.wait(outside)? {
                match source {
                    Source::Outside => {
                        let children: Vec<u32> =
                            self.children.iter().flatten().map(RunningChild::pid).collect();
                        if outside.woken(&children) {
                            self.supervisor.terminate(self.now(), &mut effects);
                        }
                    }
                    Source::More => {}
                    Source::Output(index) => self.drain(index),
                    Source::Death(index) => self.reap(index, &mut effects)?,
                }
            }
            outside.turn(self.supervisor.is_ending());
            if outside.is_over() {
                self.supervisor.complete(self.now(), &mut effects);
            }
        }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn perform(&mut self, effects: &mut Vec<Effect>) {
        // A process that cannot be started is a death, which may bring more effects.
        while !effects.is_empty() {
            for effect in std::mem::take(effects) {
                match effect {
                    Effect::Spawn(index, incarnation) => self.spawn(index, incarnation, effects),
                    Effect::Terminate(index) => self.signal(index, Signal::TERM),
                    Effect::Kill(index) => self.signal(index, Signal::KILL),
                }
            }
        }
    }

    fn spawn(&mut self, index: usize, incarnation: Incarnation, effects: &mut Vec<Effect>) {
        let name = self.supervisor.name(index).clone();
        if let Err(error) = self.starts.note(self.dir, &name, incarnation) {
            warn!(process = %name, %error, "its start cannot be noted");
        }
        match self.start(&name, incarnation) {
            Ok(child) => {
                info!(process = %name, pid = child.pid(), %incarnation, "started");
                self.children[index] = Some(child);
            }
            Err(error) => {
                self.died(index, End::Failed, &format!("could not be started: {error}"), Vec::new(), effects)
            }
        }
    }

    fn start(&self, name: &ProcessName, incarnation: Incarnation) -> io::Result<RunningChild> {
        if *name == ProcessName::Stmgr {
            // A killed stmgr left its socket.
            let _ = std::fs::remove_file(self.dir.socket());
        }
        let log = RotatedLog::open(self.dir.log(name), self.retention)?;
        let (command, stdout) = (self.commands.command(name, incarnation)?, self.commands.stdout(name)?);
        let child = RunningChild::start(command, stdout, log)?;
        if let Err(error) = write_pid_file(&self.dir.pid_file(name), child.pid()) {
            warn!(process = %name, %error, "its pid file cannot be written");
        }
        Ok(child)
    }

    fn signal(&self, index: usize, signal: Signal) {
        let Some(child) = &self.children[index] else { return };
        if let Err(error) = child.signal(signal) {
            warn!(process = %self.supervisor.name(index), %error, "cannot be signalled");
        }
    }

    /// What is readable now, or will be before something is due.
    fn wait(&self, outside: &impl Outside) -> io::Result<Vec<Source>> {
        let mut sources = vec![Source::Outside];
        let mut fds = vec![PollFd::from_borrowed_fd(outside.wake_fd(), PollFlags::IN)];
        for fd in outside.more_fds() {
            sources.push(Source::More);
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        }
        for (index, child) in self.children.iter().enumerate() {
            let Some(child) = child else { continue };
            // Output comes before the death that follows it.
            if let Some(output) = child.output_fd() {
                sources.push(Source::Output(index));
                fds.push(PollFd::from_borrowed_fd(output, PollFlags::IN));
            }
            sources.push(Source::Death(index));
            fds.push(PollFd::from_borrowed_fd(child.death_fd(), PollFlags::IN));
        }
        let own = self.supervisor.next_tick().map(|due| due.saturating_sub(self.now()));
        let timeout = own.into_iter().chain(outside.due_in()).min();
        let timeout =
            timeout.map(|t| Timespec { tv_sec: t.as_secs() as i64, tv_nsec: t.subsec_nanos().into() });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
        let ready = sources.iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty());
        Ok(ready.map(|(source, _)| *source).collect())
    }

    fn drain(&mut self, index: usize) {
        if let Some(child) = &mut self.children[index] {
            child.drain();
        }
    }

    fn reap(&mut self, index: usize, effects: &mut Vec<Effect>) -> io::Result<()> {
        let Some(child) = &mut self.children[index] else { return Ok(()) };
        let Some(death) = child.try_reap()? else { return Ok(()) };
        let last_lines = self.children[index].take().map(RunningChild::into_last_lines).unwrap_or_default();
        let _ = std::fs::remove_file(self.dir.pid_file(self.supervisor.name(index)));
        self.died(index, death.end(), &death.to_string(), last_lines, effects);
        Ok(())
    }

    fn died(
        &mut self,
        index: usize,
        end: End,
        reason: &str,
        last_lines: Vec<String>,
        effects: &mut Vec<Effect>,
    ) {
        let now = self.now();
        self.supervisor.exited(index, end, now, effects);
        let process = self.supervisor.name(index);
        match self.supervisor.waits(index, now) {
            Some(delay) if end == End::Orderly => {
                info!(%process, "{reason}; starting it again in {} ms unless its stmgr ends too", delay.as_millis());
            }
            Some(delay) => warn!(%process, "{reason}; starting it again in {} ms", delay.as_millis()),
            None => info!(%process, "{reason}"),
        }
        if self.supervisor.gave_up_on() == Some(index) {
            let (component, task) = match process {
                ProcessName::Instance(task, component) => (Some(component.clone()), Some(*task)),
                _ => (None, None),
            };
            self.failure = Some(Failure {
                container: self.container,
                process: process.to_string(),
                component,
                task,
                deaths: self.supervisor.failures_in_a_row(index),
                reason: reason.to_owned(),
                last_lines,
            });
        }
    }
}

fn write_pid_file(path: &Path, pid: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    writeln!(file, "{pid}")
}

#[cfg(test)]
mod tests;
