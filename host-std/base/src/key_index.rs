//! Numbers of pairs by the hashes of their keys.

/// Hash table of numbers. The keys stay with the pairs, and so do comparisons of them.
///
/// Open addressing with linear probing, at most half full: a search reads one or two neighbouring slots, and
/// a key is compared only where all 32 bits of its hash agree.
#[derive(Debug, Default)]
pub(crate) struct KeyIndex {
    /// The number of slots is a power of two, or 0 at first.
    slots: Vec<Slot>,
    used: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    hash: u32,
    /// The number plus one; 0 in a free slot.
    after: u32,
}

impl KeyIndex {
    /// The number with this hash for which `is_it` holds.
    pub(crate) fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mut place = self.start(hash);
        loop {
            let slot = self.slots.get(place)?;
            let number = slot.after.checked_sub(1)?;
            if slot.hash == hash && is_it(number) {
                return Some(number);
            }
            place = self.behind(place);
        }
    }

    /// Adds a number, which is not `u32::MAX`, and whose key is not in the table.
    pub(crate) fn insert(&mut self, hash: u32, number: u32) {
        if 2 * (self.used + 1) > self.slots.len() {
            let len = (2 * self.slots.len()).max(SLOTS_MIN);
            let old = std::mem::replace(&mut self.slots, vec![Slot::default(); len]);
            old.into_iter().filter(|slot| slot.after > 0).for_each(|slot| self.place(slot));
        }
        self.used += 1;
        self.place(Slot { hash, after: number + 1 });
    }

    /// Removes a number with this hash, if it is there.
    pub(crate) fn remove(&mut self, hash: u32, number: u32) {
        let mut free = self.start(hash);
        loop {
            match self.slots.get(free) {
                None | Some(Slot { after: 0, .. }) => return,
                Some(slot) if slot.after == number + 1 => break,
                Some(_) => free = self.behind(free),
            }
        }
        self.used -= 1;
        self.slots[free] = Slot::default();
        // A search ends at a free slot, so those behind it move up, but not before their start.
        let mut place = self.behind(free);
        while self.slots[place].after > 0 {
            let mask = self.slots.len() - 1;
            let distance = |from: usize| place.wrapping_sub(from) & mask;
            if distance(self.start(self.slots[place].hash)) >= distance(free) {
                self.slots.swap(place, free);
                free = place;
            }
            place = self.behind(place);
        }
    }

    /// Puts a slot into the first free place from its start. There is one.
    fn place(&mut self, slot: Slot) {
        let mut place = self.start(slot.hash);
        while self.slots[place].after > 0 {
            place = self.behind(place);
        }
        self.slots[place] = slot;
    }

    /// First place of a hash.
    fn start(&self, hash: u32) -> usize {
        hash as usize & self.slots.len().wrapping_sub(1)
    }

    fn behind(&self, place: usize) -> usize {
        (place + 1) & (self.slots.len() - 1)
    }
}

/// Slots of the smallest table.
const SLOTS_MIN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn numbers_are_found_among_others_of_equal_hashes_until_they_are_removed() {
        let mut index = KeyIndex::default();
        let mut model = BTreeMap::new();
        // A generator of few hashes, many of which are equal or begin at the end of the table.
        let mut state = 1_u32;
        for number in 0..3000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let hash = (state >> 20).wrapping_sub(40) & !3;
            index.insert(hash, number);
            model.insert(number, hash);
            if state.is_multiple_of(3) {
                let gone = (state >> 8) % (number + 1);
                if let Some(hash) = model.remove(&gone) {
                    index.remove(hash, gone);
                }
                index.remove(7, gone);
            }
            assert_eq!(index.used, model.len());
        }
        for number in 0..3000 {
            let hash = model.get(&number).copied();
            let found = index.find(hash.unwrap_or(4), |found| found == number);
            assert_eq!(found, hash.map(|_| number));
        }
    }

    #[test]
    fn empty_index_finds_nothing() {
        let mut index = KeyIndex::default();
        assert_eq!(index.find(3, |_| true), None);
        index.remove(3, 0);
        index.insert(3, 0);
        assert_eq!((index.find(3, |_| true), index.find(3, |_| false)), (Some(0), None));
    }
}
