//! The ledger under a clock of its own.

use super::{Ledger, Limits, Outcome};
use std::collections::BTreeMap;

const MS: u64 = 1000;
const S: u64 = 1000 * MS;

fn ledger(max_pending: u32, timeout_us: u64) -> Ledger {
    Ledger::new(Limits { max_pending, timeout_us })
}

/// Emits a root with one copy.
fn emit(ledger: &mut Ledger, edge: u64) -> u64 {
    let id = ledger.next_id().expect("room");
    ledger.open(id, edge);
    id
}

/// Begins to emit a root, and is not done with it.
fn begin(ledger: &mut Ledger) -> u64 {
    let id = ledger.next_id().expect("room");
    ledger.begin(id);
    id
}

fn ended(ledger: &mut Ledger) -> Vec<(u64, Outcome)> {
    let ended = std::iter::from_fn(|| ledger.next_ended());
    ended.flat_map(|ended| ended.ids().map(move |id| (id, ended.outcome))).collect()
}

fn outcomes(ledger: &mut Ledger) -> Vec<Outcome> {
    ended(ledger).into_iter().map(|(_, outcome)| outcome).collect()
}

/// BR-001, hazard 1: a tree may take all of the timeout whenever it is emitted, and one that takes longer fails soon after.
#[test]
fn timeouts_are_exact() {
    for timeout_us in [S, 2 * S, 6 * S, 30 * S] {
        let mut ledger = ledger(1000, timeout_us);
        let (mut acks, mut ends) = (BTreeMap::new(), BTreeMap::new());
        let mut seen = BTreeMap::new();
        let step_us = 5 * MS;
        for now_us in (0..4 * timeout_us).step_by(step_us as usize) {
            // One that is acked in time and one that never is, at 40 phases of the timeout.
            if now_us <= timeout_us && (now_us / step_us).is_multiple_of(timeout_us / step_us / 40) {
                let phase = now_us * 40 / timeout_us;
                let acked = emit(&mut ledger, 7);
                acks.insert(now_us + timeout_us * (70 + phase * 28 / 40) / 100, acked);
                ends.insert(acked, (now_us, Outcome::Acked));
                let never = emit(&mut ledger, 7);
                ends.insert(never, (now_us, Outcome::TimedOut));
            }
            ledger.turn(now_us);
            ledger.set_now(now_us);
            acks.retain(|&at, &mut id| {
                let due = at <= now_us;
                if due {
                    ledger.ack(id, 7);
                }
                !due
            });
            ledger.expire(now_us);
            for (id, outcome) in ended(&mut ledger) {
                seen.insert(id, (now_us, outcome));
            }
        }
        assert_eq!(ends.len(), 82);
        for (root, (emitted_us, expected)) in ends {
            let (at_us, outcome) = seen[&root];
            assert_eq!(outcome, expected, "timeout {timeout_us}, emitted at {emitted_us}");
            if outcome == Outcome::TimedOut {
                let took = at_us - emitted_us;
                assert!(
                    (timeout_us..=timeout_us * 11 / 10 + 100 * MS).contains(&took),
                    "{took} of {timeout_us}"
                );
            }
        }
        assert_eq!(ledger.next_look_us(), None);
    }
}

/// A turn may take long: user code does, or it waits. Its trees have their time from its end on.
#[test]
fn a_long_turn_takes_nothing_from_its_trees() {
    let mut ledger = ledger(10, S);
    ledger.turn(3 * S);
    emit(&mut ledger, 1);
    ledger.turn(9 * S);
    emit(&mut ledger, 1);
    ledger.expire(9 * S);
    ledger.turn(9 * S + 10 * MS);
    ledger.expire(10 * S - 1);
    assert!(!ledger.has_ended());
    ledger.expire(10 * S + 100 * MS);
    assert_eq!(outcomes(&mut ledger), [Outcome::TimedOut; 2]);
}

/// What is being emitted while the task waits has not begun to take its time.
#[test]
fn a_wait_in_an_emission_takes_nothing_from_it() {
    let mut ledger = ledger(10, S);
    ledger.turn(1);
    let id = begin(&mut ledger);
    ledger.turn(2);
    ledger.expire(8 * S);
    ledger.commit(id, 1);
    ledger.turn(8 * S);
    ledger.expire(9 * S - 1);
    assert!(!ledger.has_ended());
    assert!(ledger.next_look_us().is_some_and(|next| next <= 9 * S + 100 * MS));
}

