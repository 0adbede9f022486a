//! Things that are numbered as they come, and go in much the same order.
//!
//! They stand in a ring: a step is a few instructions, however many there are. When the ring is full it moves on to the oldest
//! that is still there. While that leaves less than half of it free the ring grows; once it is four times as long as there
//! are things at most, the oldest ones leave it for a tree. So memory is bounded by what is there.

use std::collections::BTreeMap;

/// The shortest ring that does not grow any more.
const MIN_RING: usize = 64;

/// See the [module](self).
pub(crate) struct Numbered<T> {
    /// A power of two of them, or none; `None` is gone or not there yet.
    ring: Vec<Option<T>>,
    /// The number from which on they are in the ring, and that of the next one.
    first: u64,
    next: u64,
    max_ring: usize,
    /// Those that were too old for the ring.
    stragglers: BTreeMap<u64, T>,
}

impl<T> Numbered<T> {
    /// For so many things at a time, or little more.
    pub(crate) fn new(most: usize) -> Self {
        let max_ring = (4 * most).max(MIN_RING).next_power_of_two();
        Self { ring: Vec::new(), first: 0, next: 0, max_ring, stragglers: BTreeMap::new() }
    }

    #[inline]
    fn place(&self, number: u64) -> usize {
        number as usize & self.ring.len().wrapping_sub(1)
    }

    /// The number that the next one gets.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Adds one; its number.
    #[inline]
    pub(crate) fn push(&mut self, thing: T) -> u64 {
        if self.next - self.first == self.ring.len() as u64 {
            self.make_room();
        }
        let (number, place) = (self.next, self.place(self.next));
        if let Some(place) = self.ring.get_mut(place) {
            *place = Some(thing);
        }
        self.next += 1;
        number
    }

    /// Adds one with this number, and leaves out those before it that are no one's.
    #[inline]
    pub(crate) fn push_as(&mut self, number: u64, thing: T) {
        if number != self.next {
            self.leave_out(number);
        }
        self.push(thing);
    }

    #[cold]
    #[inline(never)]
    fn leave_out(&mut self, number: u64) {
        while self.next < number {
            if self.next - self.first == self.ring.len() as u64 {
                self.make_room();
            }
            self.next += 1;
        }
    }

    #[cold]
    #[inline(never)]
    fn make_room(&mut self) {
        self.advance();
        let used = (self.next - self.first) as usize;
        if 2 * used > self.ring.len() || self.ring.is_empty() {
            if self.ring.len() < self.max_ring {
                self.grow();
            } else {
                self.give_up_oldest(used - self.ring.len() / 2);
            }
        }
    }

    fn advance(&mut self) {
        while self.first != self.next && self.ring[self.place(self.first)].is_none() {
            self.first += 1;
        }
    }

    fn grow(&mut self) {
        let things: Vec<_> = (self.first..self.next).map(|number| self.take(number)).collect();
        self.ring.resize_with((2 * self.ring.len()).max(1), || None);
        for (number, thing) in (self.first..).zip(things) {
            let place = self.place(number);
            self.ring[place] = thing;
        }
    }

    fn give_up_oldest(&mut self, count: usize) {
        let last = self.first + count as u64;
        for number in self.first..last {
            let thing = self.take(number);
            self.stragglers.extend(thing.map(|thing| (number, thing)));
        }
        self.first = last;
    }

    #[inline]
    fn take(&mut self, number: u64) -> Option<T> {
        let place = self.place(number);
        self.ring.get_mut(place).and_then(Option::take)
    }

    /// Takes one out.
    #[inline]
    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        if number.wrapping_sub(self.first) >= self.next - self.first {
            return self.remove_straggler(number);
        }
        self.take(number)
    }

    #[cold]
    #[inline(never)]
    fn remove_straggler(&mut self, number: u64) -> Option<T> {
        self.stragglers.remove(&number)
    }

    /// The one of this number.
    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        if (self.first..self.next).contains(&number) {
            self.ring.get(self.place(number)).and_then(Option::as_ref)
        } else {
            self.stragglers.get(&number)
        }
    }

    /// All of them, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let in_ring =
            (self.first..self.next).filter_map(|number| self.ring.get(self.place(number))?.as_ref());
        self.stragglers.values().chain(in_ring)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Push,
        LeaveOut(u64),
        Remove(usize),
        RemoveNone(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            5 => Just(Step::Push),
            1 => (0..3_u64).prop_map(Step::LeaveOut),
            4 => any::<usize>().prop_map(Step::Remove),
            1 => (0..300_u64).prop_map(Step::RemoveNone),
        ]
    }

    proptest! {
        /// Oracle: a map.
        #[test]
        fn it_is_a_map_in_the_order_of_numbers(steps in prop::collection::vec(step(), 0..300)) {
            let mut it = Numbered { max_ring: 8, ..Numbered::new(0) };
            let mut all = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Push => {
                        let number = it.push(it.next());
                        prop_assert_eq!(all.insert(number, number), None);
                    }
                    Step::LeaveOut(count) => {
                        let number = it.next() + count;
                        it.push_as(number, number);
                        prop_assert_eq!(all.insert(number, number), None);
                    }
                    Step::Remove(index) if !all.is_empty() => {
                        let number = *all.keys().nth(index % all.len()).unwrap();
                        prop_assert_eq!(it.get(number), Some(&number));
                        prop_assert_eq!(it.remove(number), all.remove(&number));
                    }
                    Step::RemoveNone(number) => prop_assert_eq!(it.remove(number), all.remove(&number)),
                    Step::Remove(_) => {}
                }
                prop_assert!(it.iter().eq(all.values()));
                prop_assert!(it.ring.len() <= 8 && it.stragglers.len() <= all.len());
            }
        }
    }
}
