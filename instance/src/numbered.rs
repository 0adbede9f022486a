//! Things that are numbered as they come, and go in much the same order.
//!
//! They stand in a ring of pages of 64, each of which has a mask of those that are there: a step is a few instructions,
//! however many there are, and taking out all of a page's is one. When the ring is full it moves on to the oldest page that
//! is not empty. While that leaves less than half of it free the ring grows; once it is four times as long as there are
//! things at most, what is in the oldest pages leaves it for a tree. So memory is bounded by what is there.

use egret_dataplane::frame::{PAGE, bits};
use std::collections::BTreeMap;

/// The shortest ring that does not grow any more.
const MIN_PAGES: usize = 2;

/// See the [module](self).
pub(crate) struct Numbered<T> {
    /// Of a power of two of pages, or none. What is not there by its mask is left over.
    things: Vec<Option<T>>,
    /// Which are there, page by page; of the last one also all that are to come.
    masks: Vec<u64>,
    /// The first page in the ring: its first number by [`PAGE`].
    first_page: u64,
    /// The number of the next one, unless some are left out.
    next: u64,
    /// The first number behind the last page.
    end: u64,
    max_pages: usize,
    /// Those that were too old for the ring.
    stragglers: BTreeMap<u64, T>,
}

impl<T> Numbered<T> {
    /// For so many things at a time, or little more.
    pub(crate) fn new(most: usize) -> Self {
        let max_pages = (4 * most).div_ceil(PAGE as usize).max(MIN_PAGES).next_power_of_two();
        let (things, masks, stragglers) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self { things, masks, first_page: 0, next: 0, end: 0, max_pages, stragglers }
    }

    #[inline]
    fn slot(&self, page: u64) -> usize {
        page as usize & self.masks.len().wrapping_sub(1)
    }

    #[inline]
    fn place(&self, number: u64) -> usize {
        number as usize & self.things.len().wrapping_sub(1)
    }

    /// Adds one with a number that is greater than those before; what is left out in between is no one's.
    #[inline(always)]
    pub(crate) fn put(&mut self, number: u64, thing: T) {
        if number != self.next || number == self.end {
            self.go_to(number);
        }
        let place = self.place(number);
        if let Some(place) = self.things.get_mut(place) {
            *place = Some(thing);
        }
        self.next = number + 1;
    }

    /// Makes a place for this number, and leaves out those before it.
    #[cold]
    #[inline(never)]
    fn go_to(&mut self, number: u64) {
        debug_assert!(number >= self.next);
        self.leave_out(self.next, number.min(self.end));
        while self.end <= number {
            let first = self.end;
            self.turn_page();
            self.leave_out(first, number.min(self.end));
        }
        self.next = number;
    }

    /// Numbers of the last page are no one's.
    fn leave_out(&mut self, from: u64, to: u64) {
        if from < to {
            let slot = self.slot(from / PAGE);
            self.masks[slot] &= !(u64::MAX << (from % PAGE) & u64::MAX >> (PAGE - 1 - (to - 1) % PAGE));
        }
    }

    fn turn_page(&mut self) {
        let page = self.end / PAGE;
        if page - self.first_page == self.masks.len() as u64 {
            self.make_room(page);
        }
        let slot = self.slot(page);
        self.masks[slot] = u64::MAX;
        self.end += PAGE;
    }

    fn make_room(&mut self, page: u64) {
        while self.first_page != page && self.masks[self.slot(self.first_page)] == 0 {
            self.first_page += 1;
        }
        let used = (page - self.first_page) as usize;
        if 2 * used > self.masks.len() || self.masks.is_empty() {
            if self.masks.len() < self.max_pages {
                self.grow(page);
            } else {
                self.give_up_oldest(used - self.masks.len() / 2);
            }
        }
    }

    fn grow(&mut self, page: u64) {
        let pages = (2 * self.masks.len()).max(1);
        let mut larger = Self::new(0);
        larger.things.resize_with(pages * PAGE as usize, || None);
        larger.masks.resize(pages, 0);
        for number in self.first_page * PAGE..page * PAGE {
            let (from, to) = (self.place(number), larger.place(number));
            larger.things[to] = self.things[from].take();
        }
        for page in self.first_page..page {
            let to = larger.slot(page);
            larger.masks[to] = self.masks[self.slot(page)];
        }
        (self.things, self.masks) = (larger.things, larger.masks);
    }

    fn give_up_oldest(&mut self, pages: usize) {
        for page in self.first_page..self.first_page + pages as u64 {
            let slot = self.slot(page);
            for bit in bits(std::mem::take(&mut self.masks[slot])) {
                let thing = self.things[slot * PAGE as usize + bit].take();
                self.stragglers.extend(thing.map(|thing| (page * PAGE + bit as u64, thing)));
            }
        }
        self.first_page += pages as u64;
    }

