//! The reactor over epoll (mio), for where io_uring is refused.
//!
//! Readiness is edge-triggered and remembered per connection: a connection is on the table's dirty list while it may
//! have something to read or to write, and is served once per poll, so that none starves the others.

use super::conn::{ACCEPT_REST, Phase, Table, wait_time};
use super::link::Outgoing;
use super::reactor::{
    CloseReason, ConnId, Event, ListenerId, RECV_BUFFER_BYTES, RECV_BUFFERS, Reactor, RecvBuf,
};
use super::tcp;
use mio::unix::SourceFd;
use mio::{Interest, Token};
use rustix::event::EventfdFlags;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, sockopt,
};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

const WAKE: Token = Token(usize::MAX);
const LISTENER_BIT: usize = 1 << 63;
/// Buffers that one connection may fill, and connections that one listener may accept, in one poll.
const READS_PER_TURN: usize = 4;
const ACCEPTS_PER_TURN: usize = 64;

/// See the [module](self).
#[derive(Debug)]
pub struct EpollReactor {
    poll: mio::Poll,
    ready: mio::Events,
    table: Table<Readiness>,
    listeners: Vec<Listener>,
    wake: OwnedFd,
    buffers: Buffers,
    /// Connections that have something to read while all buffers are with the user.
    starved: Vec<ConnId>,
}

#[derive(Debug, Default)]
struct Readiness {
    readable: bool,
    writable: bool,
    /// The peer has closed, so a short read is not the last one.
    read_closed: bool,
}

#[derive(Debug)]
struct Listener {
    socket: OwnedFd,
    tcp: bool,
    ready: bool,
    rests_until: Option<Instant>,
}

/// Receive buffers; the one that came back last goes out first, since it is the one in the cache.
#[derive(Debug, Default)]
struct Buffers {
    all: Vec<Box<[u8]>>,
    free: Vec<u16>,
}

impl Buffers {
    fn take(&mut self) -> Option<u16> {
        if let Some(index) = self.free.pop() {
            return Some(index);
        }
        let index = u16::try_from(self.all.len()).ok().filter(|&index| index < RECV_BUFFERS)?;
        self.all.push(vec![0; RECV_BUFFER_BYTES].into_boxed_slice());
        Some(index)
    }
}

impl EpollReactor {
    /// Opens it.
    ///
    /// # Errors
    /// When descriptors run out.
    pub fn new() -> io::Result<Self> {
        let poll = mio::Poll::new()?;
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        poll.registry().register(&mut SourceFd(&wake.as_raw_fd()), WAKE, Interest::READABLE)?;
        Ok(Self {
            poll,
            ready: mio::Events::with_capacity(256),
            table: Table::new(),
            listeners: Vec::new(),
            wake,
            buffers: Buffers::default(),
            starved: Vec::new(),
        })
    }

