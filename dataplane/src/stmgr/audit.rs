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
        let outcome = self.core.audit().and_then(|()| self.audit_holds());
        outcome.unwrap_or_else(|what| panic!("audit: {what}"));
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
