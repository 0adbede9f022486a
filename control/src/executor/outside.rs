//! What comes to an executor from outside: signals, orphans that user code left, deaths of other executors, and the
//! length of its own log.

use super::driver::Outside;
use super::wards::Wards;
use crate::logs::RotatedLog;
use crate::scheduler::sweep;
use egret_dataplane::ids::ContainerId;
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tracing::warn;

/// The signals of this process and its orphans.
pub(super) struct Signals {
    told_to_end: Arc<AtomicBool>,
    wake: UnixStream,
    own_log: Option<RotatedLog>,
}

impl Signals {
    /// Takes over the signals. The terminal's hang-up is ignored: an executor has none.
    pub(super) fn take() -> io::Result<Self> {
        let told_to_end = Arc::new(AtomicBool::new(false));
        let (wake, sender) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        signal_hook::flag::register(SIGHUP, Arc::new(AtomicBool::new(false)))?;
        for signal in [SIGTERM, SIGINT] {
            // The flag comes first: whoever is woken finds it set.
            signal_hook::flag::register(signal, Arc::clone(&told_to_end))?;
            signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
        }
        signal_hook::low_level::pipe::register(SIGCHLD, sender)?;
        Ok(Self { told_to_end, wake, own_log: None })
    }

    /// Sends this process's output to its log from now on.
    pub(super) fn log_to(&mut self, log: RotatedLog) -> io::Result<()> {
        redirect_output(&log)?;
        self.own_log = Some(log);
        Ok(())
    }
}

impl Outside for Signals {
    fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    fn woken(&mut self, children: &[u32]) -> bool {
        let mut buffer = [0; 256];
        while matches!(self.wake.read(&mut buffer), Ok(1..)) {}
        reap_orphans(children);
        self.told_to_end.load(Ordering::Acquire)
    }

    fn turn(&mut self, _ending: bool) {
        let Some(log) = &mut self.own_log else { return };
        let rotated = log.rotate_if_full();
        if let Err(error) = rotated.and_then(|full| if full { redirect_output(log) } else { Ok(()) }) {
            warn!(%error, "the executor's log cannot be rotated");
        }
    }
}

/// What an executor hears of: its signals, and the executors it looks after.
pub(super) struct World<'a> {
    pub(super) signals: &'a mut Signals,
    pub(super) wards: Wards<'a>,
}

impl Outside for World<'_> {
    fn wake_fd(&self) -> BorrowedFd<'_> {
        self.signals.wake_fd()
    }

    fn woken(&mut self, children: &[u32]) -> bool {
        self.signals.woken(children)
    }

    fn more_fds(&self) -> Vec<BorrowedFd<'_>> {
        self.wards.death_fds()
    }

    fn due_in(&self) -> Option<Duration> {
        self.wards.due_in()
    }

    fn turn(&mut self, ending: bool) {
        self.signals.turn(ending);
        if ending {
            self.wards.leave();
        }
        self.wards.turn();
    }

    fn is_over(&self) -> bool {
        self.wards.found_over()
    }
}

fn redirect_output(log: &RotatedLog) -> io::Result<()> {
    rustix::stdio::dup2_stdout(log.file())?;
    rustix::stdio::dup2_stderr(log.file())?;
    Ok(())
}

/// Reaps the dead that user code's processes left to this one, but none of its own `children`: the driver has taken
/// hold of those.
fn reap_orphans(children: &[u32]) {
    let zombies = sweep::zombie_children().unwrap_or_default();
    for pid in zombies.into_iter().filter(|pid| !children.contains(pid)) {
        if let Some(pid) = Pid::from_raw(pid as i32) {
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}

/// Ends every process that is still below this one, once its own children are reaped. What is of other containers, as the
/// executors that this one started again, is left alone.
pub(super) fn end_orphans(container: ContainerId) -> io::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(2);
    loop {
        let mut left = sweep::own_children()?;
        left.retain(|p| p.container.is_none_or(|other| other == container));
        if left.is_empty() {
            reap_orphans(&[]);
            return Ok(());
        }
        if Instant::now() >= deadline {
            let pids: Vec<u32> = left.iter().map(|p| p.pid).collect();
            return Err(io::Error::other(format!("processes {pids:?} do not end although killed")));
        }
        left.iter().try_for_each(|p| p.signal(Signal::KILL))?;
        std::thread::sleep(Duration::from_millis(5));
        reap_orphans(&[]);
    }
}
