//! Memory for machines where there is a heap: it grows with what is kept, up to a bound.
//!
//! The bound is against peers that misbehave; whoever behaves stays far below it.

use alloc::vec::Vec;

use pmi_core::error::Full;
use pmi_core::storage::{Buffer, Slots};

/// A [`Buffer`] that takes no memory while it is empty.
///
/// Thousands of sessions each hold half a message now and then, and nothing nearly always.
#[derive(Clone, Debug, Default)]
pub struct Bounded {
    bytes: Vec<u8>,
    limit_bytes: usize,
}

/// Numbered things in a vector that grows up to a bound.
#[derive(Clone, Debug)]
pub struct Table<T> {
    /// The last one is in use.
    things: Vec<Option<T>>,
    /// Places below this one are in use.
    first_free: usize,
    max: usize,
}

impl Bounded {
    /// Makes an empty buffer that never holds more than `limit_bytes`.
    pub const fn new(limit_bytes: usize) -> Self {
        Self { bytes: Vec::new(), limit_bytes }
    }

    /// How many bytes of memory it takes.
    pub const fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

impl Buffer for Bounded {
    fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    fn room(&self) -> usize {
        self.limit_bytes - self.bytes.len()
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), Full> {
        if bytes.len() > self.room() {
            return Err(Full { needed: self.bytes.len().saturating_add(bytes.len()) });
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn drop_front(&mut self, len: usize) {
        self.bytes.drain(..len.min(self.bytes.len()));
        if self.bytes.is_empty() && self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
    }
}

impl<T> Table<T> {
    /// An empty table for up to `max` things.
    pub const fn new(max: usize) -> Self {
        Self { things: Vec::new(), first_free: 0, max }
    }

    /// How many bytes of memory it takes, without what the things in it have elsewhere.
    pub const fn memory_bytes(&self) -> usize {
        self.things.capacity() * size_of::<Option<T>>()
    }
}

impl<T> Slots<T> for Table<T> {
    fn end(&self) -> usize {
        self.things.len()
    }

    fn capacity(&self) -> usize {
        self.max
    }

    fn get(&self, index: usize) -> Option<&T> {
        self.things.get(index)?.as_ref()
    }

    fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.things.get_mut(index)?.as_mut()
    }

    fn insert(&mut self, item: T) -> Option<usize> {
        let above = self.things.get(self.first_free..).unwrap_or_default();
        let index = self.first_free + above.iter().take_while(|thing| thing.is_some()).count();
        if index >= self.max {
            return None;
        }
        match self.things.get_mut(index) {
            Some(free) => *free = Some(item),
            None => {
                // One at first: most tables never hold a second thing.
                if self.things.capacity() == index {
                    self.things.reserve_exact(index.max(1));
                }
                self.things.push(Some(item));
            }
        }
        self.first_free = index + 1;
        Some(index)
    }

    fn remove(&mut self, index: usize) -> Option<T> {
        let thing = self.things.get_mut(index)?.take();
        self.first_free = self.first_free.min(index);
        while let Some(None) = self.things.last() {
            self.things.pop();
        }
        thing
    }
}

/// Small pieces come often and are not worth asking for memory again.
const KEPT_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_whole_or_not_at_all_up_to_the_bound() {
        let mut bytes = Bounded::new(4);
        bytes.extend(b"abc").unwrap();
        assert_eq!(bytes.extend(b"de"), Err(Full { needed: 5 }));
        assert_eq!((bytes.as_slice(), bytes.room()), (&b"abc"[..], 1));
        bytes.extend(b"d").unwrap();
        bytes.drop_front(3);
        assert_eq!((bytes.as_slice(), bytes.room()), (&b"d"[..], 3));
        bytes.drop_front(usize::MAX);
        assert_eq!((bytes.as_slice(), bytes.room()), (&b""[..], 4));
    }

    #[test]
    fn a_buffer_gives_its_memory_back_when_it_is_empty() {
        let mut bytes = Bounded::new(1 << 20);
        assert_eq!(bytes.memory_bytes(), 0);
        bytes.extend(&[0; 4096]).unwrap();
        assert!(bytes.memory_bytes() >= 4096);
        bytes.drop_front(4096);
        assert_eq!(bytes.memory_bytes(), 0);
    }

    #[test]
    fn a_table_gives_the_lowest_free_number() {
        let mut table = Table::new(3);
        assert_eq!(
            (table.insert('a'), table.insert('b'), table.insert('c')),
            (Some(0), Some(1), Some(2))
        );
        assert_eq!(table.insert('d'), None);
        assert_eq!((table.remove(1), table.remove(1)), (Some('b'), None));
        assert_eq!((table.remove(0), table.end()), (Some('a'), 3));
        assert_eq!(
            (table.insert('e'), table.insert('f'), table.insert('g')),
            (Some(0), Some(1), None)
        );
        assert_eq!((table.remove(2), table.remove(1), table.end()), (Some('c'), Some('f'), 1));
        assert_eq!((table.get(0), table.get(7)), (Some(&'e'), None));
        assert_eq!(table.insert('h'), Some(1));
    }

    #[test]
    fn a_table_of_one_thing_has_room_for_one() {
        let mut table = Table::new(usize::MAX);
        assert_eq!(table.memory_bytes(), 0);
        table.insert(7u64).unwrap();
        assert_eq!(table.memory_bytes(), size_of::<Option<u64>>());
    }
}
