//! The instances of this container: their socket, their registration, the memory they share with the stmgr.

use super::connections::Conn;
use super::driver::Stmgr;
use super::route::Slot;
use super::sinks::ControlSink;
use crate::ids::{Incarnation, TaskId};
use crate::memory::{Channel, ChannelEnd, OUT_SLOTS, Waker};
use crate::message::{InstanceAccepted, Message, PROTOCOL_VERSION, RegisterInstance, Report, Severity};
use crate::net::link::{FrameLimits, Outgoing};
use crate::net::reactor::{ConnId, RecvBuf};
use crate::net::session::Session;
use crate::plan::Role;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use tracing::{info, warn};

/// A connection on the container's socket.
pub(super) struct LocalConn {
    session: Session,
    /// The task, once it has registered.
    pub(super) slot: Option<Slot>,
}

/// A registered instance.
pub(super) struct Local {
    pub(super) conn: ConnId,
    pub(super) end: ChannelEnd,
    pub(super) waker: Waker,
    pub(super) incarnation: Incarnation,
    pub(super) pid: u32,
    /// It has said why it will end.
    explained: bool,
}

impl Stmgr {
    pub(super) fn accept_local(&mut self, conn: ConnId) {
        let peer = self.net.peer_uid(conn);
        let own = rustix::process::geteuid().as_raw();
        if peer != Some(own) {
            self.core.counters.closed_for_fault += 1;
            warn!(?peer, "closed a local connection: only processes of the stmgr's own user may connect");
            self.net.close(conn);
            return;
        }
        let session = Session::trusted(FrameLimits::control_only());
        self.conns.insert(conn, Conn::Local(LocalConn { session, slot: None }));
        self.await_introduction(conn);
    }

    pub(super) fn local_received(
        &mut self,
        conn: ConnId,
        local: &mut LocalConn,
        buf: &RecvBuf,
    ) -> Result<(), String> {
        let mut sink = ControlSink::default();
        let outcome = local.session.on_bytes(self.net.bytes(buf), |_| {}, &mut sink);
        for message in sink.messages {
            match (message, local.slot) {
                (Message::RegisterInstance(register), None) => {
                    local.slot = self.register_instance(conn, &register)?;
                }
                (Message::Report(report), Some(slot)) => {
                    if let (Severity::Fatal, Some(present)) = (report.severity, &mut self.locals[slot.at()]) {
                        present.explained = true;
                    }
                    self.report(report);
                }
                (Message::Latency(latency), Some(slot)) => self.latency(slot, latency)?,
                (Message::UserCounters(counters), Some(slot)) => self.user_counters(slot, counters)?,
                _ => return Err("it sent a message that is not for a stmgr".to_owned()),
            }
        }
        outcome.map(drop).map_err(|error| error.to_string())
    }

    /// Takes an instance, or tells it why not.
    fn register_instance(
        &mut self,
        conn: ConnId,
        register: &RegisterInstance,
    ) -> Result<Option<Slot>, String> {
        let slot = match self.slot_for(register) {
            Ok(slot) => slot,
            Err(reason) => {
                warn!(task = %register.task, reason, "refused an instance");
                self.send(conn, Outgoing::control(&Message::Refused(reason)));
                self.net.close_after_flush(conn);
                return Ok(None);
            }
        };
        if let Some(older) = self.locals[slot.at()].as_ref().map(|local| local.conn) {
            let entry = self.conns.remove(&older);
            self.net.close(older);
            entry.into_iter().for_each(|entry| self.lost(older, entry, "a newer process took its task"));
        }
        if register.ended {
            self.core.end_task(slot);
        }
        let ended = self.core.has_ended(slot);
        let channel = Channel::create().map_err(|e| format!("cannot share memory with it: {e}"))?;
        self.hand_over(conn, &channel, ended)
            .map_err(|e| format!("cannot pass it the shared memory: {e}"))?;
        info!(task = %register.task, incarnation = %register.incarnation, pid = register.pid, "instance registered");
        let end = channel.stmgr_end();
        end.hold.set(self.core.is_held(slot));
        self.locals[slot.at()] = Some(Local {
            conn,
            end,
            waker: channel.instance_waker(),
            incarnation: register.incarnation,
            pid: register.pid,
            explained: false,
        });
        self.core.attach(slot);
        self.registration.instance_up(slot, &mut self.actions);
        Ok(Some(slot))
    }

