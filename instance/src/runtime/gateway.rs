//! The gateway thread: every conversation of an instance with the outside. It never touches a tuple.
//!
//! 1. It registers with the container's stmgr, again and again until one answers, and gets pool and rings.
//! 2. The first plan starts the task thread; states and the loss of the stmgr go to it through the mailbox.
//! 3. When the stmgr is lost it registers anew with the next one, and hands the new rings over.
//! 4. When the topology is over, or the task thread is, it sends what is left to say and ends the process.

use super::env::InstanceEnv;
use super::mailbox::{Attachment, Command, Mailbox};
use super::registration::{RegisterError, Registered, register};
use super::reports::{CAPACITY, Notice};
use super::task::{self, Start};
use super::{Load, exit};
use crate::topology::Metrics;
use egret_dataplane::host;
use egret_dataplane::memory::Counters;
use egret_dataplane::message::{Message, RunState, UserCounters};
use egret_dataplane::net::link::{FrameHeader, FrameLimits, FrameSink, Outgoing};
use egret_dataplane::net::reactor::{self, Choice, ConnId, Event, Reactor};
use egret_dataplane::net::session::Session;
use egret_dataplane::plan::PhysicalPlan;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use tracing::{debug, error, info, warn};

const RETRY_FIRST: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(1);
const CPU_EVERY: Duration = Duration::from_secs(1);
const COUNTERS_EVERY: Duration = Duration::from_secs(1);

/// Runs the instance until it is over.
pub(crate) fn run(env: InstanceEnv, load: Load) -> io::Result<u8> {
    let mut gateway = Gateway::open(env, load)?;
    let mut events = Vec::new();
    loop {
        if let Some(code) = gateway.turn(&mut events)? {
            gateway.say_goodbye(&mut events)?;
            return Ok(code);
        }
    }
}

struct Gateway {
    env: InstanceEnv,
    load: Option<Load>,
    reactor: Box<dyn Reactor>,
    /// Where a SIGTERM shows; a virtual process gets none.
    signals: Option<ConnId>,
    stmgr: Option<Link>,
    retry_at: Instant,
    retry_delay: Duration,
    mailbox: Arc<Mailbox>,
    /// What the first registration gave, until there is a plan to start the task with.
    waiting: Option<Attachment>,
    state: RunState,
    notices: Option<Receiver<Notice>>,
    counters: Option<Counters>,
    metrics: Metrics,
    /// What the stmgr was told last of what user code counts, and when.
    told: Vec<(String, u64)>,
    told_at: Instant,
    ended: bool,
    /// The exit code that was decided before the task thread is over.
    stop_code: Option<u8>,
    /// Notices may wait that nobody was woken for again.
    may_have_more: bool,
}

fn hear_signals(reactor: &mut dyn Reactor) -> io::Result<ConnId> {
    let (told, teller) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(signal_hook::consts::SIGTERM, teller)?;
    reactor.adopt(OwnedFd::from(told))
}

struct Link {
    conn: ConnId,
    session: Session,
}

impl Gateway {
    fn open(env: InstanceEnv, load: Load) -> io::Result<Self> {
        let mut reactor = reactor::open(Choice::Epoll)?;
        let signals = if host::is_virtual() { None } else { Some(hear_signals(reactor.as_mut())?) };
        Ok(Self {
            env,
            load: Some(load),
            reactor,
            signals,
            stmgr: None,
            retry_at: host::now(),
            retry_delay: RETRY_FIRST,
            mailbox: Arc::default(),
            waiting: None,
            state: RunState::Paused,
            notices: None,
            counters: None,
            metrics: Metrics::default(),
            told: Vec::new(),
            told_at: host::now(),
            ended: false,
            stop_code: None,
            may_have_more: false,
        })
    }

    /// Handles what has happened; `Some` is the process's exit code.
    fn turn(&mut self, events: &mut Vec<Event>) -> io::Result<Option<u8>> {
        if self.stmgr.is_none()
            && host::now() >= self.retry_at
            && let Some(code) = self.try_register()?
        {
            return Ok(Some(code));
        }
        let wait = if self.may_have_more {
            Some(Duration::ZERO)
        } else if self.stmgr.is_some() {
            self.counters.as_ref().map(|_| CPU_EVERY)
        } else {
            Some(self.retry_at.saturating_duration_since(host::now()))
        };
        self.reactor.poll(wait, events)?;
        let mut over = None;
        for event in events.drain(..) {
            over = over.or(self.on_event(event)?);
        }
        self.publish_cpu();
        if host::now().saturating_duration_since(self.told_at) >= COUNTERS_EVERY {
            self.tell_user_counters();
        }
        Ok(over.or(self.read_notices()))
    }

