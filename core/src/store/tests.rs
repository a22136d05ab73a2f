use super::*;
use crate::ids::Rank;
use std::collections::BTreeMap;
use std::format;
use std::string::String;
use std::vec::Vec;

type Small = Arena<[ArenaCell; 8], [u8; 200]>;

const BY: Visibility = Visibility::Put { writer: Rank(3), fence: 1 };

fn small() -> Small {
    Arena::new([ArenaCell::FREE; 8], [0; 200])
}

fn value<K: Kvs>(kvs: &K, keyspace: Keyspace, key: &str) -> Option<Vec<u8>> {
    Some(kvs.entry(kvs.find(keyspace, key.as_bytes())?)?.value.to_vec())
}

#[test]
fn key_is_found_in_its_own_keyspace_only() {
    let mut kvs = small();
    kvs.put(Keyspace::Space, b"k", b"1", BY).unwrap();
    kvs.put(Keyspace::Node(0), b"k", b"2", BY).unwrap();
    kvs.put(Keyspace::Node(1), b"k", b"3", BY).unwrap();
    assert_eq!(value(&kvs, Keyspace::Space, "k").unwrap(), b"1");
    assert_eq!(value(&kvs, Keyspace::Node(1), "k").unwrap(), b"3");
    assert_eq!(kvs.find(Keyspace::Names, b"k"), None);
}

#[test]
fn second_put_replaces_and_tells_of_the_first() {
    let mut kvs = small();
    let (id, old) = kvs.put(Keyspace::Space, b"k", b"long value", BY).unwrap();
    assert_eq!((kvs.find(Keyspace::Space, b"k"), old), (Some(id), None));
    let other = Visibility::Put { writer: Rank(4), fence: 1 };
    assert_eq!(kvs.put(Keyspace::Space, b"k", b"", other), Ok((id, Some(BY))));
    assert_eq!(
        kvs.put(Keyspace::Space, b"k", b"a value that is much longer", BY),
        Ok((id, Some(other)))
    );
    assert_eq!(kvs.find(Keyspace::Space, b"k"), Some(id));
    assert_eq!(kvs.entry(id).unwrap().value, b"a value that is much longer");
}

#[test]
fn pairs_that_do_not_fit_change_nothing() {
    let mut kvs = small();
    kvs.put(Keyspace::Space, b"k", b"old", BY).unwrap();
    assert_eq!(kvs.put(Keyspace::Space, b"k", &[0; 200], BY), Err(NoRoom));
    assert_eq!(value(&kvs, Keyspace::Space, "k").unwrap(), b"old");
    for n in 0..7 {
        kvs.put(Keyspace::Space, format!("n{n}").as_bytes(), b"", BY).unwrap();
    }
    assert_eq!(kvs.put(Keyspace::Space, b"ninth", b"", BY), Err(NoRoom));
}

#[test]
fn last_byte_can_be_used_and_room_comes_back() {
    let mut kvs = small();
    let most = 200 - Small::record_bytes(1, 0);
    for round in 0..5u8 {
        kvs.put(Keyspace::Space, b"k", &[round; 200][..most], BY).unwrap();
        assert_eq!(kvs.used_bytes(), 200);
        kvs.remove(kvs.find(Keyspace::Space, b"k").unwrap());
        assert_eq!((kvs.used_bytes(), kvs.find(Keyspace::Space, b"k")), (0, None));
    }
}

#[test]
fn no_memory_at_all_is_no_room() {
    let mut kvs = Arena::new([], []);
    assert_eq!(kvs.put(Keyspace::Space, b"k", b"", BY), Err(NoRoom));
    assert_eq!(kvs.find(Keyspace::Space, b"k"), None);
    assert_eq!(kvs.next(None), None);
}

#[test]
fn pairs_of_other_nodes_are_found_beside_own_ones() {
    let space = Arena::new([ArenaCell::FREE; 16], [0; 600]);
    crate::testkit::kvs::check_blocks(space, |space, block| space.add_block(block));
}

#[test]
fn pairs_of_other_nodes_without_room_change_nothing() {
    let space = Arena::new([ArenaCell::FREE; 2], [0; 64]);
    crate::testkit::kvs::check_full(space, |space, block| space.add_block(block));
}

proptest::proptest! {
    /// Any order of operations gives what a plain map gives, as long as there is room.
    #[test]
    fn arena_behaves_as_a_map(steps in proptest::collection::vec((0u8..3, 0u8..12, 0usize..40), 0..200)) {
        let mut kvs = small();
        let mut model: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for (n, (what, key, len)) in steps.into_iter().enumerate() {
            let name = format!("key{key}");
            match what {
                0 | 1 => {
                    let new = std::vec![u8::try_from(n % 251).unwrap(); len];
                    if kvs.put(Keyspace::Space, name.as_bytes(), &new, BY).is_ok() {
                        model.insert(name, new);
                    }
                }
                _ => {
                    let found = kvs.find(Keyspace::Space, name.as_bytes());
                    assert_eq!(found.is_some(), model.remove(&name).is_some());
                    found.into_iter().for_each(|id| kvs.remove(id));
                }
            }
            let mut listed = BTreeMap::new();
            let mut last = kvs.next(None);
            while let Some(id) = last {
                let entry = kvs.entry(id).unwrap();
                listed.insert(String::from_utf8(entry.key.to_vec()).unwrap(), entry.value.to_vec());
                last = kvs.next(last);
            }
            assert_eq!(listed, model);
        }
    }
}
