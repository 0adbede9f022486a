//! The tuples of a spout that are in flight, in the order in which they were emitted first, and those to be replayed.

use crate::numbered::Numbered;
use std::collections::VecDeque;

/// What is in flight; `P` says what each is.
pub(super) struct InFlight<P> {
    places: Numbered<P>,
    /// How many were taken out.
    removed: u64,
    /// Those that failed and were not emitted again yet, in the order in which they failed.
    failed: VecDeque<u64>,
}

impl<P: Copy> InFlight<P> {
    /// Of which there are so many at most, or little more.
    pub(super) fn new(max_pending: u64) -> Self {
        Self { places: Numbered::new(max_pending as usize), removed: 0, failed: VecDeque::new() }
    }

    /// Adds one behind all others; the number that it gets is no other's.
    #[inline]
    pub(super) fn push(&mut self, place: P) -> u64 {
        self.places.push(place)
    }

    /// Takes one out that is in flight and not waiting to be replayed.
    #[inline]
    pub(super) fn remove(&mut self, number: u64) {
        self.removed += 1;
        self.places.remove(number);
    }

    /// Has one replayed, behind those that failed before.
    pub(super) fn fail(&mut self, number: u64) {
        self.failed.push_back(number);
    }

    /// The next one to be replayed. It keeps its place in the order.
    #[inline]
    pub(super) fn next_failed(&mut self) -> Option<(u64, P)> {
        if self.failed.is_empty() { None } else { self.take_failed() }
    }

    #[cold]
    fn take_failed(&mut self) -> Option<(u64, P)> {
        let number = self.failed.pop_front()?;
        self.places.get(number).map(|place| (number, *place))
    }

    /// How many were ever added.
    #[inline]
    pub(super) fn pushed(&self) -> u64 {
        self.places.next()
    }

    /// How many there are, those that failed among them.
    #[inline]
    pub(super) fn len(&self) -> usize {
        (self.pushed() - self.removed) as usize
    }

    /// All of them, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = P> {
        self.places.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug)]
    enum Step {
        Push,
        Ack(usize),
        Fail(usize),
        Replay,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => Just(Step::Push),
            3 => any::<usize>().prop_map(Step::Ack),
            2 => any::<usize>().prop_map(Step::Fail),
            2 => Just(Step::Replay),
        ]
    }

    proptest! {
        /// Oracle: a map in the order of emission, and a queue of what failed.
        #[test]
        fn it_keeps_the_order_and_every_failed_one(steps in prop::collection::vec(step(), 0..200)) {
            let mut it = InFlight::new(0);
            let (mut all, mut out, mut failed) = (BTreeMap::new(), Vec::new(), VecDeque::new());
            let mut pushed = 0_u64;
            for step in steps {
                match step {
                    Step::Push => {
                        let id = it.push(pushed);
                        prop_assert!(all.values().all(|other| *other != id));
                        all.insert(pushed, id);
                        out.push((id, pushed));
                        pushed += 1;
                    }
                    Step::Ack(i) if !out.is_empty() => {
                        let (id, place) = out.swap_remove(i % out.len());
                        it.remove(id);
                        all.remove(&place);
                    }
                    Step::Fail(i) if !out.is_empty() => {
                        let one = out.swap_remove(i % out.len());
                        it.fail(one.0);
                        failed.push_back(one);
                    }
                    Step::Replay => {
                        let next = failed.pop_front();
                        prop_assert_eq!(it.next_failed(), next);
                        out.extend(next);
                    }
                    _ => {}
                }
                prop_assert_eq!(it.iter().collect::<Vec<_>>(), all.keys().copied().collect::<Vec<_>>());
                prop_assert_eq!(it.len(), all.len());
                prop_assert_eq!(it.pushed(), pushed);
            }
        }
    }
}
