//! Keys whose values the next publication has to have.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use pmi_core::store::{BlockReader, BlockRecord, EntryId, Keyspace, Kvs};

/// A key-value space that knows which of its pairs have changed.
pub trait TrackedKvs: Kvs {
    /// The keys of the job's space whose value may have changed since the last call; all of them in the first
    /// call. A pair that is not visible after `fences` fences stays for a later call.
    fn take_changes(&self, fences: u32) -> Vec<Arc<[u8]>>;
}

/// Keys of the job's space whose value may have changed, from the first call of [`take`](Self::take) on.
#[derive(Debug, Default)]
pub struct ChangedKeys(RefCell<Option<BTreeSet<Arc<[u8]>>>>);

impl ChangedKeys {
    /// Notes that the pair of a key has changed.
    pub fn note(&self, keyspace: Keyspace, key: &[u8]) {
        if let Some(changed) = self.0.borrow_mut().as_mut()
            && keyspace == Keyspace::Space
        {
            changed.insert(key.into());
        }
    }

    /// Notes that the pairs of a block have been added.
    pub fn note_block(&self, block: &[u8]) {
        let mut changed = self.0.borrow_mut();
        let Some(changed) = changed.as_mut() else { return };
        for record in BlockReader::new(block) {
            if let Ok(BlockRecord::Pair { key, .. }) = record {
                changed.insert(key.into());
            }
        }
    }

    /// Does as [`TrackedKvs::take_changes`] for the space that these keys belong to.
    pub fn take(&self, kvs: &impl Kvs, fences: u32) -> Vec<Arc<[u8]>> {
        let mut changed = self.0.borrow_mut();
        let is_pending = |key: &Arc<[u8]>| {
            let found = kvs.find(Keyspace::Space, key).and_then(|id| kvs.entry(id));
            found.is_some_and(|entry| !entry.visibility.is_visible(None, fences))
        };
        let taken = changed.take().unwrap_or_else(|| all_keys(kvs));
        *changed = Some(taken.iter().filter(|key| is_pending(key)).cloned().collect());
        taken.into_iter().collect()
    }
}

/// The keys of the job's space, with those of other nodes.
fn all_keys(kvs: &impl Kvs) -> BTreeSet<Arc<[u8]>> {
    let mut keys = BTreeSet::new();
    let mut add = |mut next: Option<EntryId>| {
        while let Some(id) = next {
            let entry = kvs.entry(id);
            let entry =
                entry.filter(|entry| matches!(entry.keyspace, Keyspace::Space | Keyspace::Remote));
            keys.extend(entry.map(|entry| Arc::from(entry.key)));
            next = kvs.next(Some(id));
        }
    };
    add(kvs.next(None));
    add(kvs.first_remote());
    keys
}
