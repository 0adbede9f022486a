//! Peers: links that come and go, the frames that come over them, and what goes out.

use super::{Cause, Core, Effect, Flight};
use crate::frame::{AckBuilder, Destination, Purpose};
use crate::ids::{BlockId, TaskId};
use crate::memory::CLASSES;
use crate::mutants::{self, Mutant};
use crate::stmgr::credit::Waiting;
use crate::stmgr::fault::Fault;
use crate::stmgr::route::{Peer, Place, QueueIndex, Slot};
use crate::stmgr::watermarks::Place as Waits;

/// What a received batch says of itself, once its structure has been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Who wrote it.
    pub source: TaskId,
    /// Who is to get it; of a batch that was lost, who should have got it.
    pub target: Destination,
    /// Bytes in use.
    pub used: u32,
    /// Tuples or records.
    pub count: u32,
}

impl Core {
    /// The link to `peer` stands, a new one: credit is stated afresh, and ends are told again.
    pub fn peer_up(&mut self, peer: Peer) {
        self.peer_down(peer);
        (self.peers[peer.at()].linked, self.peers[peer.at()].lost) = (true, false);
        for window in self.windows.iter_mut().filter(|w| w.pair.peer == peer) {
            let free = window.restate();
            for (class, blocks) in free.into_iter().enumerate().filter(|&(_, blocks)| blocks > 0) {
                self.effects.push(Effect::SendCredit {
                    peer,
                    target: window.pair.destination,
                    class,
                    blocks,
                });
            }
        }
        self.repeat_ends(peer);
        if !self.peers[peer.at()].untold.is_empty() {
            self.effects.push(Effect::TellFailAll(peer));
        }
        if self.pressure.has_stated() {
            self.effects.push(Effect::StateHolders(peer));
        }
        for queue in 0..self.queues.len() as u32 {
            if self.queues[queue as usize].pair.peer == peer {
                self.pump(QueueIndex(queue));
            }
        }
    }

    /// The link to `peer` is gone. What was on the wire is lost; tuples and ends that wait here wait for the next link.
    pub fn peer_down(&mut self, peer: Peer) {
        let state = &mut self.peers[peer.at()];
        let was_linked = std::mem::take(&mut state.linked);
        if let Some((window, block, _)) = state.filling.take() {
            self.blocks.abandon(block);
            self.return_to_window(window, block);
        }
        if was_linked {
            self.peers[peer.at()].lost = true;
            self.lose_link(peer);
            self.void_queued(peer);
            if !mutants::is(Mutant::StopForgotten) {
                self.pressure.forget(peer);
            }
        }
        for queue in
            self.queues.iter_mut().filter(|q| q.pair.peer == peer && !mutants::is(Mutant::CreditKept))
        {
            queue.forget_credit();
        }
    }

    /// `peer` is about to send a batch of `bytes` bytes: returns the block to receive it into.
    ///
    /// # Errors
    /// A [`Fault`] when the destination is not here, takes nothing of `peer` or not for this purpose, or when it has
    /// no credit.
    pub fn begin_batch(
        &mut self,
        peer: Peer,
        target: Destination,
        purpose: Purpose,
        bytes: u32,
    ) -> Result<BlockId, Fault> {
        let number = target.to_u32();
        let index = self.routes.window(peer, target).ok_or(Fault::UnknownTarget { target: number })?;
        if self.routes.is_for_acks(target) != (purpose != Purpose::Data) {
            return Err(Fault::WrongKind);
        }
        let no_credit = Fault::NoCredit { target: number, bytes };
        let class = self.sizes.class_for(bytes).ok_or(no_credit)?;
        if purpose == Purpose::Ack && class > AckBuilder::CLASS as usize {
            return Err(no_credit);
        }
        assert!(self.peers[peer.at()].filling.is_none(), "one batch at a time comes over a link");
        let block = self.windows[index.at()].take(class).ok_or(no_credit)?;
        self.blocks.fill(block);
        self.peers[peer.at()].filling = Some((index, block, purpose));
        Ok(block)
    }

    /// The batch that [`begin_batch`](Self::begin_batch) was for is complete. `None`, or a claim that does not fit
    /// the plan or the frame it came in, drops it: some instance over there wrote nonsense into its block, which is
    /// no fault of the peer. Says whether it was delivered.
    pub fn batch(&mut self, peer: Peer, received: Option<Received>, claimed_count: u32) -> bool {
        let filling = self.peers[peer.at()].filling.take();
        let Some((window, block, purpose)) = filling else { return false };
        let destination = self.windows[window.at()].pair.destination;
        let fits = |r: &Received| {
            let meant = r.target == destination || purpose == Purpose::Lost;
            meant && self.routes.may_receive(peer, r.source, destination, purpose)
        };
        let received = received.filter(fits);
        let Some((received, way)) = received.and_then(|r| Some((r, self.routes.way(r.source)?))) else {
            let cause = if purpose == Purpose::Data { Cause::Malformed } else { Cause::MalformedAcks };
            self.counters.drop_tuples(cause, u64::from(claimed_count.max(1)));
            self.blocks.abandon(block);
            self.return_to_window(window, block);
            return false;
        };
        let flight = Flight { source: way.component, used: received.used, count: received.count };
        match destination {
            Destination::Task(task) => {
                self.blocks.fly(block, flight, 1);
                match self.routes.slot(task) {
                    Some(slot) if purpose == Purpose::Data => self.deliver_block(slot, block),
                    Some(slot) => self.deliver_to_spout(slot, block, purpose),
                    None => self.let_go(block),
                }
            }
            Destination::Broadcast(number) => {
                let readers = self.routes.broadcasts[number as usize].local.len();
                self.blocks.fly(block, flight, readers as u32 + 1);
                for i in 0..readers {
                    self.deliver_block(self.routes.broadcasts[number as usize].local[i], block);
                }
                self.let_go(block);
            }
        }
        true
    }

