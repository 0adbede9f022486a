//! The ledger against a map of roots, over random steps.

use super::{Ledger, Limits, Outcome};
use egret_dataplane::frame::{AckRecord, PAGE};
use proptest::prelude::*;
use std::collections::BTreeMap;

const MAX_PENDING: u32 = 150;

#[derive(Clone, Debug)]
enum Step {
    /// So many roots, with edges of few values.
    /// So many roots, with edges from these on that are of so many kinds in turn.
    Emit(u8, u64, u64),
    /// Roots of the page that is so far back, as a mask.
    Ack(u64, u64, u64),
    Fail(u64, u64),
    /// An emission that waits; it may fail meanwhile, and may not come to an end.
    Slow(bool, bool),
    Tell,
    FailAll,
}

fn step() -> impl Strategy<Value = Step> {
    // Whole pages, halves of them, and single roots.
    let mask = prop_oneof![
        Just(u64::MAX),
        Just(u64::from(u32::MAX)),
        (0..PAGE).prop_map(|bit| 1 << bit),
        any::<u64>()
    ];
    let page = 0..6_u64;
    prop_oneof![
        8 => (1..100_u8, 1..4_u64, 1..8_u64).prop_map(|(count, edges, kinds)| Step::Emit(count, edges, kinds)),
        8 => (page.clone(), mask.clone(), 0..10_u64).prop_map(|(back, mask, xor)| Step::Ack(back, mask, xor)),
        2 => (page, mask).prop_map(|(back, mask)| Step::Fail(back, mask)),
        1 => any::<(bool, bool)>().prop_map(|(fails, ends)| Step::Slow(fails, ends)),
        4 => Just(Step::Tell),
        1 => Just(Step::FailAll),
    ]
}

/// What is in flight, and what has ended and was not told.
#[derive(Default)]
struct Model {
    open: BTreeMap<u64, u64>,
    ended: BTreeMap<u64, Outcome>,
    /// Before this one all ids are used.
    next: u64,
}

impl Model {
    fn record(&self, back: u64, mask: u64, xor: u64) -> AckRecord {
        let first = (self.next / PAGE).saturating_sub(back) * PAGE;
        AckRecord { first, mask, xor }
    }

    fn ack(&mut self, record: AckRecord) {
        for id in record.ids() {
            if let Some(value) = self.open.get_mut(&id) {
                *value ^= record.xor;
                if *value == 0 {
                    self.end(id, Outcome::Acked);
                }
            }
        }
    }

    fn end(&mut self, id: u64, outcome: Outcome) {
        if self.open.remove(&id).is_some() {
            self.ended.insert(id, outcome);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn it_is_a_map_of_roots(steps in prop::collection::vec(step(), 0..150)) {
        let mut ledger = Ledger::new(Limits { max_pending: MAX_PENDING, timeout_us: 1_000_000 });
        let (mut model, front) = (Model::default(), ledger.front());
        for step in steps {
            match step {
                Step::Emit(count, edges, kinds) => for n in 0..count {
                    let edges = edges + u64::from(n) % kinds;
                    let Some(id) = front.next().or_else(|| ledger.next_id()) else { break };
                    prop_assert!(id >= model.next, "ids grow");
                    if !front.open(id, edges) {
                        ledger.open(id, edges);
                    }
                    model.open.insert(id, edges);
                    model.next = id + 1;
                },
                Step::Ack(back, mask, xor) => {
                    let record = model.record(back, mask, xor);
                    ledger.ack_all(record);
                    model.ack(record);
                }
                Step::Fail(back, mask) => {
                    let record = model.record(back, mask, 0);
                    ledger.fail_all_of(record);
                    record.ids().for_each(|id| model.end(id, Outcome::Failed));
                }
                Step::Slow(fails, ends) => if let Some(id) = ledger.next_id() {
                    ledger.begin(id);
                    model.next = id + 1;
                    if fails {
                        ledger.fail(id);
                    }
                    match (fails, ends) {
                        (_, false) => ledger.abandon(id),
                        (true, true) => {
                            ledger.commit(id, 5);
                            model.ended.insert(id, Outcome::Failed);
                        }
                        (false, true) => {
                            ledger.commit(id, 5);
                            model.open.insert(id, 5);
                        }
                    }
                },
                Step::Tell => {
                    let told: BTreeMap<_, _> = std::iter::from_fn(|| ledger.next_ended())
                        .flat_map(|ended| ended.ids().map(move |id| (id, ended.outcome))).collect();
                    prop_assert_eq!(told, std::mem::take(&mut model.ended));
                }
                Step::FailAll => {
                    ledger.fail_all();
                    let open: Vec<_> = model.open.keys().copied().collect();
                    open.into_iter().for_each(|id| model.end(id, Outcome::Failed));
                }
            }
            prop_assert_eq!(ledger.in_flight() as usize, model.open.len());
            prop_assert_eq!(ledger.has_ended(), !model.ended.is_empty());
            prop_assert_eq!(front.has_ended(), ledger.has_ended());
            prop_assert!(model.open.len() + model.ended.len() <= MAX_PENDING as usize);
            prop_assert!(ledger.capacity() <= 8 * 64 + MAX_PENDING as usize);
        }
    }
}
