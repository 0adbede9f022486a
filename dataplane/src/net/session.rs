//! One connection's way from its first byte to its last: the handshake, where there is one, then frames.

use super::handshake::{Handshake, HandshakeError, Nonce, Secret};
use super::link::{FeedError, FrameDecoder, FrameHeader, FrameLimits, FrameSink, Outgoing};
use crate::memory::OwnedBlock;

/// The state of a connection. Bytes in, frames out.
#[derive(Debug)]
pub struct Session<B = OwnedBlock> {
    handshake: Option<Box<Handshake>>,
    decoder: FrameDecoder<B>,
}

/// What a piece of the stream led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The handshake goes on.
    Handshaking,
    /// The peer has just proven itself: frames may be sent now. Frames that came behind are with the sink already.
    JustEstablished,
    /// As before.
    Established,
}

/// Why a session cannot go on: close its connection.
#[derive(thiserror::Error, Clone, Debug, PartialEq, Eq)]
pub enum SessionError<E> {
    /// The peer has not proven itself.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// Its frames are bad.
    #[error(transparent)]
    Feed(#[from] FeedError<E>),
}

impl<B: AsMut<[u8]>> Session<B> {
    /// For a connection made by this side, over TCP.
    #[must_use]
    pub fn client(secret: &Secret, nonce: Nonce, limits: FrameLimits) -> Self {
        let handshake = Some(Box::new(Handshake::client(secret.clone(), nonce)));
        Self { handshake, decoder: FrameDecoder::new(limits) }
    }

    /// For an accepted TCP connection; the frame is the challenge, to be sent at once.
    #[must_use]
    pub fn server(secret: &Secret, nonce: Nonce, limits: FrameLimits) -> (Self, Outgoing) {
        let (handshake, challenge) = Handshake::server(secret.clone(), nonce);
        (Self { handshake: Some(Box::new(handshake)), decoder: FrameDecoder::new(limits) }, challenge)
    }

    /// For a peer that has been checked in another way: `SO_PEERCRED` of a Unix socket.
    #[must_use]
    pub fn trusted(limits: FrameLimits) -> Self {
        Self { handshake: None, decoder: FrameDecoder::new(limits) }
    }

    /// Whether the peer has proven itself.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.handshake.is_none()
    }

    /// Takes the next piece of the stream; `reply` is called with what the handshake has to send.
    ///
    /// # Errors
    /// [`SessionError`]: close the connection.
    pub fn on_bytes<S: FrameSink<Block = B>>(
        &mut self,
        mut bytes: &[u8],
        mut reply: impl FnMut(Outgoing),
        sink: &mut S,
    ) -> Result<Progress, SessionError<S::Error>> {
        let mut progress = Progress::Established;
        while let Some(handshake) = &mut self.handshake {
            if bytes.is_empty() {
                return Ok(Progress::Handshaking);
            }
            let step = handshake.feed(bytes)?;
            step.reply.into_iter().for_each(&mut reply);
            bytes = &bytes[step.used..];
            if step.established {
                self.handshake = None;
                progress = Progress::JustEstablished;
            }
        }
        self.decoder.feed(bytes, sink)?;
        Ok(progress)
    }

    /// See [`FrameDecoder::take_partial`].
    pub fn take_partial(&mut self) -> Option<(FrameHeader, B)> {
        self.decoder.take_partial()
    }
}
