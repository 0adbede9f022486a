//! The loop: rings, network and clock in turn, and the decisions of the core carried out.
//!
//! One thread owns everything. A turn looks into every instance's ring, takes a bounded number of descriptors from
//! each, and carries out what follows. The network is asked when something is to be sent, and every few turns. After
//! a bounded number of turns without work the loop sleeps in the reactor: it says so in the pool, looks into all rings
//! once more, and waits for a frame, a timer, or an instance that writes to its eventfd.

use super::connections::Conn;
use super::core::{Core, Delivered, Effect};
use super::local::Local;
use super::options::{ExitReason, SOCKET_NAME, StmgrError, StmgrOptions};
use super::peers::PeerLink;
use super::registration::{Action, Registration};
use super::route::{Routes, Slot};
use super::sizes::Sizes;
use super::tmaster::TmasterLink;
use super::watermarks::Watermarks;
use crate::affinity;
use crate::host;
use crate::ids::{BlockId, Epoch};
use crate::memory::{BlockBytes, DescriptorKind, HugePages, Parker, Pool, Sleep};
use crate::message::{Message, RunState};
use crate::mutants::{self, Mutant};
use crate::net::link::Outgoing;
use crate::net::reactor::{self, Choice, ConnId, Event, ListenerId, Reactor};
use crate::plan::{StmgrAddress, config};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Descriptors taken from one instance in a turn, so that a busy one does not starve the others.
const TURN_DESCRIPTORS: usize = 64;
/// Turns between two looks at the network while rings keep the loop busy.
const NETWORK_TURNS: u32 = 16;
/// The same for turns without work: each is short, and the sleep that follows soon looks anyway.
const IDLE_NETWORK_TURNS: u32 = 256;
/// How long instances may take to end after a stop.
const STOP: Duration = Duration::from_secs(3);
/// How long the last heartbeat may take to leave.
const FLUSH: Duration = Duration::from_secs(1);
/// When a full ring is tried again whose instance may make room without a word.
const FULL_RING: Duration = Duration::from_millis(1);

/// Where the end stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    No,
    /// Instances have been told; the deadline for them to go.
    Instances(Instant),
    /// The last heartbeat is on its way; the deadline for it.
    Flushing(Instant),
}

/// A running stream manager.
pub(super) struct Stmgr {
    pub(super) options: StmgrOptions,
    pub(super) address: SocketAddr,
    pub(super) core: Core,
    pub(super) registration: Registration,
    pub(super) net: Box<dyn Reactor>,
    pub(super) pool: Arc<Pool>,
    pub(super) conns: HashMap<ConnId, Conn>,
    /// By slot.
    pub(super) locals: Vec<Option<Local>>,
    /// By peer.
    pub(super) peers: Vec<PeerLink>,
    pub(super) tmaster: TmasterLink,
    pub(super) now: Instant,
    start: Instant,
    /// When everything is looked at again, on a simulated host.
    pub(super) audit_at: Instant,
    pub(super) audited_plan: Option<(Epoch, Vec<StmgrAddress>)>,
    pub(super) posted_version: u64,
    pub(super) actions: Vec<Action>,
    parker: Parker,
    unix: ListenerId,
    pub(super) introductions: VecDeque<(Instant, ConnId)>,
    events: Vec<Event>,
    effects: Vec<Effect>,
    full: Vec<Slot>,
    faults: Vec<(Slot, String)>,
    network_is_due: bool,
    turns_since_network: u32,
    idle_turns: u64,
    spin_turns: u64,
    ending: Ending,
    refused: Option<String>,
}

/// Runs a stream manager until the topology is over.
///
/// # Errors
/// [`StmgrError`] when it cannot begin, when the network driver fails, or when the tmaster refuses it.
pub fn run(options: StmgrOptions) -> Result<ExitReason, StmgrError> {
    let socket = options.container_dir.join(SOCKET_NAME);
    let mut stmgr = Stmgr::open(options)?;
    let outcome = loop {
        if let Some(outcome) = stmgr.turn().transpose() {
            break outcome;
        }
    };
    // It may be gone with its folder already.
    let _ = std::fs::remove_file(socket);
    outcome
}

