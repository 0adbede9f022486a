//! What moves bytes: one interface, two drivers.
//!
//! A reactor owns sockets and knows nothing of what they carry, beyond gathering a frame's header and body into one
//! send. It belongs to the thread that opened it. Its life:
//!
//! 1. [`Reactor::listen_tcp`], [`Reactor::listen_unix`], [`Reactor::connect`] and [`Reactor::adopt`] give it sockets.
//! 2. [`Reactor::send`] queues; nothing moves outside [`Reactor::poll`], so frames queued between two polls leave
//!    together.
//! 3. [`Reactor::poll`] appends what has happened. Each received piece is a [`RecvBuf`]: read it with
//!    [`Reactor::bytes`], then give it back with [`Reactor::recycle`]; there is a fixed number of them.
//! 4. Every [`ConnId`] ends with exactly one [`Event::Closed`], by whomever it was closed. Before it, the tokens of
//!    all its frames have come back, because the kernel is done with their memory by then.
//!
//! A connection that ends and a new one that gets its place never share an id, so a late answer reaches nobody.

use super::link::Outgoing;
use super::local;
use crate::host;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;
use tracing::info;

pub use super::local::{Answer, IntroductionError};

/// Bytes of a receive buffer.
pub(super) const RECV_BUFFER_BYTES: usize = 64 << 10;
/// Receive buffers of a reactor: together about half of a core's second-level cache, so that received bytes are
/// still in it when they are copied to their block.
pub(super) const RECV_BUFFERS: u16 = 16;

/// A connection of a reactor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId(pub(crate) u64);

/// A listener of a reactor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId(pub(crate) u32);

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// Someone connected.
    Accepted {
        /// To which listener.
        listener: ListenerId,
        /// The new connection.
        conn: ConnId,
    },
    /// A [`Reactor::connect`] succeeded.
    Connected {
        /// Which one.
        conn: ConnId,
    },
    /// Bytes came.
    Received {
        /// On which connection.
        conn: ConnId,
        /// The bytes; give it back with [`Reactor::recycle`].
        buf: RecvBuf,
    },
    /// The kernel is done with the memory of a frame. Unless the connection is closed next, it has taken it all.
    Sent {
        /// On which connection.
        conn: ConnId,
        /// The frame's token.
        token: u64,
    },
    /// The connection has ended, and its id with it.
    Closed {
        /// Which one.
        conn: ConnId,
        /// Why.
        reason: CloseReason,
    },
    /// Someone wrote to the [`Reactor::wake_fd`].
    Woken,
}

/// Why a connection ended.
#[derive(Debug)]
pub enum CloseReason {
    /// This side closed it.
    Local,
    /// The peer closed it.
    Peer,
    /// It could not be made.
    ConnectFailed(io::Error),
    /// It broke.
    Failed(io::Error),
}

impl std::fmt::Display for CloseReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local => f.write_str("closed from this side"),
            Self::Peer => f.write_str("closed by the peer"),
            Self::ConnectFailed(error) => write!(f, "cannot connect: {error}"),
            Self::Failed(error) => write!(f, "connection failed: {error}"),
        }
    }
}

/// A piece of received bytes in a buffer of the reactor. It must go back by [`Reactor::recycle`]: one that is dropped
/// instead is lost to its reactor.
#[derive(Debug)]
#[must_use = "give it back with Reactor::recycle"]
pub struct RecvBuf {
    pub(crate) index: u16,
    pub(crate) len: u32,
}

/// See the [module](self).
pub trait Reactor {
    /// `io_uring` or `epoll`, for logs.
    fn name(&self) -> &'static str;

    /// Accepts connections of a listener, each as the module `tcp` prepares it.
    ///
    /// # Errors
    /// When the driver cannot take the socket.
    fn listen_tcp(&mut self, listener: TcpListener) -> io::Result<ListenerId>;

    /// Accepts connections of a Unix listener.
    ///
    /// # Errors
    /// When the driver cannot take the socket.
    fn listen_unix(&mut self, listener: UnixListener) -> io::Result<ListenerId>;

    /// Listens on a free port of this address; the address with the port.
    ///
    /// # Errors
    /// When there is no such address here, or the driver cannot take the socket.
    fn bind_tcp(&mut self, host: IpAddr) -> io::Result<(ListenerId, SocketAddr)> {
        let listener = TcpListener::bind((host, 0))?;
        let address = listener.local_addr()?;
        Ok((self.listen_tcp(listener)?, address))
    }

    /// Listens on the Unix socket `name` in a folder, in place of whoever did before.
    ///
    /// # Errors
    /// When the folder is not there or not the own user's, or the driver cannot take the socket.
    fn bind_local(&mut self, folder: &Path, name: &str) -> io::Result<ListenerId> {
        self.listen_unix(local::listen(folder, name)?)
    }

