//! The connection to the tmaster: finding it, keeping it, and telling it how this container fares.

use super::connections::Conn;
use super::driver::Stmgr;
use super::route::Slot;
use super::sinks::ControlSink;
use crate::ids::{Epoch, TaskId};
use crate::message::{
    Heartbeat, Latency, MAX_COUNTER_NAME_BYTES, MAX_HISTOGRAM_BYTES, MAX_USER_COUNTERS, Message,
    PROTOCOL_VERSION, ProcessRole, ProcessStatus, RegisterStmgr, Report, TaskCounters, UserCounters,
};
use crate::net::handshake::fresh_nonce;
use crate::net::link::{FrameLimits, HEADER_BYTES, MAX_CONTROL_BYTES, Outgoing};
use crate::net::reactor::{ConnId, RecvBuf};
use crate::net::session::{Progress, Session};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};
use tracing::{info, warn};

const RETRY: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_millis(500);
const HEARTBEAT: Duration = Duration::from_secs(1);
/// What may wait for a tmaster that does not read, beyond what this stmgr registers with: heartbeats of more than an
/// hour, or one message of the largest size.
const UNREAD_MAX_BYTES: usize = MAX_CONTROL_BYTES as usize + HEADER_BYTES;
/// Reports, and last counters of dead processes, kept for a tmaster that is away. The oldest go first.
const KEPT: usize = 256;

/// The connection to the tmaster, or the search for it.
pub(super) struct TmasterLink {
    conn: Option<ConnId>,
    /// Whether this stmgr has registered over it.
    registered: bool,
    /// What may be queued for it.
    most_queued_bytes: usize,
    retry_at: Instant,
    retry: Duration,
    heartbeat_at: Instant,
    last_words: VecDeque<TaskCounters>,
    reports: VecDeque<Report>,
    /// The newest of each local spout, for a tmaster that has not heard of it.
    latencies: BTreeMap<TaskId, Latency>,
    /// The newest of each local task that has any, likewise.
    user_counters: BTreeMap<TaskId, UserCounters>,
}

/// See [`TmasterLink`].
pub(super) struct TmasterConn {
    session: Session,
}

impl TmasterConn {
    pub(super) fn is_established(&self) -> bool {
        self.session.is_established()
    }
}

impl TmasterLink {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            conn: None,
            registered: false,
            most_queued_bytes: 0,
            retry_at: now,
            retry: Duration::ZERO,
            heartbeat_at: now,
            last_words: VecDeque::new(),
            reports: VecDeque::new(),
            latencies: BTreeMap::new(),
            user_counters: BTreeMap::new(),
        }
    }

    pub(super) fn conn(&self) -> Option<ConnId> {
        self.conn
    }

    pub(super) fn next_timer(&self, wanted: bool) -> Option<Instant> {
        match self.conn {
            None => wanted.then_some(self.retry_at),
            Some(_) => self.registered.then_some(self.heartbeat_at),
        }
    }

    fn retry_later(&mut self, now: Instant) {
        self.retry = (self.retry * 2).clamp(RETRY, RETRY_MAX);
        self.retry_at = now + self.retry;
    }
}

/// Adds to a bounded queue, at the expense of the oldest.
fn keep<T>(queue: &mut VecDeque<T>, item: T) {
    if queue.len() == KEPT {
        queue.pop_front();
    }
    queue.push_back(item);
}

impl Stmgr {
    /// Looks for the tmaster, or sends a heartbeat, when that is due.
    pub(super) fn tend_tmaster(&mut self) {
        let link = &self.tmaster;
        if link.conn.is_some() {
            if link.registered && link.heartbeat_at <= self.now {
                self.heartbeat();
            }
            return;
        }
        if !self.registration.wants_tmaster() || link.retry_at > self.now {
            return;
        }
        let Some(address) = (self.options.locate_tmaster)() else {
            return self.tmaster.retry_later(self.now);
        };
        match fresh_nonce().and_then(|nonce| Ok((nonce, self.net.connect(address)?))) {
            Ok((nonce, conn)) => {
                let session = Session::client(&self.options.secret, nonce, FrameLimits::control_only());
                self.conns.insert(conn, Conn::Tmaster(TmasterConn { session }));
                self.tmaster.conn = Some(conn);
                self.await_introduction(conn);
                self.network_soon();
            }
            Err(error) => {
                warn!(%address, %error, "cannot connect to the tmaster");
                self.tmaster.retry_later(self.now);
            }
        }
    }

