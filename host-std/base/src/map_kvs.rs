//! Key-value space of a host: a list that grows, and an index by key.

use crate::key_index::KeyIndex;
use crate::kvs_budget::KvsBudget;
use crate::sealed_blocks::{OFFSETS_MAX, SealedBlocks};
use pmi_core::store::{BlockError, BlockRecord, Entry, EntryId, Keyspace, Kvs, NoRoom, Visibility};
use pmi_std::snapshot::server::{ChangedKeys, TrackedKvs};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::rc::Rc;
use std::sync::Arc;

/// A [`Kvs`] on the heap.
///
/// Entries are numbered in the order of the puts and keep their numbers, so [`next`](Kvs::next) is the
/// same on every machine.
#[derive(Debug, Default)]
pub struct MapKvs {
    /// In ascending order of their numbers.
    records: Vec<StoredPair>,
    /// Number of the next entry. Numbers are not reused, since a pending answer may refer to one.
    following: u32,
    /// Entry numbers by key and keyspace.
    numbers: KeyIndex,
    hasher: RandomState,
    /// Lengths of the keys in [`Keyspace::Attributes`], a bit for each remainder by 64. Every get looks there
    /// first, in vain as a rule.
    attribute_lens: u64,
    /// Pairs of other nodes, whose numbers begin at [`OFFSETS_MAX`].
    remote: SealedBlocks,
    /// Number of pairs of other nodes that count towards the budget.
    remote_pairs: u64,
    /// Budget shared with the other spaces of the run.
    budget: Rc<KvsBudget>,
    /// Number of bytes of all keys and values in this space.
    bytes: u64,
    /// Name, for messages.
    name: Box<str>,
    /// Keys of the job's space whose value may have changed, if that is tracked.
    changed: ChangedKeys,
}

#[derive(Debug)]
struct StoredPair {
    number: u32,
    hash: u32,
    keyspace: Keyspace,
    visibility: Visibility,
    /// The key, then the value.
    bytes: Box<[u8]>,
    key_bytes: usize,
}

impl Kvs for MapKvs {
    /// Kept as it is, without a copy.
    type Block = Rc<[u8]>;

    fn put(
        &mut self,
        keyspace: Keyspace,
        key: &[u8],
        value: &[u8],
        visibility: Visibility,
    ) -> Result<(EntryId, Option<Visibility>), NoRoom> {
        let hash = self.hash(keyspace, key);
        if let Some(number) = self.search(hash, keyspace, key) {
            let place = self.place(number).ok_or(NoRoom)?;
            let (old, new) = (len(self.records[place].value()), len(value));
            self.reserve(0, new.saturating_sub(old)).ok_or_else(|| self.refuse(key, visibility))?;
            self.release(0, old.saturating_sub(new));
            let record = &mut self.records[place];
            if old == new {
                record.bytes[record.key_bytes..].copy_from_slice(value);
            } else {
                record.bytes = [key, value].concat().into();
            }
            let former = std::mem::replace(&mut record.visibility, visibility);
            self.note_change(place);
            return Ok((EntryId(number), Some(former)));
        }
        let number = self.following;
        let following = number.checked_add(1).filter(|next| *next < OFFSETS_MAX).ok_or(NoRoom)?;
        self.reserve(1, len(key) + len(value)).ok_or_else(|| self.refuse(key, visibility))?;
        self.following = following;
        self.numbers.insert(hash, number);
        if keyspace == Keyspace::Attributes {
            self.attribute_lens |= len_bit(key);
        }
        let (bytes, key_bytes) = ([key, value].concat().into(), key.len());
        self.records.push(StoredPair { number, hash, keyspace, visibility, bytes, key_bytes });
        self.note_change(self.records.len() - 1);
        Ok((EntryId(number), None))
    }

    fn find(&self, keyspace: Keyspace, key: &[u8]) -> Option<EntryId> {
        match keyspace {
            Keyspace::Remote => return self.remote.find(key).map(remote_id),
            Keyspace::Attributes if self.attribute_lens & len_bit(key) == 0 => return None,
            _ => {}
        }
        self.search(self.hash(keyspace, key), keyspace, key).map(EntryId)
    }

