//! The metrics-out queue: what the task thread has to tell, on its way to the gateway thread.

use egret_dataplane::host;
use egret_dataplane::ids::TaskId;
use egret_dataplane::message::{Latency, Report, Severity};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// How many reports may wait for the gateway. A component that fails every tuple fills this; the rest is counted, not
/// kept.
const CAPACITY: usize = 256;

/// What the task thread tells the gateway.
pub(crate) enum Notice {
    /// Something a person should know.
    Report(Report),
    /// How long the trees of a spout took, so far.
    Latency(Latency),
    /// The task has emitted its end of stream.
    Ended,
    /// The task thread is over; the process ends with this exit code once all before it has been sent.
    Exit(u8),
}

/// The task thread's end.
#[derive(Clone)]
pub(crate) struct Reporter {
    sender: SyncSender<Notice>,
    gateway: Arc<OwnedFd>,
    component: String,
    task: TaskId,
    suppressed: u64,
}

impl Reporter {
    /// A queue whose reader is woken through the eventfd `gateway`.
    pub(crate) fn new(gateway: OwnedFd, component: String, task: TaskId) -> (Self, Receiver<Notice>) {
        let (sender, receiver) = sync_channel(CAPACITY);
        (Self { sender, gateway: Arc::new(gateway), component, task, suppressed: 0 }, receiver)
    }

    /// Reports on behalf of this task. When the gateway is behind, warnings and errors are counted and the count is
    /// told with the next one that gets through.
    pub(crate) fn report(&mut self, severity: Severity, message: &str) {
        let mut message = message.to_owned();
        if self.suppressed > 0 {
            message.push_str(&format!(" ({} earlier reports were suppressed)", self.suppressed));
        }
        let report = Report { component: self.component.clone(), task: self.task, severity, message };
        match self.sender.try_send(Notice::Report(report)) {
            Ok(()) => self.suppressed = 0,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => self.suppressed += 1,
        }
        self.wake();
    }

    /// Sends something that must arrive, waiting for room.
    pub(crate) fn notify(&self, notice: Notice) {
        if !host::is_virtual() {
            // Without a gateway the process is ending already.
            drop(self.sender.send(notice));
            return self.wake();
        }
        let mut unsent = self.sender.try_send(notice);
        while let Err(TrySendError::Full(notice)) = unsent {
            self.wake();
            host::step();
            unsent = self.sender.try_send(notice);
        }
        self.wake();
    }

    fn wake(&self) {
        host::ring(&self.gateway);
    }
}
