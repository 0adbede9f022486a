//! What becomes of the frames that a connection brings.

use super::core::{Core, Received};
use super::fault::Fault;
use super::route::Peer;
use crate::frame::{AckReader, BatchReader, Destination, Malformed, Purpose};
use crate::ids::{ContainerId, TaskId};
use crate::memory::{OwnedBlock, Pool};
use crate::message::{DecodeError, HelloPeer, Message};
use crate::net::link::{FrameHeader, FrameSink};
use std::sync::Arc;
use std::time::Duration;
use tracing::warn;

/// Why a frame ends its connection.
#[derive(thiserror::Error, Debug)]
pub(super) enum Refusal {
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error("a {0} frame has no place on this connection now")]
    OutOfPlace(&'static str),
    #[error("purpose {0} of a batch is unknown (0 to 2 are known)")]
    UnknownPurpose(u32),
    #[error("the peer says that it is container {0}, which cannot be")]
    WrongContainer(ContainerId),
    #[error("block {0} of the pool is in use where it should be free")]
    Claimed(crate::ids::BlockId),
}

/// A connection on which only messages come: an instance's, or the tmaster's.
#[derive(Debug, Default)]
pub(super) struct ControlSink {
    pub(super) messages: Vec<Message>,
}

impl FrameSink for ControlSink {
    type Block = OwnedBlock;
    type Error = Refusal;

    fn begin_batch(&mut self, _: &FrameHeader) -> Result<OwnedBlock, Refusal> {
        Err(Refusal::OutOfPlace("batch"))
    }

    fn batch(&mut self, _: &FrameHeader, _: OwnedBlock) -> Result<(), Refusal> {
        Err(Refusal::OutOfPlace("batch"))
    }

    fn control(&mut self, body: &[u8]) -> Result<(), Refusal> {
        self.messages.push(Message::decode(body)?);
        Ok(())
    }

    fn end(&mut self, _: &FrameHeader) -> Result<(), Refusal> {
        Err(Refusal::OutOfPlace("end"))
    }

    fn credit(&mut self, _: &FrameHeader) -> Result<(), Refusal> {
        Err(Refusal::OutOfPlace("credit"))
    }
}

/// A connection with another stmgr. Before its peer has said who it is nothing else may come.
///
/// The side that connected says hello first. The side that accepted answers, and only then is the link up for it, so
/// nothing can come behind that first hello; behind the answer the rest follows at once, and finds the link up.
pub(super) struct PeerSink<'a> {
    pub(super) core: &'a mut Core,
    pub(super) pool: &'a Arc<Pool>,
    /// Who it is; set once the link is up.
    pub(super) linked: Option<Peer>,
    /// Whom this side connected to; `None` when it accepted.
    pub(super) dialed: Option<Peer>,
    /// What the peer said of itself in this piece of the stream.
    pub(super) hello: Option<HelloPeer>,
    /// The core's time.
    pub(super) now: Duration,
}

impl PeerSink<'_> {
    fn peer(&self, kind: &'static str) -> Result<Peer, Refusal> {
        self.linked.ok_or(Refusal::OutOfPlace(kind))
    }

    fn says_hello(&mut self, hello: HelloPeer) -> Result<(), Refusal> {
        let wrong = Refusal::WrongContainer(hello.container);
        let routes = self.core.routes();
        let Some(peer) = routes.peer(hello.container) else { return Err(wrong) };
        match self.dialed {
            Some(expected) if expected == peer => {
                self.core.peer_up(peer);
                self.linked = Some(peer);
            }
            None if hello.container < routes.container() => {}
            _ => return Err(wrong),
        }
        self.hello = Some(hello);
        Ok(())
    }
}

impl FrameSink for PeerSink<'_> {
    type Block = OwnedBlock;
    type Error = Refusal;

    fn begin_batch(&mut self, header: &FrameHeader) -> Result<OwnedBlock, Refusal> {
        let peer = self.peer("batch")?;
        let purpose = Purpose::from_u32(header.aux).ok_or(Refusal::UnknownPurpose(header.aux))?;
        let target = Destination::from_u32(header.target);
        let block = self.core.begin_batch(peer, target, purpose, header.len)?;
        self.pool.claim(block).ok_or(Refusal::Claimed(block))
    }

    fn batch(&mut self, header: &FrameHeader, block: OwnedBlock) -> Result<(), Refusal> {
        let peer = self.peer("batch")?;
        let bytes = &block.bytes()[..header.len as usize];
        let (received, count) = examine(header, bytes);
        // The claim ends before the descriptor goes on.
        drop(block);
        if header.aux == Purpose::Data as u32 {
            self.core.counters.copied_bytes += u64::from(header.len);
        }
        let received = received.inspect_err(|error| warn!(?peer, %error, "dropped a received batch")).ok();
        if !self.core.batch(peer, received, count) && received.is_some() {
            warn!(?peer, ?received, "dropped a received batch that does not fit the plan");
        }
        Ok(())
    }

    fn control(&mut self, body: &[u8]) -> Result<(), Refusal> {
        match Message::decode(body)? {
            Message::HelloPeer(hello) if self.linked.is_none() && self.hello.is_none() => {
                self.says_hello(hello)
            }
            Message::Backpressure(statement) => {
                let peer = self.peer("backpressure")?;
                Ok(self.core.holders_of_peer(peer, &statement, self.now)?)
            }
            Message::FailAll(spouts) => {
                self.peer("fail all")?;
                Ok(self.core.fail_all_from_peer(&spouts)?)
            }
            _ => Err(Refusal::OutOfPlace("control")),
        }
    }

    fn end(&mut self, header: &FrameHeader) -> Result<(), Refusal> {
        let peer = self.peer("end")?;
        Ok(self.core.end_from_peer(peer, TaskId(header.target), TaskId(header.aux))?)
    }

    fn credit(&mut self, header: &FrameHeader) -> Result<(), Refusal> {
        let peer = self.peer("credit")?;
        let (class, blocks) = ((header.aux >> 24) as usize, header.aux & 0x00ff_ffff);
        Ok(self.core.credit(peer, Destination::from_u32(header.target), class, blocks)?)
    }
}

/// What a batch says of itself, when all of it holds together; and how many tuples or records it claims, as far as one
/// can tell.
fn examine(header: &FrameHeader, bytes: &[u8]) -> (Result<Received, Malformed>, u32) {
    let whole = |used: usize| match used == bytes.len() {
        true => Ok(()),
        false => Err(Malformed::Used { claimed: used as u32, actual: bytes.len() }),
    };
    let used = header.len;
    if header.aux == Purpose::Ack as u32 {
        let received = AckReader::new(bytes).and_then(|reader| {
            whole(reader.used())?;
            let (head, count) = (reader.header(), reader.count());
            Ok(Received { source: head.source, target: Destination::Task(head.owner.spout()), used, count })
        });
        return (received, received.map_or(1, |received| received.count));
    }
    let reader = match BatchReader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (Err(error), 1),
    };
    let (head, count) = (reader.header(), reader.count());
    let checked = whole(reader.used()).and_then(|()| reader.validate());
    (checked.map(|()| Received { source: head.source, target: head.target, used, count }), count)
}