    /// Connects to the Unix socket `name` in a folder, sends a control frame, and waits some seconds for the one that
    /// answers it.
    ///
    /// # Errors
    /// [`IntroductionError`]; there is no connection then.
    fn introduce(
        &mut self,
        folder: &Path,
        name: &str,
        frame: &Outgoing,
    ) -> Result<(ConnId, Answer), IntroductionError> {
        let (socket, answer) = local::introduce(folder, name, frame)?;
        Ok((self.adopt(OwnedFd::from(socket))?, answer))
    }

    /// The user at the other end of a Unix connection, if that can be told.
    fn peer_uid(&self, conn: ConnId) -> Option<u32> {
        let peer = rustix::net::sockopt::socket_peercred(self.fd(conn)?).ok()?;
        Some(peer.uid.as_raw())
    }

    /// Sends a control frame with file descriptors on a Unix connection on which nothing has been sent yet; past the
    /// queue.
    ///
    /// # Errors
    /// When it cannot be sent at once.
    fn send_with_files(
        &mut self,
        conn: ConnId,
        frame: &Outgoing,
        files: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        local::send_with_files(self.fd(conn).ok_or(io::ErrorKind::NotConnected)?, frame, files)
    }

    /// Begins to connect; [`Event::Connected`] or [`Event::Closed`] tells how it went. Frames may be queued at once.
    ///
    /// # Errors
    /// When there is no socket to be had.
    fn connect(&mut self, address: SocketAddr) -> io::Result<ConnId>;

    /// Takes a connected stream socket.
    ///
    /// # Errors
    /// When the driver cannot take the socket.
    fn adopt(&mut self, socket: OwnedFd) -> io::Result<ConnId>;

    /// The socket of a connection, to ask about its peer or to pass descriptors beside a frame while nothing else is
    /// queued. It may be in blocking mode: use `MSG_DONTWAIT`.
    fn fd(&self, conn: ConnId) -> Option<BorrowedFd<'_>>;

    /// Queues a frame. On a connection that has ended only its token comes back.
    fn send(&mut self, conn: ConnId, frame: Outgoing);

    /// Queues an urgent frame without a token that makes the last one so queued needless: where that still waits, this
    /// one takes its place, so that a peer that does not read has one waiting at most. A driver may as well
    /// send both.
    fn send_latest(&mut self, conn: ConnId, frame: Outgoing) {
        self.send(conn, frame);
    }

    /// Bytes queued and not yet taken by the kernel; who sends without credit bounds its queue by this.
    fn queued_bytes(&self, conn: ConnId) -> usize;

    /// Ends a connection without sending what is queued. Of it only tokens and [`Event::Closed`] come from now on.
    fn close(&mut self, conn: ConnId);

    /// Ends a connection when everything queued is sent and the peer has closed too, or after some seconds. Of it
    /// only tokens and [`Event::Closed`] come from now on.
    fn close_after_flush(&mut self, conn: ConnId);

    /// An eventfd; adding to it from any thread or process yields [`Event::Woken`].
    ///
    /// # Errors
    /// When descriptors run out.
    fn wake_fd(&self) -> io::Result<OwnedFd>;

    /// Moves bytes, and appends what has happened to `events`. Waits for the first event at most for `timeout`
    /// (`None`: however long it takes), without using CPU; may return early with none.
    ///
    /// # Errors
    /// When the driver itself fails; it cannot be used after that.
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()>;

    /// The bytes of a received piece.
    fn bytes(&self, buf: &RecvBuf) -> &[u8];

    /// Takes a buffer back.
    fn recycle(&mut self, buf: RecvBuf);
}

/// Which driver to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Choice {
    /// io_uring, or epoll where the kernel refuses it.
    #[default]
    Auto,
    /// io_uring or nothing.
    Uring,
    /// epoll.
    Epoll,
}

impl Choice {
    /// Reads the values of `egret.network.reactor`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "auto" => Self::Auto,
            "uring" => Self::Uring,
            "epoll" => Self::Epoll,
            _ => return None,
        })
    }
}

/// Opens a reactor for this thread.
///
/// # Errors
/// When the kernel refuses the chosen one; with [`Choice::Auto`] only when it refuses both.
pub fn open(choice: Choice) -> io::Result<Box<dyn Reactor>> {
    if let Some(host) = host::current() {
        return Ok(host.reactor());
    }
    if choice == Choice::Epoll {
        return Ok(Box::new(super::epoll::EpollReactor::new()?));
    }
    match super::uring::UringReactor::new() {
        Ok(reactor) => Ok(Box::new(reactor)),
        Err(error) if choice == Choice::Auto => {
            info!("io_uring refused ({error}), using epoll");
            Ok(Box::new(super::epoll::EpollReactor::new()?))
        }
        Err(error) => Err(error),
    }
}
