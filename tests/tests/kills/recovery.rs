//! How long it takes until data flows again: measured and told, not judged.

use crate::load::Load;
use crate::output::Output;
use crate::victims::{Kind, Victim};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What is emitted this long after a kill must have arrived before data is said to flow again.
const AFTER: Duration = Duration::from_millis(50);

/// See the module.
#[derive(Default)]
pub(crate) struct Recoveries {
    times: BTreeMap<Kind, Vec<Duration>>,
    open: Option<Open>,
}

struct Open {
    kind: Kind,
    since: Instant,
    target: u64,
    /// Another kill came before the recovery.
    disturbed: bool,
}

impl Recoveries {
    /// A kill, while data flowed.
    pub(crate) fn kill(&mut self, victim: Victim, output: &Output, load: &Load) {
        let target = output.newest() + load.lines_in(AFTER);
        self.open = Some(Open { kind: victim.kind, since: Instant::now(), target, disturbed: false });
    }

    /// A kill before that.
    pub(crate) fn disturbed(&mut self) {
        if let Some(open) = &mut self.open {
            open.disturbed = true;
        }
    }

    /// Looks for the recovery for this long, and not less.
    pub(crate) fn observe(&mut self, output: &mut Output, time: Duration, alive: &impl Fn()) {
        let end = Instant::now() + time;
        self.observe_until_recovered(output, time, alive);
        output.watch_for(end.saturating_duration_since(Instant::now()), alive);
    }

    /// Looks for the recovery for at most this long.
    pub(crate) fn observe_until_recovered(&mut self, output: &mut Output, time: Duration, alive: &impl Fn()) {
        let Some(open) = &self.open else { return };
        if output.wait_for(open.target, time, alive) {
            if !open.disturbed {
                self.times.entry(open.kind).or_default().push(open.since.elapsed());
            }
            self.open = None;
        }
    }

    /// Prints the medians, of the kills that no other disturbed.
    pub(crate) fn print(&mut self) {
        for (kind, times) in &mut self.times {
            times.sort();
            let ms = |at: usize| times[at].as_millis();
            let last = times.len() - 1;
            let kind = format!("{kind:?}").to_lowercase();
            println!(
                "data flows again after the death of a {kind}: {} ms (median of {}, {} to {} ms)",
                ms(times.len() / 2),
                times.len(),
                ms(0),
                ms(last)
            );
        }
    }
}