impl Stmgr {
    fn open(options: StmgrOptions) -> Result<Self, StmgrError> {
        let settings = &options.topology.config;
        let routes = Routes::new(&options.topology, &options.packing, options.container)?;
        affinity::pin(&affinity::Policy::of(settings), options.container);
        let sizes = Sizes::of(settings);
        let pool = Arc::new(Pool::create_of(&sizes.pool(&routes), HugePages::of(settings))?);
        let wanted = settings.text(config::REACTOR).unwrap_or_default();
        let choice = Choice::parse(wanted).unwrap_or_default();
        let mut net = reactor::open(choice).map_err(|source| match choice {
            Choice::Uring => StmgrError::NoReactor { wanted: wanted.to_owned(), source },
            _ => StmgrError::Reactor(source),
        })?;
        let listen = |place: String| |source| StmgrError::Listen { place, source };
        let tcp = net.bind_tcp(options.listen_host);
        let (_, address) = tcp.map_err(listen(options.listen_host.to_string()))?;
        let folder = &options.container_dir;
        let unix = net.bind_local(folder, SOCKET_NAME);
        let unix = unix.map_err(listen(folder.join(SOCKET_NAME).display().to_string()))?;
        info!(container = %options.container, %address, reactor = net.name(), blocks = pool.block_count(), pool_mib = pool.bytes() >> 20, pages = %pool.pages(), "stmgr ready");
        let now = host::now();
        Ok(Self {
            registration: Registration::new(&routes),
            locals: routes.tasks.iter().map(|_| None).collect(),
            peers: routes.peers.iter().map(|_| PeerLink::default()).collect(),
            tmaster: TmasterLink::new(now),
            core: Core::new(routes, sizes, Watermarks::of(settings)),
            parker: pool.stmgr_parker(),
            spin_turns: affinity::spin_turns(settings),
            conns: HashMap::new(),
            actions: Vec::new(),
            introductions: VecDeque::new(),
            events: Vec::new(),
            effects: Vec::new(),
            full: Vec::new(),
            faults: Vec::new(),
            network_is_due: true,
            turns_since_network: 0,
            idle_turns: 0,
            ending: Ending::No,
            refused: None,
            options,
            address,
            net,
            pool,
            now,
            start: now,
            audit_at: now,
            audited_plan: None,
            posted_version: 0,
            unix,
        })
    }

    fn turn(&mut self) -> Result<Option<ExitReason>, StmgrError> {
        host::step();
        let worked = self.take_from_rings();
        self.settle();
        self.deliver_all();
        if host::is_virtual() {
            self.audit();
        }
        self.turns_since_network += 1;
        self.idle_turns = if worked || self.network_is_due { 0 } else { self.idle_turns + 1 };
        let patience = if worked { NETWORK_TURNS } else { IDLE_NETWORK_TURNS };
        if self.idle_turns > self.spin_turns {
            self.sleep()?;
        } else if self.network_is_due || self.turns_since_network >= patience {
            self.network(Some(Duration::ZERO))?;
        } else if !worked {
            std::hint::spin_loop();
        }
        if let Some(reason) = self.refused.take() {
            return Err(StmgrError::Refused(reason));
        }
        Ok(self.is_over().then_some(ExitReason::Stopped))
    }

    fn take_from_rings(&mut self) -> bool {
        let mut worked = false;
        for (index, local) in self.locals.iter_mut().enumerate() {
            let Some(local) = local else { continue };
            let slot = Slot(index as u32);
            let ring = &mut local.end.consumer;
            for descriptor in std::iter::from_fn(|| ring.pop()).take(TURN_DESCRIPTORS) {
                worked = true;
                if let Err(fault) = self.core.descriptor(slot, descriptor) {
                    self.faults.push((slot, fault.to_string()));
                    break;
                }
            }
            if ring.is_corrupt() {
                self.faults.push((slot, "its ring is corrupt".to_owned()));
            }
        }
        worked
    }

