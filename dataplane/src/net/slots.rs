//! Numbered places whose numbers are not used twice.

use super::reactor::ConnId;

/// Generations take 24 bits, so that a driver can put an operation's kind above the id in 64 bits.
const GENERATIONS: u32 = 1 << 24;

/// ```text
///  63      56 55        32 31       0
///  +---------+------------+---------+
///  | 0       | generation | index   |   ConnId
///  +---------+------------+---------+
/// ```
#[derive(Debug)]
pub(super) struct Slots<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Slots<T> {
    pub(super) const fn new() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }

    pub(super) fn insert(&mut self, value: T) -> ConnId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { generation: 0, value: None });
            // Descriptors run out long before 32 bits do.
            u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
        });
        let entry = &mut self.entries[index as usize];
        entry.value = Some(value);
        ConnId(u64::from(entry.generation) << 32 | u64::from(index))
    }

    fn entry(&self, id: ConnId) -> Option<&Entry<T>> {
        let entry = self.entries.get(id.0 as u32 as usize)?;
        (u64::from(entry.generation) == id.0 >> 32).then_some(entry)
    }

    pub(super) fn get(&self, id: ConnId) -> Option<&T> {
        self.entry(id)?.value.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: ConnId) -> Option<&mut T> {
        let entry = self.entries.get_mut(id.0 as u32 as usize)?;
        if u64::from(entry.generation) == id.0 >> 32 { entry.value.as_mut() } else { None }
    }

    pub(super) fn remove(&mut self, id: ConnId) -> Option<T> {
        self.entry(id)?;
        let index = id.0 as u32;
        let entry = &mut self.entries[index as usize];
        let value = entry.value.take()?;
        entry.generation = (entry.generation + 1) % GENERATIONS;
        self.free.push(index);
        Some(value)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = ConnId> + '_ {
        self.entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.value.is_some())
            .map(|(index, entry)| ConnId(u64::from(entry.generation) << 32 | index as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_id_does_not_reach_the_successor() {
        let mut slots = Slots::new();
        let old = slots.insert('a');
        assert_eq!(slots.remove(old), Some('a'));
        let new = slots.insert('b');
        assert_eq!(old.0 as u32, new.0 as u32, "the place is used again");
        assert!(slots.get(old).is_none() && slots.get_mut(old).is_none() && slots.remove(old).is_none());
        assert_eq!(slots.get(new), Some(&'b'));
        assert_eq!(slots.ids().collect::<Vec<_>>(), [new]);
    }
}
