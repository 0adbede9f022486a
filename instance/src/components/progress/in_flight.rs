//! The tuples of a spout that are in flight, in the order in which they were emitted first, and those to be replayed.
//!
//! A slab whose entries are linked in order: every step takes the same few instructions however many are in flight, in
//! whatever order they come back, and the memory is that of the most that ever were in flight at once. (A queue with
//! marks would grow without bound while its oldest entry is stuck.)

use std::collections::VecDeque;

const NONE: u32 = u32::MAX;

/// What is in flight; `P` says what each is.
pub(super) struct InFlight<P> {
    entries: Vec<Entry<P>>,
    /// The first free entry; `next` of each leads to another one.
    free: u32,
    oldest: u32,
    newest: u32,
    len: usize,
    /// Those that failed and were not emitted again yet, in the order in which they failed.
    failed: VecDeque<u32>,
}

struct Entry<P> {
    place: P,
    previous: u32,
    next: u32,
}

impl<P: Copy> InFlight<P> {
    pub(super) fn new() -> Self {
        Self { entries: Vec::new(), free: NONE, oldest: NONE, newest: NONE, len: 0, failed: VecDeque::new() }
    }

    /// Adds one behind all others; the number that it gets is its own until it is [`remove`](Self::remove)d.
    #[inline]
    pub(super) fn push(&mut self, place: P) -> u32 {
        let entry = Entry { place, previous: self.newest, next: NONE };
        let id = self.free;
        let id = if id == NONE {
            self.entries.push(entry);
            (self.entries.len() - 1) as u32
        } else {
            let free = &mut self.entries[id as usize];
            self.free = free.next;
            *free = entry;
            id
        };
        match self.entries.get_mut(self.newest as usize) {
            Some(newest) => newest.next = id,
            None => self.oldest = id,
        }
        self.newest = id;
        self.len += 1;
        id
    }

    /// Takes one out that is in flight and not waiting to be replayed.
    #[inline]
    pub(super) fn remove(&mut self, id: u32) {
        let Entry { previous, next, .. } = self.entries[id as usize];
        match self.entries.get_mut(previous as usize) {
            Some(before) => before.next = next,
            None => self.oldest = next,
        }
        match self.entries.get_mut(next as usize) {
            Some(after) => after.previous = previous,
            None => self.newest = previous,
        }
        self.entries[id as usize].next = self.free;
        self.free = id;
        self.len -= 1;
    }

    /// Has one replayed, behind those that failed before.
    pub(super) fn fail(&mut self, id: u32) {
        self.failed.push_back(id);
    }

    /// The next one to be replayed. It keeps its place in the order.
    #[inline]
    pub(super) fn next_failed(&mut self) -> Option<(u32, P)> {
        let id = self.failed.pop_front()?;
        Some((id, self.entries[id as usize].place))
    }

    /// How many there are, those that failed among them.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// All of them, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = P> {
        let mut at = self.oldest;
        std::iter::from_fn(move || {
            let entry = self.entries.get(at as usize)?;
            at = entry.next;
            Some(entry.place)
        })
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
            let mut it = InFlight::new();
            let (mut all, mut out, mut failed) = (BTreeMap::new(), Vec::new(), VecDeque::new());
            let (mut pushed, mut most) = (0_u64, 0);
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
                most = most.max(all.len());
                prop_assert_eq!(it.iter().collect::<Vec<_>>(), all.keys().copied().collect::<Vec<_>>());
                prop_assert_eq!(it.len(), all.len());
                prop_assert!(it.entries.len() <= most);
            }
        }
    }
}