    /// Whether there never was one.
    #[inline]
    pub(crate) fn is_unused(&self) -> bool {
        self.end == 0
    }

    /// Takes one out.
    #[inline]
    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        match self.page(number & !(PAGE - 1)) {
            Some(mut page) => page.remove(number),
            None => self.stragglers.remove(&number),
        }
    }

    /// Whether the page that begins with this number, a multiple of [`PAGE`], is in the ring.
    #[inline]
    pub(crate) fn has_page(&self, first: u64) -> bool {
        first / PAGE >= self.first_page && first < self.next
    }

    /// That page.
    #[inline]
    pub(crate) fn page(&mut self, first: u64) -> Option<NumberedPage<'_, T>> {
        if !self.has_page(first) {
            return None;
        }
        let slot = self.slot(first / PAGE);
        let (are_not_to_come, begin) = (self.below_next(first), slot * PAGE as usize);
        let there = self.masks.get_mut(slot)?;
        let things = self.things.get_mut(begin..)?.first_chunk_mut()?;
        Some(NumberedPage { there, are_not_to_come, things })
    }

    /// Those of a page that are not to come.
    #[inline]
    fn below_next(&self, first: u64) -> u64 {
        let before = self.next - first;
        if before < PAGE { (1 << before) - 1 } else { u64::MAX }
    }

    /// All of them, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let pages = (self.first_page..self.end / PAGE).flat_map(move |page| {
            let slot = self.slot(page);
            let there =
                if page * PAGE < self.next { self.masks[slot] & self.below_next(page * PAGE) } else { 0 };
            bits(there).filter_map(move |bit| self.things[slot * PAGE as usize + bit].as_ref())
        });
        self.stragglers.values().chain(pages)
    }
}

/// A page of things that are [`Numbered`].
pub(crate) struct NumberedPage<'n, T> {
    there: &'n mut u64,
    are_not_to_come: u64,
    things: &'n mut [Option<T>; PAGE as usize],
}

impl<T> NumberedPage<'_, T> {
    /// Takes out one with a number of this page.
    #[inline(always)]
    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        let bit = 1 << (number % PAGE);
        if *self.there & self.are_not_to_come & bit == 0 {
            return None;
        }
        *self.there &= !bit;
        self.things[(number % PAGE) as usize].take()
    }

    /// Takes out those for which the mask has a bit, and says how many there were.
    #[inline]
    pub(crate) fn remove_all(&mut self, mask: u64) -> u32
    where
        T: Copy,
    {
        let removed = *self.there & self.are_not_to_come & mask;
        *self.there &= !removed;
        removed.count_ones()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        /// So many left out, then so many put.
        Put(u64, u64),
        Remove(usize),
        RemoveAll(usize, u64),
        RemoveNone(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            5 => (prop_oneof![9 => Just(0), 2 => 1..200_u64], 1..40_u64).prop_map(|(left, put)| Step::Put(left, put)),
            4 => any::<usize>().prop_map(Step::Remove),
            4 => any::<(usize, u64)>().prop_map(|(index, mask)| Step::RemoveAll(index, mask)),
            1 => (0..3000_u64).prop_map(Step::RemoveNone),
        ]
    }

    proptest! {
        /// Oracle: a map.
        #[test]
        fn it_is_a_map_in_the_order_of_numbers(steps in prop::collection::vec(step(), 0..100)) {
            let mut it = Numbered::new(64);
            let (mut all, mut next) = (BTreeMap::new(), 0);
            for step in steps {
                match step {
                    Step::Put(left_out, count) => {
                        next += left_out;
                        for number in next..next + count {
                            it.put(number, number);
                            prop_assert_eq!(all.insert(number, number), None);
                        }
                        next += count;
                    }
                    Step::Remove(index) if !all.is_empty() => {
                        let number = *all.keys().nth(index % all.len()).unwrap();
                        prop_assert_eq!(it.remove(number), all.remove(&number));
                    }
                    Step::RemoveAll(index, mask) if !all.is_empty() => {
                        let first = *all.keys().nth(index % all.len()).unwrap() & !(PAGE - 1);
                        let there = |n: &u64| all.contains_key(n) && !it.stragglers.contains_key(n);
                        let some: Vec<u64> = bits(mask).map(|b| first + b as u64).filter(there).collect();
                        let removed = it.page(first).map_or(0, |mut page| page.remove_all(mask));
                        prop_assert_eq!(removed as usize, some.len());
                        all.retain(|number, _| !some.contains(number));
                    }
                    Step::RemoveNone(number) => prop_assert_eq!(it.remove(number), all.remove(&number)),
                    Step::Remove(_) | Step::RemoveAll(..) => {}
                }
                prop_assert!(it.iter().eq(all.values()));
                prop_assert!(it.masks.len() <= 4 && it.things.len() == 64 * it.masks.len());
                prop_assert!(it.stragglers.len() <= all.len());
            }
        }
    }
}