    /// Carries out everything that has been decided.
    fn settle(&mut self) {
        while let Some((slot, reason)) = self.faults.pop() {
            self.cut_off(slot, &reason);
        }
        let since_start = self.since_start();
        loop {
            let mut effects = std::mem::take(&mut self.effects);
            self.core.turn(since_start);
            self.core.take_effects(&mut effects);
            effects.iter().for_each(|&effect| self.carry_out(effect));
            let done = effects.is_empty() && self.actions.is_empty();
            self.effects = effects;
            for action in std::mem::take(&mut self.actions) {
                self.act(action);
            }
            if done {
                break;
            }
        }
    }

    /// Hands instances what waits for them. Once for all that has happened: an instance that is woken may take the
    /// processor at once, and would be back for more after each block.
    fn deliver_all(&mut self) {
        for slot in std::mem::take(&mut self.full) {
            self.deliver(slot);
        }
        while let Some(slot) = self.core.next_ready() {
            self.deliver(slot);
        }
    }

    fn deliver(&mut self, slot: Slot) {
        let Some(local) = &mut self.locals[slot.at()] else { return };
        let (mut granted, mut urgent) = (false, false);
        let ring = &mut local.end.producer;
        let outcome = self.core.deliver(slot, |descriptor| {
            let taken = ring.push(descriptor).is_ok();
            let is_grant = descriptor.kind == DescriptorKind::Grant;
            granted |= taken && is_grant;
            // One that leaves grants in its ring until that is full must empty it.
            urgent |= !(taken && is_grant);
            taken
        });
        match urgent {
            _ if mutants::is(Mutant::WakeForgotten) => {}
            true => local.waker.wake(),
            false if granted => local.waker.nudge(),
            false => {}
        }
        if local.end.producer.is_corrupt() {
            self.faults.push((slot, "its ring is corrupt".to_owned()));
        } else if outcome == Delivered::TryAgain && !self.full.contains(&slot) {
            self.full.push(slot);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::SendBatch { peer, target, purpose, block, used } => {
                let bytes = BlockBytes::new(&self.pool, block, used as usize);
                match (self.peers[peer.at()].conn, bytes) {
                    (Some(conn), Some(bytes)) => {
                        let token = u64::from(block.0);
                        self.send(conn, Outgoing::batch(target.to_u32(), purpose, bytes, token));
                    }
                    _ => self.core.sent(block),
                }
            }
            Effect::SendEnd { peer, target, ended } => {
                self.send_to_peer(peer, Outgoing::end(target.0, ended.0));
            }
            Effect::SendCredit { peer, target, class, blocks } => {
                let aux = (class as u32) << 24 | blocks;
                self.send_to_peer(peer, Outgoing::credit(target.to_u32(), aux));
            }
            Effect::TaskEnded(task) => {
                self.heartbeat();
                self.tell_tmaster(&Message::TaskEnded(task));
            }
            Effect::TellFailAll(peer) => {
                let spouts = self.core.take_untold(peer);
                if !spouts.is_empty() {
                    self.send_to_peer(peer, Outgoing::control(&Message::FailAll(spouts)));
                }
            }
            Effect::StateHolders(peer) => {
                let statement = self.core.statement(self.since_start());
                self.state_to_peer(peer, statement);
            }
            Effect::Hold(slot, held) => {
                if let Some(local) = &self.locals[slot.at()] {
                    local.end.hold.set(held);
                    local.waker.wake();
                }
            }
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Register(epoch) => self.register_with_tmaster(epoch),
            Action::ToTmaster(message) => self.tell_tmaster(&message),
            Action::ToInstances(message) => {
                let body = Outgoing::control(&message);
                let conns: Vec<_> = self.locals.iter().flatten().map(|local| local.conn).collect();
                for conn in conns {
                    let copy = Outgoing { header: body.header, body: body.body.clone(), token: None };
                    self.send(conn, copy);
                }
            }
            Action::ToInstance(slot, message) => {
                if let Some(conn) = self.locals[slot.at()].as_ref().map(|local| local.conn) {
                    self.send(conn, Outgoing::control(&message));
                }
            }
            Action::Link(peer, address) => self.link(peer, address),
            Action::EndTask(slot) => self.core.end_task(slot),
            Action::Stop if self.ending == Ending::No => self.ending = Ending::Instances(self.now + STOP),
            Action::Stop => {}
            Action::Refused(reason) => self.refused = Some(reason),
            Action::Warn(text) => warn!("{text}"),
        }
    }