    fn try_register(&mut self) -> io::Result<Option<u8>> {
        match register(&self.env, self.ended, self.reactor.as_mut()) {
            Ok(registered) => self.registered(registered),
            Err(error @ (RegisterError::Refused(_) | RegisterError::Nonsense(_))) => {
                error!("{error}");
                return Ok(Some(exit::REFUSED));
            }
            Err(error) => {
                debug!("{error}, trying again");
                self.retry_at = host::now() + self.retry_delay;
                self.retry_delay = (self.retry_delay * 2).min(RETRY_MAX);
            }
        }
        Ok(None)
    }

    fn registered(&mut self, registered: Registered) {
        let Registered { conn, accepted, attachment } = registered;
        self.retry_delay = RETRY_FIRST;
        // A new stmgr knows nothing yet.
        self.told.clear();
        self.stmgr = Some(Link { conn, session: Session::trusted(FrameLimits::control_only()) });
        self.counters = Some(attachment.channel.counters());
        info!(container = %accepted.container, "registered with the stmgr");
        if self.notices.is_some() {
            self.mailbox.send(Command::Attach(Box::new(attachment)));
        } else {
            self.waiting = Some(attachment);
        }
    }

    fn on_event(&mut self, event: Event) -> io::Result<Option<u8>> {
        match event {
            Event::Received { conn, buf } if Some(conn) == self.signals => {
                self.reactor.recycle(buf);
                info!("asked to end by a signal");
                return Ok(self.stop(exit::TERMINATED));
            }
            Event::Received { conn, buf } => {
                let mut inbox = Inbox::default();
                let fed = match &mut self.stmgr {
                    Some(link) if link.conn == conn => {
                        link.session.on_bytes(self.reactor.bytes(&buf), |_| {}, &mut inbox).map(drop)
                    }
                    _ => Ok(()),
                };
                self.reactor.recycle(buf);
                if let Err(error) = fed {
                    warn!("closing the connection to the stmgr: {error}");
                    self.reactor.close(conn);
                }
                return self.on_messages(inbox);
            }
            Event::Closed { conn, reason } if self.stmgr.as_ref().is_some_and(|l| l.conn == conn) => {
                info!("lost the stmgr: {reason}");
                self.stmgr = None;
                self.waiting = None;
                self.retry_at = host::now() + self.retry_delay;
                // A task that has not begun will begin attached to the next stmgr.
                if self.notices.is_some() {
                    self.mailbox.send(Command::Detach);
                }
            }
            _ => {}
        }
        Ok(None)
    }

    fn on_messages(&mut self, inbox: Inbox) -> io::Result<Option<u8>> {
        for message in inbox.messages {
            match message {
                Message::Plan(plan) => {
                    if let Some(attachment) = self.waiting.take() {
                        self.start_task(attachment, *plan)?;
                    }
                }
                Message::SetState(RunState::Stopped) => return Ok(self.stop(exit::DONE)),
                Message::SetState(state) => {
                    self.state = state;
                    self.mailbox.send(Command::State(state));
                }
                other => warn!("the stmgr sent an unexpected message: {other:?}"),
            }
        }
        Ok(None)
    }

    fn start_task(&mut self, attachment: Attachment, plan: PhysicalPlan) -> io::Result<()> {
        let Some(load) = self.load.take() else { return Ok(()) };
        // A stmgr that is new may have learned it only with the plan.
        let ended = attachment.knows_end || plan.ended.contains(&self.env.task);
        self.mailbox.wake_by(attachment.channel.instance_waker());
        let start = Start {
            task: self.env.task,
            incarnation: self.env.incarnation,
            container_dir: self.env.container_dir.clone(),
            plan,
            ended,
            attachment,
            mailbox: self.mailbox.clone(),
            metrics: self.metrics.clone(),
        };
        self.notices = Some(task::spawn(start, load, self.reactor.wake_fd()?)?);
        self.mailbox.send(Command::State(self.state));
        Ok(())
    }