    fn entry(&self, id: EntryId) -> Option<Entry<'_>> {
        if let Some(offset) = id.0.checked_sub(OFFSETS_MAX) {
            let BlockRecord::Pair { writer, key, value } = self.remote.pair(offset)? else {
                return None;
            };
            let (keyspace, visibility) = (Keyspace::Remote, Visibility::at_once(writer));
            return Some(Entry { keyspace, key, value, visibility });
        }
        let record = self.record(id.0)?;
        let (key, value) = record.bytes.split_at_checked(record.key_bytes)?;
        Some(Entry { keyspace: record.keyspace, key, value, visibility: record.visibility })
    }

    fn set_visibility(&mut self, id: EntryId, visibility: Visibility) {
        if let Some(place) = self.place(id.0) {
            self.records[place].visibility = visibility;
            self.note_change(place);
        }
    }

    fn remove(&mut self, id: EntryId) {
        let Some(place) = self.place(id.0) else { return };
        let StoredPair { number, hash, bytes, .. } = self.records.remove(place);
        self.numbers.remove(hash, number);
        self.release(1, len(&bytes));
    }

    fn add_block(&mut self, block: &Rc<[u8]>) -> Result<(), BlockError> {
        let count = SealedBlocks::count(block)?;
        if count == 0 {
            return Ok(());
        }
        let (pairs, bytes) = (len_of(count), len(block));
        self.reserve(pairs, bytes).ok_or(BlockError::NoRoom)?;
        self.remote_pairs += pairs;
        match self.remote.add(block, count) {
            Ok((pairs, bytes)) => {
                self.changed.note_block(block);
                self.remote_pairs -= pairs;
                self.release(pairs, bytes);
                Ok(())
            }
            Err(error) => {
                self.remote_pairs -= pairs;
                self.release(pairs, bytes);
                Err(error)
            }
        }
    }

    fn next(&self, last: Option<EntryId>) -> Option<EntryId> {
        if let Some(offset) = last.and_then(|last| last.0.checked_sub(OFFSETS_MAX)) {
            return self.remote.next(Some(offset)).map(remote_id);
        }
        let from = last.map_or(Some(0), |last| last.0.checked_add(1))?;
        let place = match self.place(from) {
            Some(place) => place,
            None => self.records.partition_point(|record| record.number < from),
        };
        self.records.get(place).map(|record| EntryId(record.number))
    }

    fn first_remote(&self) -> Option<EntryId> {
        self.remote.next(None).map(remote_id)
    }
}

impl TrackedKvs for MapKvs {
    fn take_changes(&self, fences: u32) -> Vec<Arc<[u8]>> {
        self.changed.take(self, fences)
    }
}

impl MapKvs {
    /// Creates an empty space, called `name` in messages, which shares a budget with others.
    pub fn new(budget: &Rc<KvsBudget>, name: &str) -> Self {
        Self {
            records: Vec::new(),
            following: 0,
            numbers: KeyIndex::default(),
            hasher: RandomState::new(),
            attribute_lens: 0,
            remote: SealedBlocks::default(),
            remote_pairs: 0,
            budget: Rc::clone(budget),
            bytes: 0,
            name: name.into(),
            changed: ChangedKeys::default(),
        }
    }

    /// Notes that the pair at this place of the list has changed.
    fn note_change(&self, place: usize) {
        if let Some(record) = self.records.get(place) {
            self.changed.note(record.keyspace, record.key());
        }
    }

    /// Takes pairs and bytes from the budget, if enough is left.
    fn reserve(&mut self, pairs: u64, bytes: u64) -> Option<()> {
        self.budget.take(pairs, bytes).then(|| self.bytes += bytes)
    }

    fn release(&mut self, pairs: u64, bytes: u64) {
        self.budget.give_back(pairs, bytes);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    fn refuse(&self, key: &[u8], visibility: Visibility) -> NoRoom {
        self.budget.refuse(&self.name, visibility.writer(), key);
        NoRoom
    }

    /// The number of a key.
    fn search(&self, hash: u32, keyspace: Keyspace, key: &[u8]) -> Option<u32> {
        let is_it = |number| {
            let record = self.record(number);
            record.is_some_and(|record| record.keyspace == keyspace && record.key() == key)
        };
        self.numbers.find(hash, is_it)
    }

    fn record(&self, number: u32) -> Option<&StoredPair> {
        self.records.get(self.place(number)?)
    }

    /// Place of the pair with this number in the list.
    fn place(&self, number: u32) -> Option<usize> {
        let first = number as usize;
        // Nothing was removed before it, as a rule.
        if self.records.get(first).is_some_and(|record| record.number == number) {
            return Some(first);
        }
        let before = self.records.get(..first).unwrap_or(&self.records);
        before.binary_search_by_key(&number, |record| record.number).ok()
    }

    fn hash(&self, keyspace: Keyspace, key: &[u8]) -> u32 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        // Keys are written whole and alone, and the same key is in few keyspaces.
        let hash = hasher.finish() ^ keyspace_bits(keyspace);
        u32::try_from(hash & u64::from(u32::MAX)).unwrap_or(0)
    }
}

