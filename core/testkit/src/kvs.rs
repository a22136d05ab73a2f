//! Tests that every key-value space passes.

use std::vec;
use std::vec::Vec;

use pmi_core::ids::Rank;
use pmi_core::store::{BlockError, BlockRecord, Keyspace, Kvs, Visibility};

/// Adds a block, given as bytes, to a space.
pub type AddBlock<K> = fn(&mut K, &[u8]) -> Result<(), BlockError>;

/// Writes the pairs of a block.
pub fn block(pairs: &[(u32, &str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (writer, key, value) in pairs {
        let (writer, key, value) = (Rank(*writer), key.as_bytes(), value.as_bytes());
        append(&mut block, &BlockRecord::Pair { writer, key, value });
    }
    block
}

/// Appends a record to a block.
pub fn append(block: &mut Vec<u8>, record: &BlockRecord<'_>) {
    let at = block.len();
    block.extend(vec![0; record.len_bytes()]);
    record.write(&mut block[at..]).expect("room for a record");
}

/// Checks what a space does with pairs of other nodes. `space` is empty, and has room for 16 pairs and 600
/// bytes.
pub fn check_blocks<K: Kvs>(mut space: K, add: AddBlock<K>) {
    let own = Visibility::Put { writer: Rank(0), fence: 1 };
    let (own_id, _) = space.put(Keyspace::Space, b"k", b"own", own).expect("room");
    add(&mut space, &block(&[(1, "k", "1"), (2, "l", "2"), (3, "l", "3")])).expect("a block");
    // Of two pairs in one block the later one holds, and neither touches those put here.
    assert_eq!(remote(&space, "k"), Some((1, b"1".to_vec())));
    assert_eq!(remote(&space, "l"), Some((3, b"3".to_vec())));
    assert_eq!(space.find(Keyspace::Space, b"l"), None);
    assert_eq!(space.entry(own_id).map(|entry| entry.value), Some(&b"own"[..]));
    let kept = space.find(Keyspace::Remote, b"k").expect("a pair");
    // A later block replaces, and a record that is no pair is skipped.
    let mut later = block(&[(4, "l", "a longer value"), (4, "m", "")]);
    append(
        &mut later,
        &BlockRecord::Modex { writer: Rank(4), version: 1, format: 0, data: b"not a pair" },
    );
    add(&mut space, &later).expect("a block");
    assert_eq!(remote(&space, "l"), Some((4, b"a longer value".to_vec())));
    assert_eq!(remote(&space, "m"), Some((4, Vec::new())));
    assert_eq!(space.entry(kept).map(|entry| entry.value), Some(&b"1"[..]));
    // Bytes that are no block change nothing.
    let cut = block(&[(5, "n", "5"), (5, "o", "5")]);
    let refused = add(&mut space, &cut[..cut.len() - 1]);
    assert!(matches!(refused, Err(BlockError::Malformed(_))), "{refused:?}");
    assert_eq!((remote(&space, "n"), remote(&space, "k")), (None, Some((1, b"1".to_vec()))));
    add(&mut space, b"").expect("an empty block");
    assert_eq!(latest(&space), ["k", "l", "m"]);
    assert_eq!(space.find(Keyspace::Space, b"k"), Some(own_id));
}

/// Checks that a space without room for a block keeps what it has. `space` has room for one pair and 64
/// bytes.
pub fn check_full<K: Kvs>(mut space: K, add: AddBlock<K>) {
    add(&mut space, &block(&[(1, "k", "1")])).expect("a block");
    let refused = add(&mut space, &block(&[(1, "l", "1"), (1, "m", "1")]));
    assert_eq!(refused, Err(BlockError::NoRoom));
    assert_eq!(latest(&space), ["k"]);
}

fn remote<K: Kvs>(space: &K, key: &str) -> Option<(u32, Vec<u8>)> {
    let entry = space.entry(space.find(Keyspace::Remote, key.as_bytes())?)?;
    assert_eq!(entry.keyspace, Keyspace::Remote);
    let writer = entry.visibility.writer().expect("a rank");
    assert_eq!(entry.visibility, Visibility::at_once(writer));
    Some((writer.0, entry.value.to_vec()))
}

/// The listed keys of the pairs that a lookup finds, sorted.
fn latest<K: Kvs>(space: &K) -> Vec<std::string::String> {
    let mut keys = Vec::new();
    for first in [space.next(None), space.first_remote()] {
        let mut at = first;
        while let Some(id) = at {
            let entry = space.entry(id).expect("a listed entry");
            if entry.keyspace == Keyspace::Remote
                && space.find(entry.keyspace, entry.key) == Some(id)
            {
                keys.push(std::string::String::from_utf8_lossy(entry.key).into_owned());
            }
            at = space.next(at);
        }
    }
    keys.sort();
    keys
}
