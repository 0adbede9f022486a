//! The tuples of a spout that are in flight, in the order in which they were emitted first, and those to be replayed.
//!
//! They are numbered, and stand in a window that moves on as the oldest are acked: a step is a few instructions at the
//! window's ends, however many are in flight. While the oldest one is stuck the window grows; when it is twice as long as
//! there may be in flight, the oldest ones leave it for a tree. So memory is bounded by what is in flight.

use std::collections::{BTreeMap, VecDeque};

/// The shortest window.
const MIN_WINDOW: u64 = 64;

/// What is in flight; `P` says what each is.
pub(super) struct InFlight<P> {
    /// `None` is not in flight any more; the first one is.
    window: VecDeque<Option<P>>,
    /// The number of the first in the window. The next one to be emitted has that of its end.
    first: u64,
    max_window: usize,
    /// Those that were too old for the window, by number.
    stragglers: BTreeMap<u64, P>,
    /// How many were taken out.
    removed: u64,
    /// Those that failed and were not emitted again yet, in the order in which they failed.
    failed: VecDeque<u64>,
}

impl<P: Copy> InFlight<P> {
    /// Of which there are so many at most, or little more.
    pub(super) fn new(max_pending: u64) -> Self {
        Self {
            window: VecDeque::new(),
            first: 0,
            max_window: (2 * max_pending).max(MIN_WINDOW) as usize,
            stragglers: BTreeMap::new(),
            removed: 0,
            failed: VecDeque::new(),
        }
    }

    /// Adds one behind all others; the number that it gets is no other's.
    #[inline]
    pub(super) fn push(&mut self, place: P) -> u64 {
        if self.window.len() >= self.max_window {
            self.give_up_oldest();
        }
        let number = self.pushed();
        self.window.push_back(Some(place));
        number
    }

    #[cold]
    #[inline(never)]
    fn give_up_oldest(&mut self) {
        if let Some(oldest) = self.window.pop_front() {
            self.stragglers.extend(oldest.map(|place| (self.first, place)));
            self.first += 1;
            self.advance();
        }
    }

    fn advance(&mut self) {
        while let Some(None) = self.window.front() {
            self.window.pop_front();
            self.first += 1;
        }
    }

    /// Takes one out that is in flight and not waiting to be replayed.
    #[inline]
    pub(super) fn remove(&mut self, number: u64) {
        self.removed += 1;
        if number == self.first {
            self.window.pop_front();
            self.first += 1;
            self.advance();
        } else if let Some(gone) = self.window.get_mut(number.wrapping_sub(self.first) as usize) {
            *gone = None;
        } else {
            self.remove_straggler(number);
        }
    }

    #[cold]
    #[inline(never)]
    fn remove_straggler(&mut self, number: u64) {
        self.stragglers.remove(&number);
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
        let in_window = self.window.get(number.wrapping_sub(self.first) as usize).copied().flatten();
        let place = in_window.or_else(|| self.stragglers.get(&number).copied())?;
        Some((number, place))
    }

    /// How many were ever added.
    #[inline]
    pub(super) fn pushed(&self) -> u64 {
        self.first + self.window.len() as u64
    }

    /// How many there are, those that failed among them.
    #[inline]
    pub(super) fn len(&self) -> usize {
        (self.pushed() - self.removed) as usize
    }

    /// All of them, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = P> {
        self.stragglers.values().copied().chain(self.window.iter().copied().flatten())
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
            let mut it = InFlight { max_window: 8, ..InFlight::new(0) };
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
                prop_assert!(it.window.len() <= 8 && it.stragglers.len() <= all.len());
                prop_assert_eq!(it.pushed(), pushed);
            }
        }
    }
}