    fn listen(&mut self, socket: OwnedFd, tcp: bool) -> io::Result<ListenerId> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        let index = u32::try_from(self.listeners.len()).map_err(io::Error::other)?;
        let token = Token(LISTENER_BIT | index as usize);
        self.poll.registry().register(&mut SourceFd(&socket.as_raw_fd()), token, Interest::READABLE)?;
        self.listeners.push(Listener { socket, tcp, ready: false, rests_until: None });
        Ok(ListenerId(index))
    }

    fn add(&mut self, socket: OwnedFd, phase: Phase) -> io::Result<ConnId> {
        let raw = socket.as_raw_fd();
        let id = self.table.insert(socket, phase, Readiness::default());
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = self.poll.registry().register(&mut SourceFd(&raw), Token(id.0 as usize), interest);
        if let Err(error) = registered {
            self.table.forget(id);
            return Err(error);
        }
        Ok(id)
    }

    fn accept_ready(&mut self) {
        for index in 0..self.listeners.len() {
            let listener = &mut self.listeners[index];
            if listener.rests_until.is_some_and(|until| until <= Instant::now()) {
                listener.rests_until = None;
                listener.ready = true;
            }
            if listener.ready {
                self.accept(index);
            }
        }
    }

    fn accept(&mut self, index: usize) {
        for _ in 0..ACCEPTS_PER_TURN {
            let listener = &mut self.listeners[index];
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let accepted = match rustix::net::accept_with(&listener.socket, flags) {
                Ok(socket) => {
                    if listener.tcp {
                        tcp::prepare(&socket).ok();
                    }
                    self.add(socket, Phase::Open)
                }
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(Errno::AGAIN) => {
                    listener.ready = false;
                    return;
                }
                Err(error) => Err(error.into()),
            };
            match accepted {
                Ok(conn) => {
                    self.table.events.push(Event::Accepted { listener: ListenerId(index as u32), conn });
                }
                Err(error) => {
                    tracing::warn!("cannot accept a connection: {error}");
                    self.listeners[index].ready = false;
                    self.listeners[index].rests_until = Some(Instant::now() + ACCEPT_REST);
                    return;
                }
            }
        }
    }

    fn serve_dirty(&mut self) {
        let dirty = self.table.take_dirty();
        for &id in &dirty {
            self.finish_connect(id);
            self.write(id);
            self.read(id);
        }
        self.table.done_dirty(dirty);
        while let Some(id) = self.table.expired() {
            self.remove(id, CloseReason::Local);
        }
    }

    fn finish_connect(&mut self, id: ConnId) {
        let Some(conn) = self.table.get_mut(id) else { return };
        if !matches!(conn.phase, Phase::Connecting) || !(conn.driver.writable || conn.driver.readable) {
            return;
        }
        match sockopt::socket_error(&conn.socket) {
            Ok(Ok(())) if rustix::net::getpeername(&conn.socket).is_err() => conn.driver.writable = false,
            Ok(Ok(())) => {
                conn.phase = Phase::Open;
                if !conn.muted {
                    self.table.events.push(Event::Connected { conn: id });
                }
            }
            Ok(Err(error)) | Err(error) => self.remove(id, CloseReason::ConnectFailed(error.into())),
        }
    }

    fn write(&mut self, id: ConnId) {
        loop {
            let Some(conn) = self.table.get_mut(id) else { return };
            if !conn.driver.writable || !conn.can_send() {
                return self.table.end_flush(id);
            }
            let parts = conn.outbox.load();
            let mut none = SendAncillaryBuffer::default();
            match rustix::net::sendmsg(&conn.socket, parts, &mut none, SendFlags::NOSIGNAL) {
                Ok(bytes) => self.table.sent(id, bytes),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => conn.driver.writable = false,
                Err(error) => return self.table.send_failed(id, error.into()),
            }
        }
    }

    fn read(&mut self, id: ConnId) {
        for _ in 0..READS_PER_TURN {
            let Some(conn) = self.table.get_mut(id) else { return };
            if !conn.driver.readable || matches!(conn.phase, Phase::Connecting) {
                return;
            }
            let Some(index) = self.buffers.take() else {
                self.starved.push(id);
                return;
            };
            let buffer = &mut self.buffers.all[index as usize][..];
            let received = rustix::net::recv(&conn.socket, &mut *buffer, RecvFlags::empty());
            if let Ok((len, _)) = received
                && len > 0
                && !conn.muted
            {
                conn.driver.readable = len == RECV_BUFFER_BYTES || conn.driver.read_closed;
                let buf = RecvBuf { index, len: len as u32 };
                self.table.events.push(Event::Received { conn: id, buf });
                continue;
            }
            self.buffers.free.push(index);
            match received {
                Ok((0, _)) => return self.remove(id, CloseReason::Peer),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => conn.driver.readable = false,
                Err(error) => return self.remove(id, CloseReason::Failed(error.into())),
            }
        }
        if self.table.get(id).is_some_and(|conn| conn.driver.readable) {
            self.table.mark_dirty(id);
        }
    }

    fn remove(&mut self, id: ConnId, reason: CloseReason) {
        if let Some(conn) = self.table.get(id) {
            // An error means that it was never registered, and then there is nothing to undo.
            self.poll.registry().deregister(&mut SourceFd(&conn.socket.as_raw_fd())).ok();
        }
        self.table.remove(id, reason);
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        match self.poll.poll(&mut self.ready, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            done => done?,
        }
        for event in &self.ready {
            match event.token() {
                WAKE => {
                    // The count does not matter, and "would block" only means that it was read before.
                    rustix::io::read(&self.wake, &mut [0_u8; 8]).ok();
                    self.table.events.push(Event::Woken);
                }
                Token(token) if token & LISTENER_BIT != 0 => {
                    self.listeners[token & !LISTENER_BIT].ready = true;
                }
                Token(token) => {
                    let id = ConnId(token as u64);
                    if let Some(conn) = self.table.get_mut(id) {
                        conn.driver.readable |=
                            event.is_readable() || event.is_read_closed() || event.is_error();
                        conn.driver.writable |=
                            event.is_writable() || event.is_write_closed() || event.is_error();
                        conn.driver.read_closed |= event.is_read_closed() || event.is_error();
                        self.table.mark_dirty(id);
                    }
                }
            }
        }
        Ok(())
    }
}

