//! The reactor over io_uring.
//!
//! Of each connection at most these operations are with the kernel: one multishot receive, which picks its buffers
//! from a ring of provided ones; one gather send (never two, so a short one cannot let another overtake its rest);
//! one connect; and, at its end, one cancel.
//!
//! Closing a descriptor cancels nothing: what is pending would go on with memory that is freed by then. So a
//! connection that ends is shut down, its operations are cancelled, and its place, its descriptor and its frames are
//! kept until the last completion is in. The same holds for the whole reactor when it is dropped.
#![allow(unsafe_code)]

mod buffers;
mod ring;

use super::conn::{ACCEPT_REST, Conn, Phase, Table, wait_time};
use super::link::Outgoing;
use super::reactor::{
    CloseReason, ConnId, Event, ListenerId, RECV_BUFFER_BYTES, RECV_BUFFERS, Reactor, RecvBuf,
};
use super::tcp;
use buffers::{GROUP, RecvRing};
use io_uring::{cqueue, opcode, squeue, types};
use ring::{Completion, Ring, Wait};
use rustix::event::EventfdFlags;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{AddressFamily, Shutdown, SocketAddrAny, SocketFlags, SocketType};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

/// Submission and completion queue entries. Neither bounds the operations in flight: more wait in line.
const ENTRIES: (u32, u32) = (128, 512);

/// The kind of an operation, above the connection's id in its user data.
const RECV: u64 = 1 << 56;
const SEND: u64 = 2 << 56;
const CONNECT: u64 = 3 << 56;
const CANCEL: u64 = 4 << 56;
const ACCEPT: u64 = 5 << 56;
const WAKE: u64 = 6 << 56;
const KIND: u64 = 0xff << 56;

/// See the [module](self).
pub struct UringReactor {
    // The ring goes first when fields are dropped: the kernel lets go of the buffers before they are unmapped.
    ring: Ring,
    buffers: RecvRing,
    table: Table<Ops>,
    listeners: Vec<Listener>,
    wake: OwnedFd,
    wake_count: Box<[u8; 8]>,
    /// Connections whose receive waits for a buffer to come back from the user.
    starved: Vec<ConnId>,
    /// Operations whose last completion is not in.
    in_flight: usize,
}

/// What the kernel holds of a connection.
struct Ops {
    recv: bool,
    send: bool,
    cancel: bool,
    connect: Option<Box<SocketAddrAny>>,
    message: Box<libc::msghdr>,
}

struct Listener {
    socket: OwnedFd,
    tcp: bool,
    armed: bool,
    rests_until: Option<Instant>,
}

impl Ops {
    fn new() -> Self {
        // SAFETY: msghdr is plain C data for which zeros (null pointers, no lengths) are valid.
        let message = Box::new(unsafe { std::mem::zeroed::<libc::msghdr>() });
        Self { recv: false, send: false, cancel: false, connect: None, message }
    }

    fn idle(&self) -> bool {
        !self.recv && !self.send && !self.cancel && self.connect.is_none()
    }
}

fn fd_of(conn: &Conn<Ops>) -> types::Fd {
    types::Fd(conn.socket.as_raw_fd())
}

fn os_error(result: i32) -> io::Error {
    io::Error::from_raw_os_error(-result)
}

impl UringReactor {
    /// Opens it.
    ///
    /// # Errors
    /// When the kernel refuses io_uring or is older than 6.0.
    pub fn new() -> io::Result<Self> {
        Self::with_entries(ENTRIES.0, ENTRIES.1)
    }

    /// Opens it with queues of these sizes, powers of two.
    ///
    /// # Errors
    /// As [`UringReactor::new`].
    pub fn with_entries(submissions: u32, completions: u32) -> io::Result<Self> {
        let ring = Ring::new(submissions, completions)?;
        let buffers = RecvRing::new(&ring, RECV_BUFFERS, RECV_BUFFER_BYTES)?;
        // In blocking mode, or the kernel would answer a read with "would block" and not wait for the write.
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?;
        let mut reactor = Self {
            ring,
            buffers,
            table: Table::new(),
            listeners: Vec::new(),
            wake,
            wake_count: Box::new([0; 8]),
            starved: Vec::new(),
            in_flight: 0,
        };
        reactor.arm_wake();
        Ok(reactor)
    }