    fn slot_for(&self, register: &RegisterInstance) -> Result<Slot, String> {
        if register.version != PROTOCOL_VERSION {
            return Err(format!(
                "it speaks protocol version {}, this stmgr {PROTOCOL_VERSION}",
                register.version
            ));
        }
        let (topology, container) = (&self.options.topology.name, self.options.container);
        if register.topology != *topology {
            return Err(format!("it belongs to topology `{}`, this is `{topology}`", register.topology));
        }
        let slot = self.core.routes().slot(register.task);
        let slot = slot.ok_or_else(|| format!("task {} is not in container {container}", register.task))?;
        match &self.locals[slot.at()] {
            Some(present) if present.incarnation >= register.incarnation => {
                let (task, present) = (register.task, present.incarnation);
                Err(format!("incarnation {present} of task {task} is there already"))
            }
            _ => Ok(slot),
        }
    }

    /// Accepts an instance. Nothing has been sent to it yet, so this may go past the reactor; it is small enough to
    /// fit the socket's buffer at once.
    fn hand_over(&mut self, conn: ConnId, channel: &Channel, ended: bool) -> io::Result<()> {
        let files = [self.pool.duplicate_fd()?, channel.duplicate_fd()?, self.net.wake_fd()?];
        let files: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
        let accepted = InstanceAccepted { container: self.options.container, ended };
        self.net.send_with_files(conn, &Outgoing::control(&Message::InstanceAccepted(accepted)), &files)
    }

    /// Cuts off the instance of `slot` for what it did.
    pub(super) fn cut_off(&mut self, slot: Slot, reason: &str) {
        if let Some(conn) = self.locals[slot.at()].as_ref().map(|local| local.conn) {
            // What else it says is not listened to.
            self.detach(slot, false);
            self.fault(conn, reason);
        }
    }

    pub(super) fn local_lost(&mut self, conn: ConnId, local: &LocalConn) {
        let Some(slot) = local.slot else { return };
        if self.locals[slot.at()].as_ref().is_some_and(|present| present.conn == conn) {
            self.detach(slot, true);
        }
    }

    /// The instance of `slot` is gone. What it said before counts, unless it is not to be trusted.
    fn detach(&mut self, slot: Slot, listen: bool) {
        let Some(mut local) = self.locals[slot.at()].take() else { return };
        let ring = &mut local.end.consumer;
        let mut said = std::iter::from_fn(|| ring.pop()).take(OUT_SLOTS);
        let heard_all = listen && said.all(|descriptor| self.core.descriptor(slot, descriptor).is_ok());
        let has_unnamed = !heard_all || local.end.counters.has_unnamed();
        let task = self.core.routes().tasks[slot.at()];
        let last = local.end.counters.load(task, local.incarnation);
        if !local.explained && !self.core.has_ended(slot) && !self.registration.is_stopped() {
            self.report_death(task, local.pid);
        }
        self.core.detach(slot, last.executed, has_unnamed);
        self.registration.instance_down(slot);
        info!(%task, pid = local.pid, "instance gone");
        self.last_words(last);
    }

    /// Tells of a process that nobody asked to end, and that did not say why it did.
    fn report_death(&mut self, task: TaskId, pid: u32) {
        let topology = &self.options.topology;
        let Some((component, _)) = topology.component_of(task) else { return };
        let component = &topology.components[usize::from(component.0)];
        let begins_anew = match component.role {
            Role::Spout => ", and a spout begins anew unless it keeps its place: tuples may come twice",
            Role::Bolt => "",
        };
        let message = format!("its process {pid} ended too early; it is started again{begins_anew}");
        self.report(Report { component: component.id.clone(), task, severity: Severity::Warning, message });
    }
}
