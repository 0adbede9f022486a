//! What goes wrong around the tmaster, step by step: courses of events that single faults seldom add up to.

use egret::local::{Cluster, Seat};
use egret_dataplane::simulation::Dice;
use std::time::Duration;

/// One of these goes wrong after the other.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// What went wrong before is healed: what follows begins with a tmaster that is in touch with all.
    Heal,
    Kill(Seat),
    Pause(Seat, Duration),
    /// The state takes nothing any more, or does again.
    Full(bool),
    /// The tmaster's entry is removed, and another tmaster takes the name.
    Second,
    /// All of these die.
    KillSeconds,
    /// Whoever is a tmaster dies.
    KillTmasters,
    /// Some connection breaks.
    Reset,
}

/// Each step with the time until then; the first one is the last of them.
pub(super) type Course = Vec<(Duration, Step)>;

pub(super) fn draw(dice: &mut Dice, cluster: &Cluster) -> Course {
    let seats = cluster.seats();
    let stmgrs: Vec<Seat> = seats.into_iter().filter(|seat| matches!(seat, Seat::Stmgr(_))).collect();
    let mut stmgr = || dice.choose(&stmgrs).map_or(Step::Reset, |&seat| Step::Kill(seat));
    let (first, second) = (stmgr(), stmgr());
    let pause = Step::Pause(Seat::Tmaster, Duration::from_millis(dice.between(500, 8000)));
    // Each after so many milliseconds at most.
    let steps = match dice.below(3) {
        // The state misses a plan that stmgrs have, and the next tmaster begins with an older one, and other addresses.
        0 => [
            (4000, Step::Full(true)),
            (10, first),
            (8000, Step::KillTmasters),
            (10, second),
            (500, Step::Full(false)),
        ],
        // A tmaster that was held up goes on beside its successor, and has its connections still.
        1 => [(4000, pause), (4000, Step::Second), (4000, first), (4000, Step::Reset), (4000, second)],
        // The successor dies, and the old one is found again: it makes its entry anew.
        _ => [
            (4000, Step::Second),
            (4000, first),
            (4000, Step::Reset),
            (4000, Step::KillSeconds),
            (4000, second),
        ],
    };
    let mut course = vec![(Duration::ZERO, Step::Heal)];
    for (most_ms, step) in steps {
        course.push((Duration::from_millis(dice.between(most_ms / 4, most_ms)), step));
    }
    course.reverse();
    course
}