    /// How often completions did not fit the completion queue; the kernel kept them, and none was lost.
    #[must_use]
    pub fn overflows(&self) -> u64 {
        self.ring.overflows()
    }

    /// # Safety
    /// All memory that `entry` names must stay in its place until its last completion.
    unsafe fn push(&mut self, entry: squeue::Entry, user_data: u64) {
        self.in_flight += 1;
        // SAFETY: the caller's promise.
        unsafe { self.ring.push(entry.user_data(user_data)) };
    }

    fn arm_wake(&mut self) {
        let fd = types::Fd(self.wake.as_raw_fd());
        let read = opcode::Read::new(fd, self.wake_count.as_mut_ptr(), 8).build();
        // SAFETY: the boxed count is used for nothing else, and freed only when nothing is in flight.
        unsafe { self.push(read, WAKE) };
    }

    fn listen(&mut self, socket: OwnedFd, tcp: bool) -> io::Result<ListenerId> {
        rustix::io::ioctl_fionbio(&socket, false)?;
        let index = u32::try_from(self.listeners.len()).map_err(io::Error::other)?;
        self.listeners.push(Listener { socket, tcp, armed: false, rests_until: None });
        Ok(ListenerId(index))
    }

    fn arm_listeners(&mut self) {
        for index in 0..self.listeners.len() {
            let listener = &mut self.listeners[index];
            if listener.armed || listener.rests_until.is_some_and(|until| until > Instant::now()) {
                continue;
            }
            (listener.armed, listener.rests_until) = (true, None);
            let fd = types::Fd(listener.socket.as_raw_fd());
            let accept = opcode::AcceptMulti::new(fd).flags(libc::SOCK_CLOEXEC).build();
            // SAFETY: it names no memory.
            unsafe { self.push(accept, ACCEPT | index as u64) };
        }
    }

    /// Starts whatever a connection wants and is not under way.
    fn serve(&mut self, id: ConnId) {
        let Some(conn) = self.table.get_mut(id) else { return };
        if !matches!(conn.phase, Phase::Open) {
            return;
        }
        let (recv, send) = (!conn.driver.recv, !conn.driver.send && conn.can_send());
        if recv && self.buffers.available() == 0 {
            self.starved.push(id);
        } else if recv {
            conn.driver.recv = true;
            let recv = opcode::RecvMulti::new(fd_of(conn), GROUP).build();
            // SAFETY: the buffers of the group live as long as the ring.
            unsafe { self.push(recv, RECV | id.0) };
        }
        if send {
            self.start_send(id);
        } else {
            self.table.end_flush(id);
        }
    }

    fn start_send(&mut self, id: ConnId) {
        let Some(conn) = self.table.get_mut(id) else { return };
        let parts = conn.outbox.load();
        let message = &mut conn.driver.message;
        message.msg_iov = parts.as_ptr().cast::<libc::iovec>().cast_mut();
        message.msg_iovlen = parts.len();
        conn.driver.send = true;
        let message: *const libc::msghdr = &raw const **message;
        let send = opcode::SendMsg::new(fd_of(conn), message).flags(libc::MSG_NOSIGNAL as u32).build();
        // SAFETY: message header, list, headers and bodies are in boxes, blocks and shared buffers that the
        // connection keeps until `driver.send` is false again.
        unsafe { self.push(send, SEND | id.0) };
    }

    fn begin_close(&mut self, id: ConnId, reason: CloseReason) {
        let Some(conn) = self.table.get_mut(id) else { return };
        if !matches!(conn.phase, Phase::Closing(_)) {
            conn.phase = Phase::Closing(reason);
            // So that operations which are being executed, and cannot be cancelled, end too.
            rustix::net::shutdown(&conn.socket, Shutdown::Both).ok();
            if !conn.driver.idle() {
                conn.driver.cancel = true;
                let all = types::CancelBuilder::fd(fd_of(conn)).all();
                // SAFETY: it names no memory, and the descriptor is open until its completion is in.
                unsafe { self.push(opcode::AsyncCancel2::new(all).build(), CANCEL | id.0) };
            }
        }
        self.settle(id);
    }

