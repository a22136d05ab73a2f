//! The key-value space of a host: a list that grows, and an index by key.

use pmi_core::store::{Entry, EntryId, Keyspace, Kvs, NoRoom, Visibility};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// A [`Kvs`] on the heap.
///
/// Entries are numbered in the order of the puts and keep their numbers, so [`next`](Kvs::next) is the
/// same on every machine.
#[derive(Debug, Default)]
pub struct MapKvs {
    records: BTreeMap<u32, Record>,
    /// The next number. None is given twice: an answer may be owed by number.
    following: u32,
    /// Numbers by key, for each shelf. Only ever looked up and never walked, so that it has no order
    /// does not show. Few shelves, many keys: looking up needs no copy of the key this way.
    numbers: BTreeMap<Keyspace, HashMap<Rc<[u8]>, u32>>,
}

#[derive(Debug)]
struct Record {
    shelf: Keyspace,
    /// Shared with the key of `numbers`.
    key: Rc<[u8]>,
    value: Box<[u8]>,
    stamp: Visibility,
}

impl Kvs for MapKvs {
    fn put(
        &mut self,
        shelf: Keyspace,
        key: &[u8],
        value: &[u8],
        stamp: Visibility,
    ) -> Result<(EntryId, Option<Visibility>), NoRoom> {
        let found = self.find(shelf, key);
        if let Some((id, record)) = found.and_then(|id| Some((id, self.record_mut(id)?))) {
            record.value = value.into();
            return Ok((id, Some(std::mem::replace(&mut record.stamp, stamp))));
        }
        let number = self.following;
        self.following = number.checked_add(1).ok_or(NoRoom)?;
        let key: Rc<[u8]> = key.into();
        self.numbers.entry(shelf).or_default().insert(Rc::clone(&key), number);
        self.records.insert(number, Record { shelf, key, value: value.into(), stamp });
        Ok((EntryId(number), None))
    }

    fn find(&self, shelf: Keyspace, key: &[u8]) -> Option<EntryId> {
        self.numbers.get(&shelf)?.get(key).copied().map(EntryId)
    }

    fn entry(&self, id: EntryId) -> Option<Entry<'_>> {
        let Record { shelf, key, value, stamp } = self.records.get(&id.0)?;
        Some(Entry { keyspace: *shelf, key, value, visibility: *stamp })
    }

    fn set_visibility(&mut self, id: EntryId, stamp: Visibility) {
        if let Some(record) = self.record_mut(id) {
            record.stamp = stamp;
        }
    }

    fn remove(&mut self, id: EntryId) {
        let Some(Record { shelf, key, .. }) = self.records.remove(&id.0) else { return };
        if let Some(numbers) = self.numbers.get_mut(&shelf) {
            numbers.remove(&key);
        }
    }

    fn next(&self, last: Option<EntryId>) -> Option<EntryId> {
        let from = last.map_or(Some(0), |last| last.0.checked_add(1))?;
        self.records.range(from..).next().map(|(number, _)| EntryId(*number))
    }
}

impl MapKvs {
    fn record_mut(&mut self, id: EntryId) -> Option<&mut Record> {
        self.records.get_mut(&id.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmi_core::ids::Rank;

    const BY: Visibility = Visibility { writer: Rank(3), fence: 1 };

    fn value(kvs: &MapKvs, shelf: Keyspace, key: &str) -> Option<Vec<u8>> {
        Some(kvs.entry(kvs.find(shelf, key.as_bytes())?)?.value.to_vec())
    }

    #[test]
    fn a_key_is_found_on_its_own_shelf_only() {
        let mut kvs = MapKvs::default();
        kvs.put(Keyspace::Space, b"k", b"1", BY).unwrap();
        kvs.put(Keyspace::Node(0), b"k", b"2", BY).unwrap();
        kvs.put(Keyspace::Node(1), b"k", b"3", BY).unwrap();
        assert_eq!(value(&kvs, Keyspace::Space, "k").unwrap(), b"1");
        assert_eq!(value(&kvs, Keyspace::Node(1), "k").unwrap(), b"3");
        assert_eq!(kvs.find(Keyspace::Names, b"k"), None);
    }

    #[test]
    fn a_second_put_replaces_tells_of_the_first_and_keeps_the_number() {
        let mut kvs = MapKvs::default();
        let (id, old) = kvs.put(Keyspace::Space, b"k", b"long value", BY).unwrap();
        assert_eq!((kvs.find(Keyspace::Space, b"k"), old), (Some(id), None));
        let other = Visibility { writer: Rank(4), fence: 1 };
        assert_eq!(kvs.put(Keyspace::Space, b"k", b"", other), Ok((id, Some(BY))));
        assert_eq!(kvs.put(Keyspace::Space, b"k", &[7; 5000], BY), Ok((id, Some(other))));
        assert_eq!(kvs.find(Keyspace::Space, b"k"), Some(id));
        assert_eq!(value(&kvs, Keyspace::Space, "k").unwrap(), [7; 5000]);
        kvs.set_visibility(id, other);
        assert_eq!(kvs.entry(id).unwrap().visibility, other);
    }

    #[test]
    fn entries_are_listed_in_the_order_of_the_puts_and_numbers_stay() {
        let mut kvs = MapKvs::default();
        for key in ["z", "a", "m"] {
            kvs.put(Keyspace::Space, key.as_bytes(), b"", BY).unwrap();
        }
        kvs.remove(kvs.find(Keyspace::Space, b"a").unwrap());
        let (mut listed, mut last) = (Vec::new(), kvs.next(None));
        while let Some(id) = last {
            listed.push(kvs.entry(id).unwrap().key.to_vec());
            last = kvs.next(last);
        }
        assert_eq!(listed, [b"z", b"m"]);
        assert_eq!(
            (kvs.find(Keyspace::Space, b"a"), value(&kvs, Keyspace::Space, "a")),
            (None, None)
        );
    }
}