    pub(super) fn send(&mut self, conn: ConnId, frame: Outgoing) {
        self.net.send(conn, frame);
        self.network_is_due = true;
    }

    /// The network is to be asked before the loop rests.
    pub(super) fn network_soon(&mut self) {
        self.network_is_due = true;
    }

    /// The core's time.
    pub(super) fn since_start(&self) -> Duration {
        self.now.saturating_duration_since(self.start)
    }

    /// Whether the topology is over and everyone has been told who has to be.
    fn is_over(&mut self) -> bool {
        match self.ending {
            Ending::No => false,
            Ending::Instances(deadline) => {
                if self.locals.iter().any(Option::is_some) && self.now < deadline {
                    return false;
                }
                self.heartbeat();
                self.tell_tmaster(&Message::SetState(RunState::Stopped));
                if let Some(conn) = self.tmaster.conn() {
                    self.net.close_after_flush(conn);
                    self.network_is_due = true;
                }
                self.ending = Ending::Flushing(self.now + FLUSH);
                false
            }
            Ending::Flushing(deadline) => self.tmaster.conn().is_none() || self.now >= deadline,
        }
    }

    fn sleep(&mut self) -> Result<(), StmgrError> {
        let can_wait = self.core.can_wait_for_blocks();
        self.parker.fall_asleep(if can_wait { Sleep::Deep } else { Sleep::Light });
        let has_work = self.locals.iter().flatten().any(|local| local.end.consumer.has_some());
        let timeout = if has_work { Duration::ZERO } else { self.until_next_timer() };
        let outcome = self.network(Some(timeout));
        self.parker.wake_up();
        outcome
    }

    fn until_next_timer(&self) -> Duration {
        let mut next = self.now + Duration::from_secs(1);
        let mut sooner = |timer: Option<Instant>| next = timer.map_or(next, |at| next.min(at));
        sooner(self.introductions.front().map(|&(at, _)| at));
        sooner(self.core.next_turn().map(|due| self.start + due));
        sooner((!self.full.is_empty()).then(|| self.now + FULL_RING));
        match self.ending {
            Ending::No => {
                sooner(self.tmaster.next_timer(self.registration.wants_tmaster()));
                self.peers.iter().for_each(|peer| sooner(peer.next_timer()));
            }
            Ending::Instances(at) | Ending::Flushing(at) => sooner(Some(at)),
        }
        next.saturating_duration_since(host::now())
    }

    fn network(&mut self, timeout: Option<Duration>) -> Result<(), StmgrError> {
        (self.network_is_due, self.turns_since_network) = (false, 0);
        let mut events = std::mem::take(&mut self.events);
        self.net.poll(timeout, &mut events)?;
        self.now = host::now();
        if !events.is_empty() {
            self.idle_turns = 0;
        }
        for event in events.drain(..) {
            self.on_event(event);
            self.settle();
        }
        self.events = events;
        self.on_time();
        self.settle();
        self.deliver_all();
        if host::is_virtual() {
            self.post();
        }
        Ok(())
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Accepted { listener, conn } if listener == self.unix => self.accept_local(conn),
            Event::Accepted { conn, .. } => self.accept_peer(conn),
            Event::Connected { .. } | Event::Woken => {}
            Event::Sent { token, .. } => self.core.sent(BlockId(token as u32)),
            Event::Closed { conn, reason } => {
                if let Some(entry) = self.conns.remove(&conn) {
                    self.lost(conn, entry, &reason.to_string());
                }
            }
            Event::Received { conn, buf } => self.received(conn, buf),
        }
    }

    fn on_time(&mut self) {
        self.end_strangers();
        if self.ending == Ending::No {
            self.tend_peers();
            self.tend_tmaster();
        }
    }
}