    /// Ends the task; the process follows when its thread is over, or at once when it has none.
    fn stop(&mut self, code: u8) -> Option<u8> {
        self.mailbox.send(Command::State(RunState::Stopped));
        self.stop_code = Some(code);
        if self.notices.is_none() { Some(code) } else { None }
    }

    /// Reads what the task tells. Never more than fit into the queue at once, whatever the task adds meanwhile: what the
    /// stmgr says, and the signal to end, come first.
    fn read_notices(&mut self) -> Option<u8> {
        self.may_have_more = true;
        for _ in 0..CAPACITY {
            let Some(notice) = self.notices.as_ref().and_then(|n| n.try_recv().ok()) else {
                self.may_have_more = false;
                return None;
            };
            match notice {
                Notice::Report(report) => {
                    warn!(task = %report.task, component = report.component, "{}", report.message);
                    if let Some(link) = &self.stmgr {
                        self.reactor.send(link.conn, Outgoing::control(&Message::Report(report)));
                    }
                }
                Notice::Latency(latency) => {
                    if let Some(link) = &self.stmgr {
                        self.reactor.send(link.conn, Outgoing::control(&Message::Latency(latency)));
                    }
                }
                Notice::Ended => self.ended = true,
                Notice::Exit(code) => return Some(self.stop_code.unwrap_or(code)),
            }
        }
        None
    }

    fn publish_cpu(&self) {
        let Some(counters) = self.counters.as_ref().filter(|_| !host::is_virtual()) else { return };
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        counters.store_cpu_us(used.tv_sec as u64 * 1_000_000 + used.tv_nsec as u64 / 1000);
    }

    /// Tells the stmgr what user code has counted, if that has changed.
    fn tell_user_counters(&mut self) {
        self.told_at = host::now();
        let Some(link) = &self.stmgr else { return };
        let counters = self.metrics.snapshot();
        if counters == self.told {
            return;
        }
        self.told.clone_from(&counters);
        let (task, incarnation) = (self.env.task, self.env.incarnation);
        let message = Message::UserCounters(UserCounters { task, incarnation, counters });
        self.reactor.send(link.conn, Outgoing::control(&message));
    }

    /// Sends what is queued, as far as the stmgr still listens.
    fn say_goodbye(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        self.publish_cpu();
        self.tell_user_counters();
        let Some(link) = self.stmgr.take() else { return Ok(()) };
        self.reactor.close_after_flush(link.conn);
        let deadline = host::now() + Duration::from_secs(1);
        loop {
            let left = deadline.saturating_duration_since(host::now());
            self.reactor.poll(Some(left), events)?;
            let closed =
                events.drain(..).any(|e| matches!(e, Event::Closed { conn, .. } if conn == link.conn));
            if closed || left.is_zero() {
                return Ok(());
            }
        }
    }
}

/// Collects the messages of one piece of the stream.
#[derive(Default)]
struct Inbox {
    messages: Vec<Message>,
}

/// The stmgr sent a frame that an instance does not take.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unexpected(String);

impl FrameSink for Inbox {
    type Block = egret_dataplane::memory::OwnedBlock;
    type Error = Unexpected;

    fn begin_batch(&mut self, header: &FrameHeader) -> Result<Self::Block, Unexpected> {
        Err(Unexpected(format!("a {:?} frame came on a control connection", header.kind)))
    }

    fn batch(&mut self, header: &FrameHeader, _: Self::Block) -> Result<(), Unexpected> {
        Err(Unexpected(format!("a {:?} frame came on a control connection", header.kind)))
    }

    fn control(&mut self, body: &[u8]) -> Result<(), Unexpected> {
        self.messages.push(Message::decode(body).map_err(|e| Unexpected(e.to_string()))?);
        Ok(())
    }

    fn end(&mut self, header: &FrameHeader) -> Result<(), Unexpected> {
        Err(Unexpected(format!("a {:?} frame came on a control connection", header.kind)))
    }

    fn credit(&mut self, header: &FrameHeader) -> Result<(), Unexpected> {
        Err(Unexpected(format!("a {:?} frame came on a control connection", header.kind)))
    }
}
