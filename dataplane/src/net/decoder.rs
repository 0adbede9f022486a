//! Takes a stream of bytes apart into frames, however it was cut.

use crate::memory::OwnedBlock;

use super::link::{FrameError, FrameHeader, FrameKind, FrameLimits, HEADER_BYTES};

/// Who gets the frames of a [`FrameDecoder`]. An error of any method ends the connection.
pub trait FrameSink {
    /// Where the body of a batch goes.
    type Block: AsMut<[u8]>;
    /// Why the sink refuses a frame.
    type Error;

    /// A batch begins; gives a block with room for `header.len` bytes.
    ///
    /// # Errors
    /// When the target is unknown or the sender had no credit for it.
    fn begin_batch(&mut self, header: &FrameHeader) -> Result<Self::Block, Self::Error>;

    /// The batch is whole: its bytes are the first `header.len` of the block.
    ///
    /// # Errors
    /// When its content is malformed.
    fn batch(&mut self, header: &FrameHeader, block: Self::Block) -> Result<(), Self::Error>;

    /// A control message came.
    ///
    /// # Errors
    /// When it is malformed or not rightful now.
    fn control(&mut self, body: &[u8]) -> Result<(), Self::Error>;

    /// A task has ended.
    ///
    /// # Errors
    /// When one of the tasks is unknown.
    fn end(&mut self, header: &FrameHeader) -> Result<(), Self::Error>;

    /// The peer has room.
    ///
    /// # Errors
    /// When the target is unknown.
    fn credit(&mut self, header: &FrameHeader) -> Result<(), Self::Error>;
}

/// Why a connection cannot go on.
#[derive(thiserror::Error, Clone, Debug, PartialEq, Eq)]
pub enum FeedError<E> {
    /// The bytes are no frames.
    #[error("malformed frame: {0}")]
    Frame(#[from] FrameError),
    /// The sink refused a frame.
    #[error("{0}")]
    Sink(E),
}

/// The state between two pieces of a stream. Batch bodies are copied once, straight into their block.
#[derive(Debug)]
pub struct FrameDecoder<B = OwnedBlock> {
    limits: FrameLimits,
    state: State<B>,
}

#[derive(Debug)]
enum State<B> {
    Header { bytes: [u8; HEADER_BYTES], have: usize },
    Batch { header: FrameHeader, block: B, filled: usize },
    Control { len: usize, body: Vec<u8> },
    Broken,
}

impl<B> State<B> {
    const START: Self = Self::Header { bytes: [0; HEADER_BYTES], have: 0 };
}

impl<B: AsMut<[u8]>> FrameDecoder<B> {
    /// At the beginning of a stream.
    #[must_use]
    pub fn new(limits: FrameLimits) -> Self {
        Self { limits, state: State::START }
    }

    /// Takes the next piece of the stream.
    ///
    /// # Errors
    /// At the first frame that is malformed or refused; nothing can be read after it.
    pub fn feed<S: FrameSink<Block = B>>(
        &mut self,
        mut bytes: &[u8],
        sink: &mut S,
    ) -> Result<(), FeedError<S::Error>> {
        while !bytes.is_empty() {
            // While a frame is handled the state is Broken, and it stays so if that fails.
            match std::mem::replace(&mut self.state, State::Broken) {
                State::Header { bytes: partial, have } => {
                    bytes = self.feed_header(partial, have, bytes, sink)?;
                }
                State::Batch { header, mut block, filled } => {
                    let (piece, rest) = bytes.split_at(bytes.len().min(header.len as usize - filled));
                    block.as_mut()[filled..filled + piece.len()].copy_from_slice(piece);
                    bytes = rest;
                    self.state = self.batch_grown(header, block, filled + piece.len(), sink)?;
                }
                State::Control { len, mut body } => {
                    let (piece, rest) = bytes.split_at(bytes.len().min(len - body.len()));
                    body.extend_from_slice(piece);
                    bytes = rest;
                    self.state = if body.len() == len {
                        sink.control(&body).map_err(FeedError::Sink)?;
                        State::START
                    } else {
                        State::Control { len, body }
                    };
                }
                State::Broken => return Err(FrameError::Broken.into()),
            }
        }
        Ok(())
    }

    /// The batch that has begun but is not whole, when the connection has ended; its block wants to go home.
    pub fn take_partial(&mut self) -> Option<(FrameHeader, B)> {
        match std::mem::replace(&mut self.state, State::Broken) {
            State::Batch { header, block, .. } => Some((header, block)),
            _ => None,
        }
    }

    fn feed_header<'a, S: FrameSink<Block = B>>(
        &mut self,
        mut partial: [u8; HEADER_BYTES],
        have: usize,
        bytes: &'a [u8],
        sink: &mut S,
    ) -> Result<&'a [u8], FeedError<S::Error>> {
        let (piece, rest) = bytes.split_at(bytes.len().min(HEADER_BYTES - have));
        partial[have..have + piece.len()].copy_from_slice(piece);
        let have = have + piece.len();
        if have < HEADER_BYTES {
            self.state = State::Header { bytes: partial, have };
            return Ok(rest);
        }
        let header = FrameHeader::decode(&partial)?;
        self.limits.check(&header)?;
        self.begin(header, rest, sink)
    }

    fn begin<'a, S: FrameSink<Block = B>>(
        &mut self,
        header: FrameHeader,
        bytes: &'a [u8],
        sink: &mut S,
    ) -> Result<&'a [u8], FeedError<S::Error>> {
        let len = header.len as usize;
        let mut rest = bytes;
        self.state = match header.kind {
            FrameKind::Batch => {
                let mut block = sink.begin_batch(&header).map_err(FeedError::Sink)?;
                let have = block.as_mut().len();
                if have < len {
                    return Err(FrameError::BlockTooSmall { need: header.len, have }.into());
                }
                self.batch_grown(header, block, 0, sink)?
            }
            FrameKind::Control if bytes.len() >= len => {
                let (body, after) = bytes.split_at(len);
                rest = after;
                sink.control(body).map_err(FeedError::Sink)?;
                State::START
            }
            // The body grows with what comes, never ahead of it with what the peer claims.
            FrameKind::Control => State::Control { len, body: Vec::new() },
            FrameKind::End => {
                sink.end(&header).map_err(FeedError::Sink)?;
                State::START
            }
            FrameKind::Credit => {
                sink.credit(&header).map_err(FeedError::Sink)?;
                State::START
            }
            FrameKind::Handshake => return Err(FrameError::UnexpectedHandshake.into()),
        };
        Ok(rest)
    }

    fn batch_grown<S: FrameSink<Block = B>>(
        &self,
        header: FrameHeader,
        block: B,
        filled: usize,
        sink: &mut S,
    ) -> Result<State<B>, FeedError<S::Error>> {
        if filled < header.len as usize {
            return Ok(State::Batch { header, block, filled });
        }
        sink.batch(&header, block).map_err(FeedError::Sink)?;
        Ok(State::START)
    }
}