    /// `peer` says that its task `ended` has emitted its last tuple for `target`.
    ///
    /// # Errors
    /// A [`Fault`] when that task is not there, or `target` not here or no reader of it.
    pub fn end_from_peer(&mut self, peer: Peer, target: TaskId, ended: TaskId) -> Result<(), Fault> {
        let slot = self.routes.slot(target).ok_or(Fault::UnknownTarget { target: target.0 })?;
        if !self.routes.may_receive(peer, ended, Destination::Task(target), Purpose::Data) {
            return Err(Fault::NotAReader { target: target.0 });
        }
        self.deliver_end(slot, ended);
        Ok(())
    }

    /// `peer` may be sent `blocks` more blocks of `class` for `target`.
    ///
    /// # Errors
    /// A [`Fault`] when nothing goes from here to there, or the credit exceeds the window.
    pub fn credit(
        &mut self,
        peer: Peer,
        target: Destination,
        class: usize,
        blocks: u32,
    ) -> Result<(), Fault> {
        let number = target.to_u32();
        let queue = self.routes.queue(peer, target).ok_or(Fault::UnknownTarget { target: number })?;
        let window = self.sizes.of_pair(&self.routes, self.queues[queue.at()].pair);
        if class >= CLASSES || !self.queues[queue.at()].add_credit(class, blocks, window) {
            return Err(Fault::TooMuchCredit { target: number });
        }
        self.pump(queue);
        Ok(())
    }

    /// The network is done with a block of [`Effect::SendBatch`].
    pub fn sent(&mut self, block: BlockId) {
        self.sending -= 1;
        if mutants::is(Mutant::BlockLeaked) {
            return;
        }
        self.let_go(block);
        if mutants::is(Mutant::FreedTwice) {
            self.let_go(block);
        }
    }

    /// Sends what a queue's credit allows.
    pub(super) fn pump(&mut self, index: QueueIndex) {
        let (peer, target) = (self.queues[index.at()].pair.peer, self.queues[index.at()].pair.destination);
        if !self.peers[peer.at()].linked {
            return;
        }
        while let Some(next) = self.queues[index.at()].pop() {
            match next {
                Waiting::Block { block, used, purpose, .. } => {
                    self.gauges.remove(Waits::Queue(index), self.blocks.class(block));
                    self.sending += 1;
                    self.effects.push(Effect::SendBatch { peer, target, purpose, block, used });
                }
                Waiting::End(task) => self.end_passes(peer, target, task),
            }
        }
    }

    /// The end of a local task has reached the head of a queue: it goes to those for whom this was the last one.
    fn end_passes(&mut self, peer: Peer, through: Destination, ended: TaskId) {
        let Some(slot) = self.routes.slot(ended) else { return };
        let readers: Vec<TaskId> = match through {
            Destination::Task(task) => vec![task],
            Destination::Broadcast(number) => {
                let to = self.routes.broadcasts[number as usize].to;
                self.remote_tasks(peer, |component| component == to)
            }
        };
        for target in readers {
            if self.ends.pass(slot, target) {
                self.effects.push(Effect::SendEnd { peer, target, ended });
            }
        }
    }

    fn repeat_ends(&mut self, peer: Peer) {
        let ended: Vec<Slot> = self.ends.ended().collect();
        for slot in ended {
            let from = self.routes.component(slot);
            for target in self.remote_tasks(peer, |component| self.routes.reads(from, component)) {
                if !self.ends.is_leaving(slot, target) {
                    let ended = self.routes.tasks[slot.at()];
                    self.effects.push(Effect::SendEnd { peer, target, ended });
                }
            }
        }
    }

    /// The tasks at `peer` that a local task reaches, of components that `which` likes.
    fn remote_tasks(&self, peer: Peer, which: impl Fn(crate::ids::ComponentIndex) -> bool) -> Vec<TaskId> {
        let all = self.routes.all_tasks();
        let there = all.filter(|(_, way)| way.peer == Some(peer) && matches!(way.place, Place::Remote(_)));
        there.filter(|(_, way)| which(way.component)).map(|(task, _)| task).collect()
    }
}
