//! Backpressure: from places that go over their watermarks to spouts that are held.

use super::{Core, Effect};
use crate::ids::{ComponentIndex, TaskId};
use crate::message::{Backpressure, TaskPressure};
use crate::stmgr::fault::Fault;
use crate::stmgr::route::{Peer, Slot};
use std::time::Duration;

impl Core {
    /// To be called after events, and when [`next_turn`](Self::next_turn) says: sees to who is to be held. `now` is the
    /// time since any fixed moment.
    #[inline]
    pub fn turn(&mut self, now: Duration) {
        while let Some((place, over)) = self.gauges.next_changed() {
            for &task in self.gauges.tasks(place) {
                self.pressure.set(task, over, now);
            }
        }
        if self.pressure.due().is_some_and(|due| due <= now) {
            self.tend_pressure(now);
        }
    }

    /// When [`turn`](Self::turn) is to be called, even if nothing happens.
    #[must_use]
    pub fn next_turn(&self) -> Option<Duration> {
        self.pressure.due()
    }

    #[cold]
    fn tend_pressure(&mut self, now: Duration) {
        let turn = self.pressure.turn(now);
        if turn.state {
            let linked = self.peers.iter().enumerate().filter(|(_, peer)| peer.linked);
            self.effects.extend(linked.map(|(peer, _)| Effect::StateHolders(Peer(peer as u32))));
        }
        if turn.holders_changed {
            self.hold_spouts();
        }
    }

    /// What the tasks run for which spouts are held.
    pub(super) fn present_holders(&self) -> Vec<ComponentIndex> {
        let ways = self.pressure.holders().into_iter().filter_map(|task| self.routes.way(task));
        ways.map(|way| way.component).collect()
    }

    /// What is above something is a spout.
    pub(super) fn is_to_be_held(&self, slot: Slot, holders: &[ComponentIndex]) -> bool {
        let component = self.routes.component(slot);
        holders.iter().any(|&holder| self.routes.is_above(component, holder))
    }

    fn hold_spouts(&mut self) {
        let holders = self.present_holders();
        for slot in (0..self.locals.len() as u32).map(Slot) {
            let held = self.is_to_be_held(slot, &holders);
            if std::mem::replace(&mut self.locals[slot.at()].held, held) != held {
                self.effects.push(Effect::Hold(slot, held));
            }
        }
    }

    /// Whether the task of `slot` is a spout that is to emit nothing for now.
    #[must_use]
    pub fn is_held(&self, slot: Slot) -> bool {
        self.locals[slot.at()].held
    }

    /// The local spouts that are held and have not ended.
    #[must_use]
    pub fn held_tasks(&self) -> Vec<TaskId> {
        let slots = (0..self.locals.len() as u32).map(Slot);
        let held = slots.filter(|&slot| self.is_held(slot) && !self.ends.has_ended(slot));
        held.map(|slot| self.routes.tasks[slot.at()]).collect()
    }

    /// What [`Effect::StateHolders`] tells.
    #[must_use]
    pub fn statement(&self, now: Duration) -> Backpressure {
        self.pressure.statement(now)
    }

    /// How often the tasks have changed for which this stmgr says that spouts are to be held.
    #[must_use]
    pub fn holders_version(&self) -> u64 {
        self.pressure.version()
    }

    /// Those tasks.
    #[must_use]
    pub fn own_holders(&self) -> Vec<TaskId> {
        self.pressure.own()
    }

    /// The tasks for which `peer` has said so, as far as this stmgr has heard.
    #[must_use]
    pub fn holders_told_by(&self, peer: Peer) -> Vec<TaskId> {
        self.pressure.told_by(peer)
    }

    /// What is to be reported of tasks that are behind.
    #[must_use]
    pub fn pressures(&self, now: Duration) -> Vec<TaskPressure> {
        self.pressure.report(now)
    }

    /// `peer` tells for which tasks spouts are to be held.
    ///
    /// # Errors
    /// A [`Fault`] when there is no such task.
    pub fn holders_of_peer(
        &mut self,
        peer: Peer,
        statement: &Backpressure,
        now: Duration,
    ) -> Result<(), Fault> {
        let unknown = statement.holders.iter().find(|holder| self.routes.way(holder.task).is_none());
        if let Some(unknown) = unknown {
            return Err(Fault::UnknownTarget { target: unknown.task.0 });
        }
        self.pressure.stated(peer, statement, now);
        Ok(())
    }
}