    pub(super) fn tmaster_received(
        &mut self,
        conn: ConnId,
        entry: &mut TmasterConn,
        buf: &RecvBuf,
    ) -> Result<(), String> {
        let mut replies = Vec::new();
        let mut sink = ControlSink::default();
        let bytes = self.net.bytes(buf);
        let outcome = entry.session.on_bytes(bytes, |frame| replies.push(frame), &mut sink);
        replies.into_iter().for_each(|frame| self.send(conn, frame));
        if matches!(outcome, Ok(Progress::JustEstablished)) {
            self.tmaster.retry = Duration::ZERO;
            self.registration.tmaster_up(&mut self.actions);
        }
        for message in sink.messages {
            self.registration.from_tmaster(message, self.core.routes(), &mut self.actions);
        }
        outcome.map(drop).map_err(|error| error.to_string())
    }

    pub(super) fn tmaster_lost(&mut self, conn: ConnId, reason: &str) {
        if self.tmaster.conn != Some(conn) {
            return;
        }
        if self.tmaster.registered {
            info!(reason, "lost the tmaster; relaying goes on");
        }
        (self.tmaster.conn, self.tmaster.registered) = (None, false);
        self.tmaster.retry_later(self.now);
        self.registration.tmaster_down();
    }

    pub(super) fn register_with_tmaster(&mut self, epoch: Epoch) {
        let Some(conn) = self.tmaster.conn else { return };
        let register = RegisterStmgr {
            version: PROTOCOL_VERSION,
            topology: self.options.topology.name.clone(),
            container: self.options.container,
            incarnation: self.options.incarnation,
            address: self.address.to_string(),
            epoch,
            ended: self.core.ended_tasks(),
        };
        self.send(conn, Outgoing::control(&Message::RegisterStmgr(register)));
        self.tmaster.registered = true;
        // What follows is queued at once, however long it is.
        self.tmaster.most_queued_bytes = usize::MAX;
        self.heartbeat();
        for report in std::mem::take(&mut self.tmaster.reports) {
            self.tell_tmaster(&Message::Report(report));
        }
        for latency in self.tmaster.latencies.values().cloned().collect::<Vec<_>>() {
            self.tell_tmaster(&Message::Latency(latency));
        }
        for counters in self.tmaster.user_counters.values().cloned().collect::<Vec<_>>() {
            self.tell_tmaster(&Message::UserCounters(counters));
        }
        self.tmaster.most_queued_bytes = self.net.queued_bytes(conn) + UNREAD_MAX_BYTES;
    }

    /// The connection over which this stmgr has registered. It ends here when too much is queued on it: then the tmaster
    /// is stopped, and proves itself on no other before it goes on and hears in the next registration what it must not
    /// miss.
    fn tmaster_that_reads(&mut self) -> Option<ConnId> {
        let conn = self.tmaster.conn.filter(|_| self.tmaster.registered)?;
        let queued = self.net.queued_bytes(conn);
        if queued <= self.tmaster.most_queued_bytes {
            return Some(conn);
        }
        self.conns.remove(&conn);
        self.net.close(conn);
        self.tmaster_lost(conn, &format!("it does not read: {queued} bytes are queued for it"));
        None
    }

    /// Tells the tmaster, if there is one. What must not be missed is part of the next registration.
    pub(super) fn tell_tmaster(&mut self, message: &Message) {
        if let Some(conn) = self.tmaster_that_reads() {
            self.send(conn, Outgoing::control(message));
        }
    }

    /// Passes on what a person should know of a task.
    pub(super) fn report(&mut self, report: Report) {
        if self.tmaster_that_reads().is_some() {
            self.tell_tmaster(&Message::Report(report));
        } else {
            keep(&mut self.tmaster.reports, report);
        }
    }