    /// Removes a connection that is closing when the kernel is done with it.
    fn settle(&mut self, id: ConnId) {
        let Some(conn) = self.table.get_mut(id) else { return };
        if !conn.driver.idle() {
            return;
        }
        if let Phase::Closing(reason) = &mut conn.phase {
            let reason = std::mem::replace(reason, CloseReason::Local);
            self.table.remove(id, reason);
        }
    }

    fn reap(&mut self) {
        while let Some(completion) = self.ring.next() {
            if !cqueue::more(completion.flags) {
                self.in_flight -= 1;
            }
            let id = ConnId(completion.user_data & !KIND);
            match completion.user_data & KIND {
                RECV => self.on_recv(id, completion),
                SEND => self.on_send(id, completion.result),
                CONNECT => self.on_connect(id, completion.result),
                CANCEL => self.on_cancel(id),
                ACCEPT => self.on_accept(id.0 as usize, completion),
                _ => self.on_wake(completion.result),
            }
        }
    }

    fn on_recv(&mut self, id: ConnId, Completion { result, flags, .. }: Completion) {
        let index = cqueue::buffer_select(flags);
        if index.is_some() {
            self.buffers.taken();
        }
        let Some(conn) = self.table.get_mut(id) else { return };
        conn.driver.recv = cqueue::more(flags);
        let wanted = !conn.muted && matches!(conn.phase, Phase::Open);
        match index {
            Some(index) if result > 0 && wanted => {
                let buf = RecvBuf { index, len: result as u32 };
                self.table.events.push(Event::Received { conn: id, buf });
            }
            Some(index) => self.give_back(index),
            None => {}
        }
        match -result {
            0 => self.begin_close(id, CloseReason::Peer),
            ..0 if cqueue::more(flags) => {}
            // It has stopped for want of a buffer or of a place in the completion queue: it starts again.
            ..0 | libc::ENOBUFS | libc::EINTR | libc::EAGAIN => self.table.mark_dirty(id),
            // Cancelled by `begin_close`.
            libc::ECANCELED => {}
            _ => self.begin_close(id, CloseReason::Failed(os_error(result))),
        }
        self.settle(id);
    }

    fn on_send(&mut self, id: ConnId, result: i32) {
        let Some(conn) = self.table.get_mut(id) else { return };
        conn.driver.send = false;
        let closing = matches!(conn.phase, Phase::Closing(_));
        match (-result, usize::try_from(result)) {
            (_, Ok(bytes)) => self.table.sent(id, bytes),
            (libc::EINTR | libc::EAGAIN, _) => {}
            _ if closing => {}
            _ => self.table.send_failed(id, os_error(result)),
        }
        self.table.mark_dirty(id);
        self.settle(id);
    }

    fn on_connect(&mut self, id: ConnId, result: i32) {
        let Some(conn) = self.table.get_mut(id) else { return };
        conn.driver.connect = None;
        if matches!(conn.phase, Phase::Closing(_)) {
            return self.settle(id);
        }
        if result < 0 {
            return self.begin_close(id, CloseReason::ConnectFailed(os_error(result)));
        }
        conn.phase = Phase::Open;
        if !conn.muted {
            self.table.events.push(Event::Connected { conn: id });
        }
        self.table.mark_dirty(id);
    }

    fn on_cancel(&mut self, id: ConnId) {
        if let Some(conn) = self.table.get_mut(id) {
            conn.driver.cancel = false;
        }
        self.settle(id);
    }

    fn on_accept(&mut self, index: usize, Completion { result, flags, .. }: Completion) {
        let listener = &mut self.listeners[index];
        listener.armed = cqueue::more(flags);
        if result < 0 {
            if !matches!(-result, libc::EINTR | libc::ECONNABORTED | libc::ECANCELED) {
                tracing::warn!("cannot accept a connection: {}", os_error(result));
                listener.rests_until = Some(Instant::now() + ACCEPT_REST);
            }
            return;
        }
        // SAFETY: the kernel has just made this descriptor for us.
        let socket = unsafe { OwnedFd::from_raw_fd(result) };
        if listener.tcp {
            tcp::prepare(&socket).ok();
        }
        let conn = self.table.insert(socket, Phase::Open, Ops::new());
        self.table.mark_dirty(conn);
        self.table.events.push(Event::Accepted { listener: ListenerId(index as u32), conn });
    }

