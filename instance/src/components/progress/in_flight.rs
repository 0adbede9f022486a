//! The tuples of a spout that are in flight, and those to be replayed.

use crate::numbered::Numbered;
use egret_dataplane::frame::bits;
use std::collections::{BTreeSet, VecDeque};

/// What is in flight; `P` says what each is, and is greater for what was emitted later the first time.
pub(super) struct InFlight<P> {
    /// By the number under which each was emitted last.
    places: Numbered<P>,
    /// How many of these there are.
    emitted: usize,
    /// Those that failed once and are not acked since.
    late: BTreeSet<P>,
    /// Those of them that were not emitted again yet, in the order in which they failed.
    failed: VecDeque<P>,
}

impl<P: Copy + Ord> InFlight<P> {
    /// Of which there are so many at most, or little more.
    pub(super) fn new(max_pending: u64) -> Self {
        let places = Numbered::new(max_pending as usize);
        Self { places, emitted: 0, late: BTreeSet::new(), failed: VecDeque::new() }
    }

    /// One was emitted, under a number that is greater than those before.
    #[inline(always)]
    pub(super) fn put(&mut self, number: u64, place: P) {
        self.emitted += 1;
        self.places.put(number, place);
    }

    /// Takes one out that is in flight, for good.
    #[inline]
    pub(super) fn remove(&mut self, number: u64) -> Option<P> {
        let place = self.places.remove(number)?;
        self.emitted -= 1;
        if !self.late.is_empty() {
            self.leave_out(place);
        }
        Some(place)
    }

    /// Takes out, for good, those of 64 from `first` on for which the mask has a bit.
    #[inline]
    pub(super) fn remove_all(&mut self, first: u64, mask: u64) {
        match self.places.page(first) {
            Some(mut page) if self.late.is_empty() => self.emitted -= page.remove_all(mask) as usize,
            _ => {
                for bit in bits(mask) {
                    self.remove(first + bit as u64);
                }
            }
        }
    }

    /// Has one that is in flight replayed, behind those that failed before.
    pub(super) fn fail(&mut self, number: u64) {
        if let Some(place) = self.places.remove(number) {
            self.emitted -= 1;
            self.put_back(place);
        }
    }

    /// Has one replayed that is not in flight.
    pub(super) fn put_back(&mut self, place: P) {
        self.keep(place);
        self.failed.push_back(place);
    }

    /// Has one counted among all, though it is neither in flight nor replayed.
    pub(super) fn keep(&mut self, place: P) {
        self.late.insert(place);
    }

    /// One that was not emitted, or given by [`next_failed`](Self::next_failed), never will be.
    pub(super) fn leave_out(&mut self, place: P) {
        self.late.remove(&place);
    }

    /// The next one to be replayed.
    #[inline]
    pub(super) fn next_failed(&mut self) -> Option<P> {
        if self.failed.is_empty() { None } else { self.failed.pop_front() }
    }

    /// How many there are, those that failed among them.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.emitted + self.failed.len()
    }

    /// All of them, in the order in which they were emitted first.
    pub(super) fn iter(&self) -> impl Iterator<Item = P> {
        let in_time = self.places.iter().filter(|place| !self.late.contains(place));
        let (mut in_time, mut late) = (in_time.copied().peekable(), self.late.iter().copied().peekable());
        std::iter::from_fn(move || match (in_time.peek(), late.peek()) {
            (Some(first), Some(other)) if other < first => late.next(),
            (Some(_), _) => in_time.next(),
            (None, _) => late.next(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Push,
        Ack(usize),
        AckAll(usize),
        Fail(usize),
        Replay(bool),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => Just(Step::Push),
            3 => any::<usize>().prop_map(Step::Ack),
            1 => any::<usize>().prop_map(Step::AckAll),
            2 => any::<usize>().prop_map(Step::Fail),
            2 => any::<bool>().prop_map(Step::Replay),
        ]
    }

    proptest! {
        /// Oracle: a set in the order of emission, and a queue of what failed.
        #[test]
        fn it_keeps_the_order_and_every_failed_one(steps in prop::collection::vec(step(), 0..200)) {
            let mut it = InFlight::new(0);
            let (mut all, mut out, mut failed) = (BTreeSet::new(), Vec::new(), VecDeque::new());
            let (mut pushed, mut number) = (0_u64, 0);
            for step in steps {
                match step {
                    Step::Push => {
                        it.put(number, pushed);
                        all.insert(pushed);
                        out.push((number, pushed));
                        (pushed, number) = (pushed + 1, number + 1);
                    }
                    Step::Ack(i) if !out.is_empty() => {
                        let (number, place) = out.swap_remove(i % out.len());
                        prop_assert_eq!(it.remove(number), Some(place));
                        all.remove(&place);
                    }
                    Step::AckAll(i) if !out.is_empty() => {
                        let first = out[i % out.len()].0 & !63;
                        let (some, others) = out.into_iter().partition(|(number, _)| number & !63 == first);
                        let some: Vec<(u64, u64)> = some;
                        out = others;
                        it.remove_all(first, some.iter().fold(0, |mask, (number, _)| mask | 1 << (number % 64)));
                        some.iter().for_each(|(_, place)| assert!(all.remove(place)));
                    }
                    Step::Fail(i) if !out.is_empty() => {
                        let (number, place) = out.swap_remove(i % out.len());
                        it.fail(number);
                        failed.push_back(place);
                    }
                    Step::Replay(emitted) => {
                        let next = it.next_failed();
                        prop_assert_eq!(next, failed.pop_front());
                        if let Some(place) = next && emitted {
                            it.put(number, place);
                            out.push((number, place));
                            number += 1;
                        } else if let Some(place) = next {
                            it.leave_out(place);
                            all.remove(&place);
                        }
                    }
                    _ => {}
                }
                prop_assert_eq!(it.iter().collect::<Vec<_>>(), all.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(it.len(), all.len());
            }
        }
    }
}
