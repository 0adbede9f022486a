//! How an instance gets to know its stmgr: one message there, one back with three file descriptors.

use super::env::{InstanceEnv, SOCKET};
use super::mailbox::Attachment;
use egret_dataplane::memory::{Channel, Pool, PoolError};
use egret_dataplane::message::{InstanceAccepted, Message, PROTOCOL_VERSION, RegisterInstance};
use egret_dataplane::net::link::{FrameHeader, FrameKind, HEADER_BYTES};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use std::fs::File;
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// How long the stmgr may take to answer. It answers at once, or it is stopped.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The answer is a few numbers, or a sentence that says why not.
const MAX_ANSWER_BYTES: u32 = 64 << 10;

/// Why there is no registration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RegisterError {
    /// The stmgr does not answer, now: to be tried again.
    #[error("cannot reach the stmgr: {0}")]
    Unreachable(#[from] io::Error),
    /// The stmgr does not want this instance: final.
    #[error("the stmgr refused this instance: {0}")]
    Refused(String),
    /// It answered something else: of another version, or no stmgr.
    #[error("the stmgr's answer makes no sense: {0}")]
    Nonsense(String),
    /// What it gave cannot be mapped.
    #[error(transparent)]
    Memory(#[from] PoolError),
}

/// A connection whose other end has taken this instance.
pub(crate) struct Registered {
    pub(crate) socket: UnixStream,
    pub(crate) accepted: InstanceAccepted,
    pub(crate) attachment: Attachment,
}

/// Connects to the container's stmgr and registers with it.
pub(crate) fn register(env: &InstanceEnv, ended: bool) -> Result<Registered, RegisterError> {
    // A socket's path may have 107 bytes; the open folder's name below /proc is always short.
    let folder = File::open(&env.container_dir)?;
    let mut socket = UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()))?;
    socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    socket.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    let message = Message::RegisterInstance(RegisterInstance {
        version: PROTOCOL_VERSION,
        topology: env.topology.clone(),
        task: env.task,
        incarnation: env.incarnation,
        pid: std::process::id(),
        ended,
    })
    .encode();
    socket.write_all(&FrameHeader::new(FrameKind::Control, message.len() as u32, 0, 0).encode())?;
    socket.write_all(&message)?;
    let (answer, fds) = receive(&mut socket)?;
    match answer {
        Message::InstanceAccepted(accepted) => {
            let attachment = attach(fds)?;
            Ok(Registered { socket, accepted, attachment })
        }
        Message::Refused(reason) => Err(RegisterError::Refused(reason)),
        other => Err(RegisterError::Nonsense(format!("{other:?}"))),
    }
}

fn attach(fds: Vec<OwnedFd>) -> Result<Attachment, RegisterError> {
    let [pool, channel, eventfd]: [OwnedFd; 3] = fds
        .try_into()
        .map_err(|fds: Vec<_>| RegisterError::Nonsense(format!("{} file descriptors of 3", fds.len())))?;
    let pool = Arc::new(Pool::attach(pool)?);
    let stmgr = pool.stmgr_waker(eventfd);
    Ok(Attachment { channel: Channel::attach(channel)?, pool, stmgr })
}

/// Reads one control frame and the descriptors that come with its first byte.
fn receive(socket: &mut UnixStream) -> Result<(Message, Vec<OwnedFd>), RegisterError> {
    let mut header = [0; HEADER_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let got = rustix::net::recvmsg(
        &*socket,
        &mut [IoSliceMut::new(&mut header)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )
    .map_err(io::Error::from)?;
    if got.bytes == 0 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    let mut fds = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            fds.extend(passed);
        }
    }
    socket.read_exact(&mut header[got.bytes..])?;
    let header = FrameHeader::decode(&header).map_err(|e| RegisterError::Nonsense(e.to_string()))?;
    if header.kind != FrameKind::Control || header.len > MAX_ANSWER_BYTES {
        return Err(RegisterError::Nonsense(format!("{:?} frame of {} bytes", header.kind, header.len)));
    }
    let mut body = vec![0; header.len as usize];
    socket.read_exact(&mut body)?;
    let message = Message::decode(&body).map_err(|e| RegisterError::Nonsense(e.to_string()))?;
    Ok((message, fds))
}