/// BR-002: a fail that comes when the tree has timed out changes nothing and leaves nothing.
#[test]
fn a_late_fail_is_left_out() {
    let mut ledger = ledger(10, 4 * S);
    for round in 0..100 {
        let now_us = round * 10 * S;
        let id = emit(&mut ledger, 1);
        ledger.turn(now_us);
        ledger.expire(now_us + 4 * S + 100 * MS);
        assert_eq!(outcomes(&mut ledger), [Outcome::TimedOut]);
        let successor = emit(&mut ledger, 2);
        ledger.fail(id);
        ledger.ack(id, 1);
        assert_eq!((ledger.in_flight(), ledger.has_ended()), (1, false));
        ledger.ack(successor, 2);
        assert_eq!(outcomes(&mut ledger), [Outcome::Acked]);
    }
    assert!(ledger.is_empty());
    assert_eq!(ledger.capacity(), 64);
}

/// BR-004: five million fails in a row leave nothing behind.
#[test]
fn failed_trees_are_forgotten() {
    let mut ledger = ledger(1000, 30 * S);
    for round in 0..50_000 {
        let ids: Vec<_> = (0..100).map(|edge| emit(&mut ledger, edge + 1)).collect();
        ledger.turn(round);
        ids.into_iter().for_each(|id| ledger.fail(id));
        assert_eq!(outcomes(&mut ledger), [Outcome::Failed; 100]);
        assert!(ledger.is_empty());
    }
    // 100 roots lie in three pages at most, and pages are a power of two.
    assert_eq!(ledger.capacity(), 256);
}

/// BR-005: ids are counted, not drawn; with 200 in flight no two of 10,000 are the same.
#[test]
fn ids_never_collide() {
    let mut ledger = ledger(200, 30 * S);
    let mut all = Vec::new();
    let mut in_flight = std::collections::VecDeque::new();
    for n in 0..10_000u64 {
        if ledger.room() == 0 {
            // Out of order, so that some are left behind.
            let id = if n % 3 == 0 { in_flight.pop_back() } else { in_flight.pop_front() };
            ledger.ack(id.unwrap(), 5);
            assert_eq!(outcomes(&mut ledger), [Outcome::Acked]);
        }
        let id = emit(&mut ledger, 5);
        all.push(id);
        in_flight.push_back(id);
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 10_000);
    assert_eq!(ledger.in_flight(), 200);
    // Eight pages, for twice as many, and what was left behind in none of them.
    assert!(ledger.capacity() <= 8 * 64 + 200, "{}", ledger.capacity());
}

/// Hazard 3: an ack for a root that nobody has is no fatal error, whatever it names.
#[test]
fn acks_for_nothing_are_left_out() {
    let mut ledger = ledger(4, S);
    let id = emit(&mut ledger, 9);
    let done = emit(&mut ledger, 9);
    ledger.ack(done, 9);
    assert_eq!(outcomes(&mut ledger), [Outcome::Acked]);
    for lie in
        [1, 2, 3, 63, 64, u64::MAX, id ^ 1, done, id + (1 << 24), id.wrapping_sub(1 << 24), (1 << 24) - 1]
    {
        ledger.ack(lie, 0);
        ledger.ack(lie, 9);
        ledger.fail(lie);
    }
    assert_eq!((ledger.in_flight(), ledger.has_ended()), (1, false));
    ledger.ack(id, 9);
    assert!(ledger.has_ended());
}

/// BR-043: the gauge follows what is in flight and nothing else: whatever comes, it is never below 0.
#[test]
fn pending_never_goes_below_zero() {
    let mut ledger = ledger(8, S);
    let ids: Vec<_> = (0..8).map(|edge| emit(&mut ledger, edge + 1)).collect();
    ledger.turn(0);
    for _ in 0..3 {
        ids.iter().for_each(|&id| ledger.fail(id));
        ledger.fail_all();
        ledger.expire(10 * S);
        ids.iter().zip(1..).for_each(|(&id, edge)| ledger.ack(id, edge));
        ids.iter().for_each(|&id| ledger.abandon(id));
        assert_eq!(ledger.in_flight(), 0);
    }
    assert!(ended(&mut ledger).is_empty(), "all of them were abandoned");
    assert!(ledger.is_empty());
}

