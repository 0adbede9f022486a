//! The tmaster of a [`LocalCluster`](super::LocalCluster): as much of one as a topology needs that nobody asks for a
//! status and that has no state manager. It speaks the same protocol over the same connections as the control plane's,
//! which this crate must not know.

use super::cluster::Control;
use super::counts::Counts;
use egret_dataplane::host;
use egret_dataplane::ids::{ContainerId, Epoch, Incarnation, TaskId};
use egret_dataplane::message::{Message, RegisterStmgr, RunState};
use egret_dataplane::net::handshake::{Secret, fresh_nonce};
use egret_dataplane::net::link::{FrameHeader, FrameLimits, FrameSink, Outgoing};
use egret_dataplane::net::reactor::{self, Choice, ConnId, Event, Reactor};
use egret_dataplane::net::session::Session;
use egret_dataplane::plan::{PackingPlan, PhysicalPlan, StmgrAddress, Topology};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long it waits for something to happen before it looks for orders.
const LOOK: Duration = Duration::from_millis(100);
/// How long stmgrs may take to end.
const STOP: Duration = Duration::from_secs(10);

/// What outlives a tmaster: what a state manager would keep, and what the caller of the cluster asks for.
pub(super) struct Desk {
    pub(super) topology: Topology,
    pub(super) packing: PackingPlan,
    pub(super) secret: Secret,
    pub(super) address: Cell<Option<SocketAddr>>,
    pub(super) epoch: Cell<u64>,
    pub(super) ended: RefCell<BTreeSet<TaskId>>,
    pub(super) counts: RefCell<Counts>,
    pub(super) drain: Cell<bool>,
    pub(super) is_stopped: Cell<bool>,
}

/// The control plane of a local cluster.
pub(super) struct Office(pub(super) Rc<Desk>);

impl Control for Office {
    fn tmaster(&self, _: Incarnation) -> Box<dyn FnOnce() -> u8> {
        let desk = self.0.clone();
        Box::new(move || u8::from(Master::open(desk).and_then(Master::run).is_err()))
    }

    fn locate(&self) -> Option<SocketAddr> {
        self.0.address.get()
    }

    fn tmaster_gone(&self) {
        self.0.address.set(None);
    }
}

struct Master {
    desk: Rc<Desk>,
    net: Box<dyn Reactor>,
    sessions: BTreeMap<ConnId, Session<Vec<u8>>>,
    stmgrs: BTreeMap<ContainerId, Stmgr>,
    state: RunState,
    /// Stmgrs that have closed since the end, and how long the others may take to come and hear of it.
    closed: BTreeSet<ContainerId>,
    stop_by: Option<Instant>,
}

struct Stmgr {
    conn: ConnId,
    address: String,
    mesh: Epoch,
}

impl Master {
    fn open(desk: Rc<Desk>) -> io::Result<Self> {
        let mut net = reactor::open(Choice::Epoll)?;
        let (_, address) = net.bind_tcp(IpAddr::V4(Ipv4Addr::LOCALHOST))?;
        desk.address.set(Some(address));
        let (sessions, stmgrs, closed) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Ok(Self { desk, net, sessions, stmgrs, state: RunState::Paused, closed, stop_by: None })
    }

    fn run(mut self) -> io::Result<()> {
        let mut events = Vec::new();
        loop {
            self.net.poll(Some(LOOK), &mut events)?;
            for event in events.drain(..) {
                self.on_event(event)?;
            }
            if self.desk.drain.get() && self.state == RunState::Running {
                self.enter(RunState::Draining);
            }
            let all = self.desk.topology.task_count() as usize;
            if self.state != RunState::Stopped && self.desk.ended.borrow().len() == all {
                self.desk.is_stopped.set(true);
                self.enter(RunState::Stopped);
            }
            // Each stmgr closes after its last heartbeat.
            if self.state == RunState::Stopped && self.stmgrs.is_empty() {
                let all = self.closed.len() == self.desk.packing.containers.len();
                if all || self.stop_by.is_some_and(|at| host::now() >= at) {
                    return Ok(());
                }
            }
        }
    }

