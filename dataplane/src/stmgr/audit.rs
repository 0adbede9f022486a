//! On a simulated host a stmgr looks again and again whether all that it knows fits together.

use super::driver::Stmgr;
use super::route::Slot;
use std::time::Duration;

/// How often, in virtual time.
const EVERY: Duration = Duration::from_millis(10);

impl Stmgr {
    /// To be called on a simulated host when everything is settled.
    ///
    /// # Panics
    /// When something does not fit together.
    pub(super) fn audit(&mut self) {
        if self.now < self.audit_at {
            return;
        }
        self.audit_at = self.now + EVERY;
        let outcome = self.core.audit().and_then(|()| self.audit_holds()).and_then(|()| self.audit_plan());
        outcome.unwrap_or_else(|what| panic!("audit: {what}"));
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