    /// Passes on how long the trees of the spout of `slot` took.
    ///
    /// # Errors
    /// When it speaks for another task, or at too great a length.
    pub(super) fn latency(&mut self, slot: Slot, latency: Latency) -> Result<(), String> {
        let (task, len) = (self.core.routes().tasks[slot.at()], latency.histogram.len());
        if latency.task != task || len > MAX_HISTOGRAM_BYTES {
            let said = latency.task;
            return Err(format!(
                "it sent a histogram of {len} bytes for task {said}; at most {MAX_HISTOGRAM_BYTES} for task {task} are right"
            ));
        }
        self.tmaster.latencies.insert(task, latency.clone());
        self.tell_tmaster(&Message::Latency(latency));
        Ok(())
    }

    /// Passes on what the user code of `slot` has counted.
    ///
    /// # Errors
    /// When it speaks for another task, or beyond its bounds.
    pub(super) fn user_counters(&mut self, slot: Slot, counters: UserCounters) -> Result<(), String> {
        let task = self.core.routes().tasks[slot.at()];
        if counters.task != task || !counters.is_within_bounds() {
            return Err(format!(
                "it sent {} counters for task {}; at most {MAX_USER_COUNTERS} with names of at most \
                 {MAX_COUNTER_NAME_BYTES} bytes for task {task} are right",
                counters.counters.len(),
                counters.task
            ));
        }
        self.tmaster.user_counters.insert(task, counters.clone());
        self.tell_tmaster(&Message::UserCounters(counters));
        Ok(())
    }

    /// The last counters of a process that is gone: told at once, before a successor's.
    pub(super) fn last_words(&mut self, counters: TaskCounters) {
        keep(&mut self.tmaster.last_words, counters);
        self.heartbeat();
    }

    /// Tells the tmaster what has been counted.
    pub(super) fn heartbeat(&mut self) {
        if self.tmaster_that_reads().is_none() {
            return;
        }
        let mut heartbeat = Heartbeat { processes: self.processes(), ..Heartbeat::default() };
        self.core.counters.report(&mut heartbeat);
        heartbeat.pressure = self.core.pressures(self.since_start());
        heartbeat.held = self.core.held_tasks();
        heartbeat.tasks.extend(self.tmaster.last_words.drain(..).filter(has_counted));
        let present = self.locals.iter().zip(&self.core.routes().tasks);
        let present = present.filter_map(|(local, &task)| Some((local.as_ref()?, task)));
        let counted = present.map(|(local, task)| local.end.counters.load(task, local.incarnation));
        heartbeat.tasks.extend(counted.filter(has_counted));
        self.tmaster.heartbeat_at = self.now + HEARTBEAT;
        self.tell_tmaster(&Message::Heartbeat(heartbeat));
    }

    fn processes(&self) -> Vec<ProcessStatus> {
        let process = |role, pid, incarnation| ProcessStatus {
            role,
            container: self.options.container,
            task: None,
            component: None,
            pid,
            incarnation,
        };
        let executor = self.options.executor;
        let executor = executor.map(|(pid, starts)| process(ProcessRole::Executor, pid, starts));
        let own = process(ProcessRole::Stmgr, std::process::id(), self.options.incarnation);
        let instances = self.locals.iter().enumerate().filter_map(|(index, local)| {
            let (local, slot) = (local.as_ref()?, Slot(index as u32));
            let components = &self.options.topology.components;
            let component = components.get(usize::from(self.core.routes().component(slot).0));
            Some(ProcessStatus {
                task: Some(self.core.routes().tasks[index]),
                component: component.map(|component| component.id.clone()),
                ..process(ProcessRole::Instance, local.pid, local.incarnation)
            })
        });
        executor.into_iter().chain([own]).chain(instances).collect()
    }
}

/// A process that outlived its stmgr has a new counters page, all zero until it writes there: nothing to report yet.
fn has_counted(counters: &TaskCounters) -> bool {
    let blank = TaskCounters { task: counters.task, incarnation: counters.incarnation, ..Default::default() };
    *counters != blank
}