impl Reactor for EpollReactor {
    fn name(&self) -> &'static str {
        "epoll"
    }

    fn listen_tcp(&mut self, listener: TcpListener) -> io::Result<ListenerId> {
        self.listen(listener.into(), true)
    }

    fn listen_unix(&mut self, listener: UnixListener) -> io::Result<ListenerId> {
        self.listen(listener.into(), false)
    }

    fn connect(&mut self, address: SocketAddr) -> io::Result<ConnId> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        tcp::prepare(&socket)?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => self.add(socket, Phase::Connecting),
            Err(error) => {
                let id = self.table.insert(socket, Phase::Connecting, Readiness::default());
                self.table.remove(id, CloseReason::ConnectFailed(error.into()));
                Ok(id)
            }
        }
    }

    fn adopt(&mut self, socket: OwnedFd) -> io::Result<ConnId> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        self.add(socket, Phase::Open)
    }

    fn fd(&self, conn: ConnId) -> Option<BorrowedFd<'_>> {
        self.table.get(conn).map(|conn| conn.socket.as_fd())
    }

    fn send(&mut self, conn: ConnId, frame: Outgoing) {
        self.table.queue(conn, frame);
    }

    fn send_latest(&mut self, conn: ConnId, frame: Outgoing) {
        self.table.queue_latest(conn, frame);
    }

    fn queued_bytes(&self, conn: ConnId) -> usize {
        self.table.get(conn).map_or(0, |conn| conn.outbox.queued_bytes())
    }

    fn close(&mut self, conn: ConnId) {
        self.remove(conn, CloseReason::Local);
    }

    fn close_after_flush(&mut self, conn: ConnId) {
        self.table.begin_flush(conn);
    }

    fn wake_fd(&self) -> io::Result<OwnedFd> {
        self.wake.try_clone()
    }

    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        let may_wait = timeout != Some(Duration::ZERO);
        self.serve_dirty();
        self.accept_ready();
        let busy = !self.table.events.is_empty()
            || self.table.has_dirty()
            || self.listeners.iter().any(|listener| listener.ready);
        let timeout = if busy {
            Some(Duration::ZERO)
        } else {
            let rests = self.listeners.iter().map(|listener| listener.rests_until);
            wait_time(timeout, rests.chain([self.table.next_deadline()]))
        };
        self.wait(timeout)?;
        self.accept_ready();
        self.serve_dirty();
        for id in self.table.gone(may_wait) {
            self.remove(id, CloseReason::Failed(tcp::gone()));
        }
        events.append(&mut self.table.events);
        Ok(())
    }

    fn bytes(&self, buf: &RecvBuf) -> &[u8] {
        &self.buffers.all[buf.index as usize][..buf.len as usize]
    }

    fn recycle(&mut self, buf: RecvBuf) {
        self.buffers.free.push(buf.index);
        for id in std::mem::take(&mut self.starved) {
            self.table.mark_dirty(id);
        }
    }
}