impl StoredPair {
    fn key(&self) -> &[u8] {
        &self.bytes[..self.key_bytes]
    }

    fn value(&self) -> &[u8] {
        &self.bytes[self.key_bytes..]
    }
}

/// Distinguishes keyspaces in hashes.
const fn keyspace_bits(keyspace: Keyspace) -> u64 {
    match keyspace {
        Keyspace::Node(node) => (node as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32,
        _ => 0,
    }
}

/// Bit of the length of a key.
const fn len_bit(key: &[u8]) -> u64 {
    1 << (key.len() % 64)
}

impl Drop for MapKvs {
    fn drop(&mut self) {
        self.budget.give_back(len_of(self.records.len()) + self.remote_pairs, self.bytes);
    }
}

/// Number of the pair of another node at this offset.
const fn remote_id(offset: u32) -> EntryId {
    EntryId(OFFSETS_MAX + offset)
}

fn len(bytes: &[u8]) -> u64 {
    len_of(bytes.len())
}

fn len_of(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kvs_budget::KvsLimits;
    use pmi_core::ids::Rank;

    const BY: Visibility = Visibility::Put { writer: Rank(3), fence: 1 };

    fn value(kvs: &MapKvs, keyspace: Keyspace, key: &str) -> Option<Vec<u8>> {
        Some(kvs.entry(kvs.find(keyspace, key.as_bytes())?)?.value.to_vec())
    }

    #[test]
    fn key_is_found_in_its_own_keyspace_only() {
        let mut kvs = MapKvs::default();
        kvs.put(Keyspace::Space, b"k", b"1", BY).unwrap();
        kvs.put(Keyspace::Node(0), b"k", b"2", BY).unwrap();
        kvs.put(Keyspace::Node(1), b"k", b"3", BY).unwrap();
        assert_eq!(value(&kvs, Keyspace::Space, "k").unwrap(), b"1");
        assert_eq!(value(&kvs, Keyspace::Node(1), "k").unwrap(), b"3");
        assert_eq!(kvs.find(Keyspace::Names, b"k"), None);
    }

    #[test]
    fn second_put_replaces_tells_of_the_first_and_keeps_the_number() {
        let mut kvs = MapKvs::default();
        let (id, old) = kvs.put(Keyspace::Space, b"k", b"long value", BY).unwrap();
        assert_eq!((kvs.find(Keyspace::Space, b"k"), old), (Some(id), None));
        let other = Visibility::Put { writer: Rank(4), fence: 1 };
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

    #[test]
    fn spaces_share_a_budget_and_give_back_what_they_no_longer_hold() {
        let budget = Rc::new(KvsBudget::new(KvsLimits { pairs: 3, bytes: 12 }));
        let [mut one, mut other] = ["one", "other"].map(|name| MapKvs::new(&budget, name));
        one.put(Keyspace::Space, b"a", b"1", BY).unwrap();
        other.put(Keyspace::Space, b"b", b"1", BY).unwrap();
        one.put(Keyspace::Space, b"c", b"1", BY).unwrap();
        assert_eq!(budget.take_refused(), None);
        assert_eq!(other.put(Keyspace::Space, b"d", b"", BY), Err(NoRoom));
        assert_eq!(one.put(Keyspace::Space, b"e", b"", BY), Err(NoRoom));
        let refused = budget.take_refused().unwrap();
        assert_eq!(
            (&*refused.space, refused.rank, &*refused.key),
            ("other", Some(Rank(3)), &b"d"[..])
        );
        assert_eq!(budget.take_refused(), None);
        // Six bytes are left, and a value that is replaced does not count any more.
        assert_eq!(one.put(Keyspace::Space, b"a", b"12345678", BY), Err(NoRoom));
        assert_eq!(value(&one, Keyspace::Space, "a").unwrap(), b"1");
        one.put(Keyspace::Space, b"a", b"1234567", BY).unwrap();
        one.put(Keyspace::Space, b"a", b"", BY).unwrap();
        other.put(Keyspace::Space, b"b", b"12345678", BY).unwrap();
        one.remove(one.find(Keyspace::Space, b"c").unwrap());
        one.put(Keyspace::Space, b"f", b"", BY).unwrap();
        assert_eq!(one.put(Keyspace::Space, b"g", b"", BY), Err(NoRoom));
        drop(other);
        one.put(Keyspace::Space, b"g", b"12345678", BY).unwrap();
    }

    #[test]
    fn pairs_of_other_nodes_are_found_beside_own_ones() {
        let add = |space: &mut MapKvs, block: &[u8]| space.add_block(&block.into());
        pmi_testkit::kvs::check_blocks(MapKvs::default(), add);
        let budget = Rc::new(KvsBudget::new(KvsLimits { pairs: 2, bytes: 64 }));
        pmi_testkit::kvs::check_full(MapKvs::new(&budget, "a"), add);
        // A space that is gone holds nothing.
        let mut other = MapKvs::new(&budget, "b");
        add(&mut other, &pmi_testkit::kvs::block(&[(1, "k", "1"), (2, "l", "2")])).unwrap();
    }

    #[test]
    fn thousands_of_pairs_of_many_blocks_are_found() {
        let mut kvs = MapKvs::default();
        let names: Vec<String> = (0..5000).map(|number| format!("key-{number}")).collect();
        for round in 0..3 {
            for (writer, part) in (round..).zip(names.chunks(1700)) {
                let pairs: Vec<_> =
                    part.iter().map(|key| (writer, key.as_str(), &key[4..])).collect();
                kvs.add_block(&pmi_testkit::kvs::block(&pairs).into()).unwrap();
            }
        }
        for (number, name) in names.iter().enumerate() {
            let entry = kvs.entry(kvs.find(Keyspace::Remote, name.as_bytes()).unwrap()).unwrap();
            assert_eq!((entry.key, entry.value), (name.as_bytes(), &name.as_bytes()[4..]));
            let writer = u32::try_from(number / 1700).unwrap() + 2;
            assert_eq!(entry.visibility.writer(), Some(Rank(writer)));
        }
        assert_eq!(kvs.find(Keyspace::Remote, b"key-5000"), None);
    }

    #[test]
    fn changed_keys_are_taken_once_they_are_visible() {
        let mut kvs = MapKvs::default();
        kvs.put(Keyspace::Space, b"early", b"1", Visibility::Manager).unwrap();
        kvs.put(Keyspace::Space, b"k", b"1", BY).unwrap();
        kvs.put(Keyspace::Names, b"name", b"1", BY).unwrap();
        kvs.add_block(&pmi_testkit::kvs::block(&[(1, "remote", "1")]).into()).unwrap();
        let taken = |kvs: &MapKvs, fences| -> Vec<Vec<u8>> {
            kvs.take_changes(fences).iter().map(|key| key.to_vec()).collect()
        };
        assert_eq!(taken(&kvs, 0), [&b"early"[..], b"k", b"remote"]);
        kvs.add_block(&pmi_testkit::kvs::block(&[(1, "later", "1")]).into()).unwrap();
        assert_eq!(taken(&kvs, 0), [&b"k"[..], b"later"]);
        assert_eq!(taken(&kvs, 1), [b"k"]);
        assert_eq!(taken(&kvs, 1), [b""; 0]);
        let id = kvs.find(Keyspace::Space, b"early").unwrap();
        kvs.set_visibility(id, BY);
        assert_eq!(taken(&kvs, 1), [b"early"]);
    }

    #[test]
    fn bytes_of_replaced_blocks_are_given_back() {
        let budget = Rc::new(KvsBudget::new(KvsLimits { pairs: 3, bytes: 40 }));
        let mut kvs = MapKvs::new(&budget, "a");
        for round in 0..50 {
            let value = format!("value {round:2}");
            kvs.add_block(&pmi_testkit::kvs::block(&[(1, "k", &value)]).into()).unwrap();
            assert_eq!(self::value(&kvs, Keyspace::Remote, "k").unwrap(), value.as_bytes());
        }
    }
}
