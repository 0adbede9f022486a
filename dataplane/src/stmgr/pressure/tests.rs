//! The state machine step by step.

use super::*;

const TASK: TaskId = TaskId(3);
const OTHER: TaskId = TaskId(4);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn start() -> Pressure {
    Pressure::new(9, &[TASK, OTHER], 2, false)
}

fn states(version: u64, tasks: &[(TaskId, u64)]) -> Backpressure {
    let holders = tasks.iter().map(|&(task, for_ms)| Holder { task, for_ms }).collect();
    Backpressure { version, holders }
}

fn held(pressure: &Pressure) -> Vec<TaskId> {
    pressure.holders().into_iter().collect()
}

/// Goes over, or comes back, and turns.
fn set(pressure: &mut Pressure, task: TaskId, over: bool, now: Duration) -> Turn {
    pressure.set(task, over, now);
    assert!(pressure.due().unwrap() <= now);
    pressure.turn(now)
}

#[test]
fn a_task_holds_as_long_as_it_is_over_somewhere() {
    let mut p = start();
    let now = ms(10);
    assert_eq!(set(&mut p, TASK, true, now), Turn { state: true, holders_changed: true });
    assert_eq!(set(&mut p, TASK, true, now), Turn::default(), "at a second place");
    assert_eq!(p.statement(ms(40)), states(1, &[(TASK, 30)]));
    assert_eq!(set(&mut p, TASK, false, now), Turn::default());
    assert_eq!(held(&p), [TASK]);
    assert_eq!(set(&mut p, TASK, false, ms(50)), Turn { state: true, holders_changed: true });
    assert_eq!((held(&p), p.statement(now)), (vec![], states(2, &[])));
}

/// BR-010.
#[test]
fn starts_of_a_task_are_two_seconds_apart() {
    let mut p = start();
    let (mut starts, mut was) = (Vec::new(), false);
    for step in 0..1000 {
        let now = ms(step * 10);
        // A fast task: over and back within each 20 ms.
        let _ = set(&mut p, TASK, step % 2 == 0, now);
        let holds = !held(&p).is_empty();
        if holds && !was {
            starts.push(now);
        }
        was = holds;
    }
    assert_eq!(starts, [0, 2000, 4000, 6000, 8000].map(ms));
    assert_eq!(p.report(ms(10_000))[0].starts, 5);
}

#[test]
fn one_that_stays_behind_starts_when_it_may() {
    let mut p = start();
    let _ = set(&mut p, TASK, true, ms(0));
    let _ = set(&mut p, TASK, false, ms(1));
    let _ = set(&mut p, TASK, true, ms(2));
    // It states nothing new meanwhile but that nobody holds, once a second.
    assert_eq!((held(&p), p.due()), (vec![], Some(ms(1001))));
    assert_eq!(p.turn(ms(1001)), Turn { state: true, holders_changed: false });
    assert_eq!(p.due(), Some(ms(2000)));
    assert_eq!(p.turn(ms(2000)), Turn { state: true, holders_changed: true });
    assert_eq!(held(&p), [TASK]);
    let report = p.report(ms(2500));
    let expected =
        TaskPressure { task: TASK, starts: 2, behind_us: 2_499_000, behind_for_ms: Some(2498), holds: true };
    assert_eq!(report, [expected]);
}

/// BR-017.
#[test]
fn the_first_to_recover_does_not_release_what_another_needs_held() {
    let mut p = start();
    let _ = set(&mut p, TASK, true, ms(0));
    let _ = set(&mut p, OTHER, true, ms(0));
    let _ = set(&mut p, TASK, false, ms(10));
    assert_eq!(held(&p), [OTHER]);
    // The same over several stmgrs.
    p.stated(Peer(0), &states(1, &[(OTHER, 5)]), ms(10));
    let _ = set(&mut p, OTHER, false, ms(20));
    assert_eq!(held(&p), [OTHER]);
    p.stated(Peer(0), &states(2, &[]), ms(30));
    assert!(p.turn(ms(30)).holders_changed && held(&p).is_empty());
}

#[test]
fn who_joins_a_holder_need_not_wait_and_counts_no_start() {
    let mut p = start();
    p.stated(Peer(0), &states(1, &[(TASK, 100)]), ms(1000));
    let _ = set(&mut p, TASK, true, ms(1000));
    assert_eq!(p.statement(ms(1000)).holders.len(), 1);
    p.stated(Peer(0), &states(2, &[]), ms(1100));
    assert_eq!((held(&p), p.report(ms(1100))[0].starts), (vec![TASK], 0));
    let _ = set(&mut p, TASK, false, ms(1200));
    // The start of the other at 900 counts, whoever is next; so does this one's own joining at 1000.
    let _ = set(&mut p, TASK, true, ms(1300));
    assert!(!p.turn(ms(2950)).holders_changed);
    p.stated(Peer(1), &states(1, &[(TASK, 0)]), ms(2960));
    let _ = p.turn(ms(2960));
    assert_eq!(p.statement(ms(2960)).holders, []);
    let _ = p.turn(ms(3000));
    assert_eq!(p.statement(ms(3000)).holders.len(), 1);
}

#[test]
fn a_stmgr_with_a_queue_leaves_the_start_to_the_stmgr_of_the_task() {
    let mut p = start();
    let far = TaskId(7);
    let _ = set(&mut p, far, true, ms(50));
    assert_eq!((held(&p), p.due()), (vec![], Some(ms(150))));
    // That one does not: nothing gets there.
    let _ = p.turn(ms(150));
    assert_eq!((held(&p), p.report(ms(150))[0].starts), (vec![far], 1));
    let _ = set(&mut p, far, false, ms(200));
    let _ = set(&mut p, far, true, ms(300));
    p.stated(Peer(1), &states(1, &[(far, 0)]), ms(2200));
    let _ = p.turn(ms(2200));
    assert_eq!((p.statement(ms(2200)).holders.len(), p.report(ms(2200))[0].starts), (1, 1), "it joins");
}

#[test]
fn a_peers_set_counts_until_its_link_is_gone() {
    let mut p = start();
    p.stated(Peer(0), &states(7, &[(TASK, 0)]), ms(0));
    p.stated(Peer(0), &states(6, &[]), ms(0));
    assert_eq!(held(&p), [TASK], "an older statement changes nothing");
    p.forget(Peer(0));
    assert!(p.turn(ms(0)).holders_changed && held(&p).is_empty());
    // The successor of that stmgr begins at 1.
    p.stated(Peer(0), &states(1, &[(OTHER, 0)]), ms(0));
    assert_eq!(held(&p), [OTHER]);
}

#[test]
fn the_set_is_stated_every_second_once_there_was_one() {
    let mut p = start();
    assert_eq!((p.turn(ms(5000)), p.due()), (Turn::default(), None));
    let _ = set(&mut p, TASK, true, ms(5000));
    assert_eq!(p.turn(ms(5999)), Turn::default());
    assert_eq!(p.turn(ms(6000)), Turn { state: true, holders_changed: false });
    assert_eq!(p.due(), Some(ms(7000)));
}

#[test]
fn where_tuples_are_dropped_nobody_is_held_but_it_shows() {
    let mut p = Pressure::new(9, &[TASK], 2, true);
    assert_eq!(set(&mut p, TASK, true, ms(0)), Turn::default());
    let report = p.report(ms(100))[0];
    assert_eq!((report.behind_for_ms, report.holds, report.starts), (Some(100), false, 0));
    assert_eq!(p.due(), None);
}