    fn on_event(&mut self, event: Event) -> io::Result<()> {
        match event {
            Event::Accepted { conn, .. } => {
                let limits = FrameLimits::control_only();
                let (session, challenge) = Session::server(&self.desk.secret, fresh_nonce()?, limits);
                self.net.send(conn, challenge);
                self.sessions.insert(conn, session);
            }
            Event::Received { conn, buf } => {
                let (mut inbox, mut replies) = (Inbox::default(), Vec::new());
                let bytes = self.net.bytes(&buf);
                let session = self.sessions.get_mut(&conn);
                let fed =
                    session.map(|session| session.on_bytes(bytes, |reply| replies.push(reply), &mut inbox));
                self.net.recycle(buf);
                replies.into_iter().for_each(|reply| self.net.send(conn, reply));
                if fed.is_some_and(|fed| fed.is_err()) {
                    self.net.close(conn);
                }
                inbox.0.into_iter().for_each(|message| self.on_message(conn, message));
            }
            Event::Closed { conn, .. } => {
                self.sessions.remove(&conn);
                let is_its = |(_, stmgr): &(&ContainerId, &Stmgr)| stmgr.conn == conn;
                if let Some(container) = self.stmgrs.iter().find(is_its).map(|(&container, _)| container) {
                    self.stmgrs.remove(&container);
                    self.closed.insert(container);
                }
            }
            Event::Connected { .. } | Event::Sent { .. } | Event::Woken => {}
        }
        Ok(())
    }

    fn on_message(&mut self, conn: ConnId, message: Message) {
        match message {
            Message::RegisterStmgr(stmgr) => self.register(conn, stmgr),
            Message::MeshWhole(epoch) => self.mesh_whole(conn, epoch),
            Message::TaskEnded(task) => {
                self.desk.ended.borrow_mut().insert(task);
            }
            Message::Heartbeat(heartbeat) => self.desk.counts.borrow_mut().heartbeat(heartbeat),
            Message::Report(report) => self.desk.counts.borrow_mut().report(report),
            _ => {}
        }
    }

    fn register(&mut self, conn: ConnId, stmgr: RegisterStmgr) {
        self.desk.epoch.set(self.desk.epoch.get().max(stmgr.epoch.0));
        self.desk.ended.borrow_mut().extend(stmgr.ended);
        let present = Stmgr { conn, address: stmgr.address, mesh: Epoch(0) };
        if let Some(older) = self.stmgrs.insert(stmgr.container, present) {
            self.net.close(older.conn);
        }
        if self.desk.is_stopped.get() {
            self.net.send(conn, Outgoing::control(&Message::SetState(RunState::Stopped)));
        } else if self.stmgrs.len() == self.desk.packing.containers.len() {
            self.publish();
        }
    }

    fn publish(&mut self) {
        self.desk.epoch.set(self.desk.epoch.get() + 1);
        let address = |(&container, stmgr): (&ContainerId, &Stmgr)| StmgrAddress {
            container,
            address: stmgr.address.clone(),
        };
        let plan = PhysicalPlan {
            epoch: Epoch(self.desk.epoch.get()),
            topology: self.desk.topology.clone(),
            packing: self.desk.packing.clone(),
            stmgrs: self.stmgrs.iter().map(address).collect(),
            ended: self.desk.ended.borrow().iter().copied().collect(),
        };
        self.tell_all(&Message::Plan(Box::new(plan)));
    }

    fn mesh_whole(&mut self, conn: ConnId, epoch: Epoch) {
        let current = Epoch(self.desk.epoch.get());
        let Some(stmgr) = self.stmgrs.values_mut().find(|stmgr| stmgr.conn == conn) else { return };
        if epoch != current {
            return;
        }
        stmgr.mesh = epoch;
        if self.state != RunState::Paused {
            self.net.send(conn, Outgoing::control(&Message::SetState(self.state)));
        } else if self.stmgrs.values().all(|stmgr| stmgr.mesh == current) {
            self.enter(RunState::Running);
        }
    }

    fn enter(&mut self, state: RunState) {
        self.state = state;
        if state == RunState::Stopped {
            self.closed.clear();
            self.stop_by = Some(host::now() + STOP);
        }
        self.tell_all(&Message::SetState(state));
    }

    fn tell_all(&mut self, message: &Message) {
        for stmgr in self.stmgrs.values() {
            self.net.send(stmgr.conn, Outgoing::control(message));
        }
    }
}

/// Collects the messages of one piece of the stream.
#[derive(Default)]
struct Inbox(Vec<Message>);

impl FrameSink for Inbox {
    type Block = Vec<u8>;
    type Error = String;

    fn begin_batch(&mut self, header: &FrameHeader) -> Result<Vec<u8>, String> {
        Err(format!("{:?} came to the tmaster", header.kind))
    }

    fn batch(&mut self, header: &FrameHeader, _: Vec<u8>) -> Result<(), String> {
        Err(format!("{:?} came to the tmaster", header.kind))
    }

    fn control(&mut self, body: &[u8]) -> Result<(), String> {
        self.0.push(Message::decode(body).map_err(|error| error.to_string())?);
        Ok(())
    }

    fn end(&mut self, header: &FrameHeader) -> Result<(), String> {
        Err(format!("{:?} came to the tmaster", header.kind))
    }

    fn credit(&mut self, header: &FrameHeader) -> Result<(), String> {
        Err(format!("{:?} came to the tmaster", header.kind))
    }
}
