//! Stmgrs that introduce themselves: which of them is the container's, and who is refused.

use super::{Effect, PeerId, Tmaster};
use egret_dataplane::ids::Epoch;
use egret_dataplane::message::{Message, PROTOCOL_VERSION, RegisterStmgr, RunState};
use egret_dataplane::mutants::{self, Mutant};
use std::time::Duration;

impl Tmaster {
    pub(super) fn register(
        &mut self,
        peer: PeerId,
        stmgr: RegisterStmgr,
        now: Duration,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(reason) = self.objection(&stmgr) {
            effects
                .push(Effect::Warn(format!("refused the stmgr of container {}: {reason}", stmgr.container)));
            self.refuse(peer, reason, effects);
            return;
        }
        let stopping = self.run_state() == RunState::Stopped;
        let Some(slot) = self.slots.get_mut(&stmgr.container) else { return };
        let old = slot.peer.replace(peer).filter(|old| *old != peer);
        let replaced = slot.incarnation != stmgr.incarnation;
        slot.incarnation = stmgr.incarnation;
        slot.address = stmgr.address;
        slot.mesh = Epoch(0);
        slot.known = true;
        slot.has_left = false;
        if let Some(old) = old {
            let reason = format!("a newer stmgr has registered for container {}", stmgr.container);
            self.refuse(old, reason, effects);
        }
        if replaced {
            self.totals.stmgr_replaced(stmgr.container);
        }
        self.peers.insert(peer, stmgr.container);
        if !mutants::is(Mutant::EpochReused) {
            self.epoch = self.epoch.max(stmgr.epoch);
        }
        stmgr.ended.iter().for_each(|task| self.task_ended(*task));
        if stopping {
            effects.push(Effect::Send(vec![peer], Message::SetState(RunState::Stopped)));
        } else if self.slots.values().all(|slot| slot.peer.is_some()) {
            self.publish(effects);
            self.stop_if_all_ended(now, effects);
        }
    }

    /// Why this stmgr cannot register, if so.
    fn objection(&self, stmgr: &RegisterStmgr) -> Option<String> {
        let container = stmgr.container;
        if stmgr.version != PROTOCOL_VERSION {
            return Some(format!(
                "it speaks protocol version {}, this tmaster {PROTOCOL_VERSION}",
                stmgr.version
            ));
        }
        if stmgr.topology != self.topology.name {
            return Some(format!("it belongs to `{}`, this is `{}`", stmgr.topology, self.topology.name));
        }
        let Some(slot) = self.slots.get(&container) else {
            return Some(format!("the packing plan has no container {container}"));
        };
        (stmgr.incarnation < slot.incarnation).then(|| {
            format!(
                "incarnation {} of container {container}'s stmgr has registered, this is the older {}",
                slot.incarnation, stmgr.incarnation
            )
        })
    }

    pub(super) fn refuse(&mut self, peer: PeerId, reason: String, effects: &mut Vec<Effect>) {
        self.peers.remove(&peer);
        self.watchers.remove(&peer);
        effects.push(Effect::Send(vec![peer], Message::Refused(reason)));
        effects.push(Effect::Close(peer));
    }
}
