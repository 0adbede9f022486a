//! On a simulated host a stmgr looks again and again whether all that it knows fits together, and whether what it believes
//! of its peers is what they go by.
//!
//! What two stmgrs know can be compared whenever nothing is under way between them, at any moment: a stmgr states its holders
//! when they change and on a new link, within the turn, and stops nowhere between that and [`Stmgr::post`].

use super::driver::Stmgr;
use super::route::{Peer, Slot};
use crate::host;
use crate::ids::TaskId;
use std::time::Duration;

/// How often, in virtual time.
const EVERY: Duration = Duration::from_millis(10);

impl Stmgr {
    /// To be called on a simulated host when everything is settled.
    ///
    /// # Panics
    /// When something does not fit together.
    pub(super) fn audit(&mut self) {
        self.post();
        if self.now < self.audit_at {
            return;
        }
        self.audit_at = self.now + EVERY;
        let outcome = self.core.audit().and_then(|()| self.audit_holds());
        let outcome = outcome.and_then(|()| self.audit_beliefs()).and_then(|()| self.audit_plan());
        outcome.unwrap_or_else(|what| panic!("audit: {what}"));
    }

    /// Leaves for the peers to check for which tasks spouts are to be held. To be called before anybody else goes on.
    pub(super) fn post(&mut self) {
        let version = self.core.holders_version();
        if std::mem::replace(&mut self.posted_version, version) != version
            && let Some(host) = host::current()
        {
            host.post(numbers(self.core.own_holders()));
        }
    }

    /// A peer's holders are what this stmgr believes them to be.
    fn audit_beliefs(&self) -> Result<(), String> {
        let Some(host) = host::current() else { return Ok(()) };
        for (index, link) in self.peers.iter().enumerate() {
            let peer = Peer(index as u32);
            let Some(right) = link.conn.and_then(|conn| host.posted(conn)) else { continue };
            let believed = numbers(self.core.holders_told_by(peer));
            if believed != right {
                let container = self.core.routes().peers[index];
                return Err(format!(
                    "container {container} holds for {right:?}, and is believed to for {believed:?}"
                ));
            }
        }
        Ok(())
    }

    /// Plans only get newer, and one epoch is one plan.
    fn audit_plan(&mut self) -> Result<(), String> {
        let Some(plan) = self.registration.plan() else { return Ok(()) };
        let (epoch, stmgrs) = self.audited_plan.get_or_insert_with(|| (plan.epoch, plan.stmgrs.clone()));
        if plan.epoch < *epoch || (plan.epoch == *epoch && plan.stmgrs != *stmgrs) {
            return Err(format!("a plan of epoch {} took the place of another of {epoch}", plan.epoch));
        }
        if plan.epoch > *epoch {
            (*epoch, *stmgrs) = (plan.epoch, plan.stmgrs.clone());
        }
        Ok(())
    }

    /// Each instance is told what is decided.
    fn audit_holds(&self) -> Result<(), String> {
        for (index, local) in self.locals.iter().enumerate() {
            let Some(local) = local else { continue };
            let slot = Slot(index as u32);
            let (told, right) = (local.end.hold.is_set(), self.core.is_held(slot));
            if told != right {
                return Err(format!("{slot:?} is told that it is held: {told}, and right would be {right}"));
            }
        }
        Ok(())
    }
}

fn numbers(tasks: Vec<TaskId>) -> Vec<u32> {
    tasks.into_iter().map(|task| task.0).collect()
}
