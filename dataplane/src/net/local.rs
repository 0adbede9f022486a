//! The Unix sockets of a container, on a real host: whose socket it is, descriptors beside a frame, and how an instance
//! introduces itself.
//!
//! Paths go through the open folder, since a socket's path may have 107 bytes only.

use super::link::{Body, FrameHeader, FrameKind, HEADER_BYTES, Outgoing};
use rustix::fs::{Mode, OFlags};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

/// How long the other side may take to answer. It answers at once, or it is stopped.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The answer is a few numbers, or a sentence that says why not.
const MAX_ANSWER_BYTES: u32 = 64 << 10;
/// File descriptors that may come with an answer.
const MAX_FILES: usize = 3;

/// The frame that answers an introduction.
#[derive(Debug)]
pub struct Answer {
    /// Its body, a control message.
    pub body: Vec<u8>,
    /// What came with it.
    pub files: Vec<OwnedFd>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum IntroductionError {
    /// Nobody answers, now.
    #[error(transparent)]
    Unreachable(#[from] io::Error),
    /// What came is no answer.
    #[error("{0}")]
    Nonsense(String),
}

fn open(folder: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(folder, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Listens on the socket `name` in a folder, in place of whoever did before; only the own user may connect.
pub(super) fn listen(folder: &Path, name: &str) -> io::Result<UnixListener> {
    let open = open(folder)?;
    let path = format!("/proc/self/fd/{}/{name}", open.as_raw_fd());
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Sends a frame with descriptors. It is small enough to fit an empty socket's buffer at once.
pub(super) fn send_with_files(
    socket: BorrowedFd<'_>,
    frame: &Outgoing,
    files: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let Body::Bytes(body) = &frame.body else { return Err(io::ErrorKind::InvalidInput.into()) };
    let header = frame.header.encode();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::Error::other(format!("no room for {} descriptors", files.len())));
    }
    let pieces = [IoSlice::new(&header), IoSlice::new(body)];
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let sent = rustix::net::sendmsg(socket, &pieces, &mut ancillary, flags)?;
    if sent < header.len() + body.len() { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) }
}

/// Connects to the socket `name` in a folder, says who is there, and waits for the answer.
pub(super) fn introduce(
    folder: &Path,
    name: &str,
    frame: &Outgoing,
) -> Result<(UnixStream, Answer), IntroductionError> {
    let open = open(folder)?;
    let mut socket = UnixStream::connect(format!("/proc/self/fd/{}/{name}", open.as_raw_fd()))?;
    socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    socket.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    let Body::Bytes(body) = &frame.body else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput).into());
    };
    socket.write_all(&frame.header.encode())?;
    socket.write_all(body)?;
    let answer = receive(&mut socket)?;
    socket.set_read_timeout(None)?;
    socket.set_write_timeout(None)?;
    Ok((socket, answer))
}

/// Reads one control frame and the descriptors that come with its first byte.
fn receive(socket: &mut UnixStream) -> Result<Answer, IntroductionError> {
    let mut header = [0; HEADER_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut pieces = [IoSliceMut::new(&mut header)];
    let got = rustix::net::recvmsg(&*socket, &mut pieces, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        .map_err(io::Error::from)?;
    if got.bytes == 0 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    let mut files = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            files.extend(passed);
        }
    }
    socket.read_exact(&mut header[got.bytes..])?;
    let mut body = vec![0; answer_len(&header)?];
    socket.read_exact(&mut body)?;
    Ok(Answer { body, files })
}

/// How long the body of an answer is.
pub(crate) fn answer_len(header: &[u8; HEADER_BYTES]) -> Result<usize, IntroductionError> {
    let header = FrameHeader::decode(header).map_err(|e| IntroductionError::Nonsense(e.to_string()))?;
    if header.kind != FrameKind::Control || header.len > MAX_ANSWER_BYTES {
        let (kind, len) = (header.kind, header.len);
        return Err(IntroductionError::Nonsense(format!("{kind:?} frame of {len} bytes")));
    }
    Ok(header.len as usize)
}