/// The first copies may be acked while the last ones are still being emitted.
#[test]
fn a_root_completes_when_it_is_emitted_in_full() {
    let mut ledger = ledger(4, S);
    let id = begin(&mut ledger);
    ledger.ack(id, 3);
    ledger.ack(id, 3 ^ 5);
    assert!(!ledger.has_ended());
    ledger.commit(id, 5);
    assert_eq!(outcomes(&mut ledger), [Outcome::Acked]);
    let unread = begin(&mut ledger);
    ledger.commit(unread, 0);
    assert_eq!(outcomes(&mut ledger), [Outcome::Acked]);
}

#[test]
fn a_root_that_was_not_emitted_never_was() {
    let mut ledger = ledger(4, S);
    for failed_meanwhile in [false, true] {
        let id = begin(&mut ledger);
        let other = emit(&mut ledger, 1);
        if failed_meanwhile {
            ledger.fail_all();
        }
        ledger.abandon(id);
        ledger.fail(other);
        assert_eq!(outcomes(&mut ledger), [Outcome::Failed]);
        assert!(ledger.is_empty());
    }
}

/// What fails while it is being emitted is over when it is.
#[test]
fn a_root_may_fail_before_it_is_emitted_in_full() {
    let mut ledger = ledger(4, S);
    let id = begin(&mut ledger);
    ledger.fail_all();
    ledger.commit(id, 5);
    ledger.ack(id, 5);
    assert_eq!(outcomes(&mut ledger), [Outcome::Failed]);
    assert!(ledger.is_empty());
}

#[test]
fn the_limit_holds_also_for_what_is_not_handed_out() {
    let mut ledger = ledger(2, S);
    let ids = [emit(&mut ledger, 1), emit(&mut ledger, 1)];
    assert!(ledger.room() == 0);
    assert_eq!(ledger.next_id(), None);
    ledger.ack(ids[0], 1);
    assert_eq!(ledger.next_id(), None, "its id is still with the collector");
    assert_eq!(ended(&mut ledger).len(), 1);
    assert!(ledger.room() > 0);
    emit(&mut ledger, 1);
}

#[test]
fn an_empty_ledger_has_no_timer() {
    let mut ledger = ledger(4, S);
    assert_eq!(ledger.next_look_us(), None);
    ledger.turn(5 * MS);
    let id = emit(&mut ledger, 1);
    ledger.turn(6 * MS);
    assert_eq!(ledger.next_look_us(), Some(S + 25 * MS), "5 ms, and 20 ms of slack");
    ledger.ack(id, 1);
    assert_eq!(ledger.next_look_us(), None);
}

#[test]
fn latency_is_from_the_turn_to_the_ack() {
    let mut ledger = ledger(100, S);
    ledger.turn(100);
    let ids: Vec<_> = (0..3).map(|_| emit(&mut ledger, 1)).collect();
    ledger.turn(200);
    ledger.set_now(400);
    ids[..2].iter().for_each(|&id| ledger.ack(id, 1));
    ledger.set_now(150_100);
    ledger.ack(ids[2], 1);
    let histogram = ledger.latency().histogram().unwrap();
    assert_eq!((histogram.len(), histogram.count_at(300), histogram.count_at(150_000)), (3, 2, 1));
}

/// BR-008: before a bolt that is ten times slower than its source, trees do not time out in the queue for ever.
#[test]
fn trees_do_not_time_out_in_a_queue_that_the_spout_fills() {
    const PER_S: u64 = 1000;
    let mut ledger = ledger(65_536, 5 * S);
    let mut queue = std::collections::VecDeque::new();
    let (mut useful, mut executed, mut timed_out) = (0u64, 0u64, [0u64; 4]);
    for now_ms in 0..240_000 {
        // The source: ten for each that the bolt executes, as far as it may. What timed out is among the next.
        for _ in 0..10 {
            if ledger.room() == 0 {
                break;
            }
            queue.push_back(emit(&mut ledger, 1));
        }
        ledger.turn(now_ms * MS);
        ledger.set_now(now_ms * MS);
        if (now_ms * PER_S).is_multiple_of(1000)
            && let Some(id) = queue.pop_front()
        {
            executed += 1;
            ledger.ack(id, 1);
        }
        ledger.expire(now_ms * MS);
        for outcome in outcomes(&mut ledger) {
            match outcome {
                Outcome::Acked => useful += 1,
                _ => timed_out[now_ms as usize / 60_000] += 1,
            }
        }
    }
    assert!(useful * 10 >= executed * 8 && executed >= 239_000, "{useful} of {executed}");
    assert!(timed_out[3] <= timed_out[1], "{timed_out:?}");
}