    fn on_wake(&mut self, result: i32) {
        if result > 0 {
            self.table.events.push(Event::Woken);
        }
        if result != -libc::ECANCELED {
            self.arm_wake();
        }
    }

    fn give_back(&mut self, index: u16) {
        self.buffers.provide(index);
        for id in std::mem::take(&mut self.starved) {
            self.table.mark_dirty(id);
        }
    }
}

impl Reactor for UringReactor {
    fn name(&self) -> &'static str {
        "io_uring"
    }

    fn listen_tcp(&mut self, listener: TcpListener) -> io::Result<ListenerId> {
        self.listen(listener.into(), true)
    }

    fn listen_unix(&mut self, listener: UnixListener) -> io::Result<ListenerId> {
        self.listen(listener.into(), false)
    }

    fn connect(&mut self, address: SocketAddr) -> io::Result<ConnId> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        tcp::prepare(&socket)?;
        let address = Box::new(address.as_any());
        let (start, len) = (address.as_ptr().cast::<libc::sockaddr>(), address.addr_len());
        let connect = opcode::Connect::new(types::Fd(socket.as_raw_fd()), start, len).build();
        let mut ops = Ops::new();
        ops.connect = Some(address);
        let id = self.table.insert(socket, Phase::Connecting, ops);
        // SAFETY: the boxed address is kept until the completion is in.
        unsafe { self.push(connect, CONNECT | id.0) };
        Ok(id)
    }

    fn adopt(&mut self, socket: OwnedFd) -> io::Result<ConnId> {
        rustix::io::ioctl_fionbio(&socket, false)?;
        let id = self.table.insert(socket, Phase::Open, Ops::new());
        self.table.mark_dirty(id);
        Ok(id)
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
        if let Some(found) = self.table.get_mut(conn) {
            found.muted = true;
            self.begin_close(conn, CloseReason::Local);
        }
    }

    fn close_after_flush(&mut self, conn: ConnId) {
        self.table.begin_flush(conn);
    }

    fn wake_fd(&self) -> io::Result<OwnedFd> {
        self.wake.try_clone()
    }

    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        self.arm_listeners();
        let dirty = self.table.take_dirty();
        dirty.iter().for_each(|&id| self.serve(id));
        self.table.done_dirty(dirty);
        let wait = if self.table.events.is_empty() && !self.table.has_dirty() {
            let rests = self.listeners.iter().map(|listener| listener.rests_until);
            Wait::UpTo(wait_time(timeout, rests.chain([self.table.next_deadline()])))
        } else {
            Wait::No
        };
        self.ring.enter(wait)?;
        self.reap();
        while let Some(id) = self.table.expired() {
            self.table.end_deadline(id);
            self.begin_close(id, CloseReason::Local);
        }
        for id in self.table.gone(timeout != Some(Duration::ZERO)) {
            self.begin_close(id, CloseReason::Failed(tcp::gone()));
        }
        events.append(&mut self.table.events);
        Ok(())
    }

    fn bytes(&self, buf: &RecvBuf) -> &[u8] {
        self.buffers.bytes(buf.index, buf.len as usize)
    }

    fn recycle(&mut self, buf: RecvBuf) {
        self.give_back(buf.index);
    }
}

impl Drop for UringReactor {
    fn drop(&mut self) {
        for id in self.table.ids() {
            self.close(id);
        }
        self.in_flight += 1;
        let cancel = opcode::AsyncCancel2::new(types::CancelBuilder::any()).build().user_data(CANCEL | !KIND);
        // SAFETY: it names no memory.
        unsafe { self.ring.push(cancel) };
        for _ in 0..100 {
            let wait = Wait::UpTo(Some(Duration::from_millis(50)));
            if self.in_flight == 0 || self.ring.enter(wait).is_err() {
                break;
            }
            self.reap();
        }
        if self.in_flight > 0 {
            // The kernel may still write to this memory: better to lose it than to let others have it.
            tracing::error!("io_uring keeps {} operations, leaving their memory to it", self.in_flight);
            std::mem::forget(std::mem::replace(&mut self.table, Table::new()));
            std::mem::forget(std::mem::take(&mut self.wake_count));
            self.buffers.leak();
        }
    }
}
