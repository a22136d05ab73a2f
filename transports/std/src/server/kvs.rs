//! Key-value spaces on the heap, bounded against misbehaving ranks.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pmi_core::store::{BlockError, Entry, EntryId, Keyspace, Kvs, NoRoom, Visibility};

use crate::snapshot::server::{ChangedKeys, TrackedKvs};

/// A [`Kvs`] on the heap, for ranks of one node.
///
/// Entries are numbered in the order of the puts, so [`next`](Kvs::next) is the same on every machine.
#[derive(Debug, Default)]
pub struct HeapKvs {
    records: BTreeMap<u32, StoredPair>,
    /// Number of the next entry. Numbers are not reused, since a pending reply may refer to one.
    following: u32,
    /// Numbers of entries by key. They are looked up and never iterated.
    numbers: BTreeMap<Keyspace, HashMap<Vec<u8>, u32>>,
    /// Number of bytes of all keys and values.
    bytes: usize,
    /// Keys whose value may have changed, if that is tracked.
    changed: ChangedKeys,
}

#[derive(Debug)]
struct StoredPair {
    keyspace: Keyspace,
    key: Vec<u8>,
    value: Vec<u8>,
    visibility: Visibility,
}

impl HeapKvs {
    /// Counts `added` bytes in place of `removed` ones.
    fn count(&mut self, added: usize, removed: usize) -> Result<(), NoRoom> {
        let bytes = (self.bytes - removed).checked_add(added).ok_or(NoRoom)?;
        if bytes > SPACE_BYTES_MAX {
            return Err(NoRoom);
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl TrackedKvs for HeapKvs {
    fn take_changes(&self, fences: u32) -> Vec<Arc<[u8]>> {
        self.changed.take(self, fences)
    }
}

impl Kvs for HeapKvs {
    type Block = [u8];

    fn put(
        &mut self,
        keyspace: Keyspace,
        key: &[u8],
        value: &[u8],
        visibility: Visibility,
    ) -> Result<(EntryId, Option<Visibility>), NoRoom> {
        if let Some(id) = self.find(keyspace, key) {
            let old = self.records.get(&id.0).ok_or(NoRoom)?.value.len();
            self.count(value.len(), old)?;
            let record = self.records.get_mut(&id.0).ok_or(NoRoom)?;
            record.value = value.to_vec();
            let former = std::mem::replace(&mut record.visibility, visibility);
            self.changed.note(keyspace, key);
            return Ok((id, Some(former)));
        }
        let number = self.following;
        let following = number.checked_add(1).ok_or(NoRoom)?;
        self.count(key.len() + value.len() + PAIR_BYTES, 0)?;
        self.following = following;
        self.numbers.entry(keyspace).or_default().insert(key.to_vec(), number);
        self.changed.note(keyspace, key);
        let (key, value) = (key.to_vec(), value.to_vec());
        self.records.insert(number, StoredPair { keyspace, key, value, visibility });
        Ok((EntryId(number), None))
    }

    fn find(&self, keyspace: Keyspace, key: &[u8]) -> Option<EntryId> {
        self.numbers.get(&keyspace)?.get(key).copied().map(EntryId)
    }

    fn entry(&self, id: EntryId) -> Option<Entry<'_>> {
        let StoredPair { keyspace, key, value, visibility } = self.records.get(&id.0)?;
        Some(Entry { keyspace: *keyspace, key, value, visibility: *visibility })
    }

    fn set_visibility(&mut self, id: EntryId, visibility: Visibility) {
        if let Some(record) = self.records.get_mut(&id.0) {
            record.visibility = visibility;
            self.changed.note(record.keyspace, &record.key);
        }
    }

    fn remove(&mut self, id: EntryId) {
        let Some(StoredPair { keyspace, key, value, .. }) = self.records.remove(&id.0) else {
            return;
        };
        self.bytes -= key.len() + value.len() + PAIR_BYTES;
        if let Some(numbers) = self.numbers.get_mut(&keyspace) {
            numbers.remove(&key);
        }
    }

    fn add_block(&mut self, _block: &[u8]) -> Result<(), BlockError> {
        // All ranks are on this node.
        Err(BlockError::NoRoom)
    }

    fn next(&self, last: Option<EntryId>) -> Option<EntryId> {
        let from = match last {
            Some(last) => last.0.checked_add(1)?,
            None => 0,
        };
        self.records.range(from..).next().map(|(number, _)| EntryId(*number))
    }
}

/// Bound of a space: 256 MiB. A job of 10,000 ranks with 16 values of 1 KiB each needs 170 MiB.
const SPACE_BYTES_MAX: usize = 256 << 20;

/// Memory of a pair besides its bytes, roughly.
const PAIR_BYTES: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_stays_below_its_bound_and_reuses_what_is_removed() {
        let mut kvs = HeapKvs::default();
        let value = vec![b'v'; SPACE_BYTES_MAX / 2];
        let mut put = |key: &[u8]| {
            let put = kvs.put(Keyspace::Space, key, &value, Visibility::Manager);
            (put.map(|(id, _)| id), kvs.bytes)
        };
        let first = put(b"a").0.unwrap();
        assert_eq!(put(b"b").0, Err(NoRoom));
        // The same key again replaces its value.
        assert_eq!(put(b"a").0, Ok(first));
        kvs.remove(first);
        assert_eq!(kvs.bytes, 0);
        assert_eq!(kvs.find(Keyspace::Space, b"a"), None);
        let (id, _) = kvs.put(Keyspace::Space, b"b", &value, Visibility::Manager).unwrap();
        assert_eq!((kvs.next(None), kvs.next(Some(id))), (Some(id), None));
    }
}
