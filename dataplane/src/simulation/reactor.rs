//! A simulated process's view of its connections.

use super::wires::EndId;
use super::world::World;
use crate::host;
use crate::net::link::{HEADER_BYTES, Outgoing};
use crate::net::local::{ANSWER_TIMEOUT, answer_len};
use crate::net::reactor::{Answer, ConnId, Event, IntroductionError, ListenerId, Reactor, RecvBuf};
use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

pub(super) struct WireReactor {
    world: Weak<World>,
    endpoint: usize,
    /// By the index of a [`RecvBuf`].
    buffers: Vec<Option<Vec<u8>>>,
    doorbell: Option<OwnedFd>,
    /// Something has changed since it polled last.
    has_news: Rc<Cell<bool>>,
}

impl WireReactor {
    pub(super) fn new(
        world: Weak<World>,
        endpoint: usize,
        doorbell: Option<OwnedFd>,
        has_news: Rc<Cell<bool>>,
    ) -> Self {
        Self { world, endpoint, buffers: Vec::new(), doorbell, has_news }
    }

    /// The world; what its last breath leaves behind needs no answer.
    fn world(&self) -> io::Result<Rc<World>> {
        self.world.upgrade().ok_or_else(|| io::Error::other("the simulated world is over"))
    }

    fn look(&mut self, world: &World, events: &mut Vec<Event>) {
        let buffers = &mut self.buffers;
        let mut keep = |conn, bytes: Vec<u8>| {
            let index = buffers.iter().position(Option::is_none).unwrap_or_else(|| {
                buffers.push(None);
                buffers.len() - 1
            });
            let buf = RecvBuf { index: index as u16, len: bytes.len() as u32 };
            buffers[index] = Some(bytes);
            Some(Event::Received { conn, buf })
        };
        let now = world.now_ns();
        world.wires.borrow_mut().poll(self.endpoint, now, events, &mut keep);
    }

    /// Lets others run until there is something to look at or it is `due`.
    fn wait(&self, due: Option<Instant>) {
        let has_news = self.has_news.clone();
        host::wait(due, move || has_news.get());
    }

    /// Waits for the answer on a connection of which nobody knows yet.
    fn await_answer(&self, world: &World, id: EndId) -> Result<Answer, IntroductionError> {
        let (mut bytes, mut files) = (Vec::new(), Vec::new());
        let deadline = host::now() + ANSWER_TIMEOUT;
        loop {
            let piece = world.wires.borrow_mut().take_bytes(id, world.now_ns(), &mut files);
            let piece = piece.map_err(|()| io::Error::from(io::ErrorKind::UnexpectedEof))?;
            let came = piece.is_some();
            bytes.extend(piece.into_iter().flatten());
            if let Some(header) = bytes.first_chunk::<HEADER_BYTES>() {
                let end = HEADER_BYTES + answer_len(header)?;
                if bytes.len() >= end {
                    world.wires.borrow_mut().put_back(id, bytes.split_off(end));
                    return Ok(Answer { body: bytes.split_off(HEADER_BYTES), files });
                }
            }
            if host::now() >= deadline {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
            if !came {
                let due = world.wires.borrow().due_at(id);
                let due = due.map(|at| host::now() + Duration::from_nanos(at.saturating_sub(world.now_ns())));
                self.has_news.set(false);
                self.wait(due.into_iter().chain([deadline]).min());
            }
        }
    }
}

impl Reactor for WireReactor {
    fn name(&self) -> &'static str {
        "simulation"
    }

    fn listen_tcp(&mut self, _: TcpListener) -> io::Result<ListenerId> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn listen_unix(&mut self, _: UnixListener) -> io::Result<ListenerId> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn bind_tcp(&mut self, _: IpAddr) -> io::Result<(ListenerId, SocketAddr)> {
        Ok(self.world()?.wires.borrow_mut().bind_tcp(self.endpoint))
    }

    fn bind_local(&mut self, folder: &Path, name: &str) -> io::Result<ListenerId> {
        Ok(self.world()?.wires.borrow_mut().bind_local(self.endpoint, folder.join(name)))
    }

    fn introduce(
        &mut self,
        folder: &Path,
        name: &str,
        frame: &Outgoing,
    ) -> Result<(ConnId, Answer), IntroductionError> {
        let world = self.world()?;
        let now = world.now_ns();
        let id = world.wires.borrow_mut().connect_local(self.endpoint, &folder.join(name), now);
        let id = id.ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionRefused))?;
        world.wires.borrow_mut().send_now(id, frame, Vec::new(), now);
        let answer = self.await_answer(&world, id);
        if answer.is_err() {
            world.wires.borrow_mut().forget(id, world.now_ns());
        }
        Ok((ConnId(id as u64), answer?))
    }

    fn peer_uid(&self, _: ConnId) -> Option<u32> {
        Some(rustix::process::geteuid().as_raw())
    }

    fn send_with_files(
        &mut self,
        conn: ConnId,
        frame: &Outgoing,
        files: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let files = files.iter().map(BorrowedFd::try_clone_to_owned).collect::<io::Result<Vec<_>>>()?;
        let world = self.world()?;
        let sent = world.wires.borrow_mut().send_now(conn.0 as usize, frame, files, world.now_ns());
        if sent { Ok(()) } else { Err(io::ErrorKind::NotConnected.into()) }
    }

    fn connect(&mut self, address: SocketAddr) -> io::Result<ConnId> {
        let world = self.world()?;
        let id = world.wires.borrow_mut().connect(self.endpoint, address, world.now_ns());
        Ok(ConnId(id as u64))
    }

    fn adopt(&mut self, _: OwnedFd) -> io::Result<ConnId> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn fd(&self, _: ConnId) -> Option<BorrowedFd<'_>> {
        None
    }

    fn send(&mut self, conn: ConnId, frame: Outgoing) {
        if let Ok(world) = self.world() {
            world.wires.borrow_mut().send(conn.0 as usize, frame);
        }
    }

    fn queued_bytes(&self, conn: ConnId) -> usize {
        self.world().map_or(0, |world| world.wires.borrow().queued_bytes(conn.0 as usize))
    }

    fn close(&mut self, conn: ConnId) {
        if let Ok(world) = self.world() {
            world.wires.borrow_mut().close(conn.0 as usize, world.now_ns());
        }
    }

    fn close_after_flush(&mut self, conn: ConnId) {
        if let Ok(world) = self.world() {
            world.wires.borrow_mut().close_after_flush(conn.0 as usize, world.now_ns());
        }
    }

    fn wake_fd(&self) -> io::Result<OwnedFd> {
        self.doorbell.as_ref().ok_or(io::ErrorKind::NotConnected)?.try_clone()
    }

    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        host::step();
        let world = self.world()?;
        let deadline = timeout.map(|timeout| host::now() + timeout);
        loop {
            self.look(&world, events);
            let is_over = |at: Instant| host::now() >= at;
            if !events.is_empty() || deadline.is_some_and(is_over) {
                return Ok(());
            }
            let now = world.now_ns();
            let due = world.wires.borrow().next_due(self.endpoint, now);
            let due = due.map(|at| host::now() + Duration::from_nanos(at.saturating_sub(now)));
            self.wait(due.into_iter().chain(deadline).min());
        }
    }

    fn bytes(&self, buf: &RecvBuf) -> &[u8] {
        self.buffers[buf.index as usize].as_deref().unwrap_or_default()
    }

    fn recycle(&mut self, buf: RecvBuf) {
        self.buffers[buf.index as usize] = None;
    }
}
