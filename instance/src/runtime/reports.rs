//! The metrics-out queue: what the task thread has to tell, on its way to the gateway thread.

use egret_dataplane::host;
use egret_dataplane::ids::TaskId;
use egret_dataplane::message::{Latency, Report, Severity};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

/// How many notices may wait for the gateway.
pub(crate) const CAPACITY: usize = 256;
/// A component that fails every tuple has so many reports at once, and then one each time this has passed. The rest is
/// counted, not kept.
const BURST: u32 = 50;
const ONE_EACH: Duration = Duration::from_millis(100);

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
    /// When all reports so far would have been made, had there been one each time.
    paid_until: Instant,
}

impl Reporter {
    /// A queue whose reader is woken through the eventfd `gateway`.
    pub(crate) fn new(gateway: OwnedFd, component: String, task: TaskId) -> (Self, Receiver<Notice>) {
        let (sender, receiver) = sync_channel(CAPACITY);
        let (gateway, paid_until) = (Arc::new(gateway), host::now());
        (Self { sender, gateway, component, task, suppressed: 0, paid_until }, receiver)
    }

    /// Reports on behalf of this task. Of too many warnings and errors only some get through, each with the number of those
    /// before it that did not; what the task ends with always does.
    pub(crate) fn report(&mut self, severity: Severity, message: &str) {
        let may_be_left_out = matches!(severity, Severity::Warning | Severity::Error);
        if may_be_left_out && !self.is_granted() {
            self.suppressed += 1;
            return;
        }
        let mut message = message.to_owned();
        if self.suppressed > 0 {
            message.push_str(&format!(" ({} earlier reports were suppressed)", self.suppressed));
        }
        let report = Report { component: self.component.clone(), task: self.task, severity, message };
        self.suppressed = 0;
        self.notify(Notice::Report(report));
    }

    /// Whether there may be one more report now.
    fn is_granted(&mut self) -> bool {
        let now = host::now();
        let paid = self.paid_until.max(now) + ONE_EACH;
        let granted = paid <= now + ONE_EACH * BURST;
        if granted {
            self.paid_until = paid;
        }
        granted
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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    #[test]
    fn of_too_many_reports_some_are_told_and_all_are_counted() {
        let gateway = eventfd(0, EventfdFlags::empty()).unwrap();
        let (mut reporter, notices) = Reporter::new(gateway, "bolt".to_owned(), TaskId(1));
        for _ in 0..100_000 {
            reporter.report(Severity::Error, "no");
        }
        reporter.report(Severity::Fatal, "the end");
        let reports = notices.try_iter().map(|notice| match notice {
            Notice::Report(report) => report.message,
            _ => panic!("no report"),
        });
        let reports: Vec<String> = reports.collect();
        assert!((BURST as usize..CAPACITY).contains(&reports.len()), "{} reports", reports.len());
        let left_out =
            |message: &String| Some(message.split_once('(')?.1.split_once(' ')?.0.parse::<usize>().unwrap());
        let suppressed: usize = reports.iter().filter_map(left_out).sum();
        assert_eq!(reports.len() + suppressed, 100_001);
        assert!(reports.last().unwrap().starts_with("the end ("), "{reports:?}");
    }
}
