//! Memory for machines on systems with a heap: grows with its contents, up to a bound.
//!
//! The bound protects against peers that misbehave; others stay far below it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use pmi_core::error::Full;
use pmi_core::storage::{Buffer, Slots};

/// A [`Buffer`] that takes no memory while it is empty.
///
/// Thousands of sessions each hold half a message now and then, and nothing nearly always.
#[derive(Clone, Debug, Default)]
pub struct BoundedBuf {
    bytes: Vec<u8>,
    limit_bytes: usize,
}

/// Numbered items in a vector that grows up to a bound.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    /// The last one is in use.
    items: Vec<Option<T>>,
    /// Places below this one are in use.
    first_free: usize,
    max: usize,
}

impl BoundedBuf {
    /// Makes an empty buffer that never holds more than `limit_bytes`.
    pub const fn new(limit_bytes: usize) -> Self {
        Self { bytes: Vec::new(), limit_bytes }
    }

    /// Number of bytes of memory in use.
    pub const fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

impl Buffer for BoundedBuf {
    fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes
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

    fn append_with<E>(
        &mut self,
        needed: impl FnOnce() -> usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let held = self.bytes.len();
        self.bytes.resize(held + needed().min(self.room()), 0);
        let written = fill(self.bytes.get_mut(held..).unwrap_or(&mut []));
        self.bytes.truncate(written.as_ref().map_or(held, |len| held.saturating_add(*len)));
        written
    }

    fn drop_front(&mut self, len: usize) {
        self.bytes.drain(..len.min(self.bytes.len()));
        if self.bytes.is_empty() && self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
    }
}

impl<T> Slab<T> {
    /// An empty slab for up to `max` items.
    pub const fn new(max: usize) -> Self {
        Self { items: Vec::new(), first_free: 0, max }
    }

    /// Number of bytes of memory in use, without heap memory that the items own.
    pub const fn memory_bytes(&self) -> usize {
        self.items.capacity() * size_of::<Option<T>>()
    }
}

impl<T> Slots<T> for Slab<T> {
    fn end(&self) -> usize {
        self.items.len()
    }

    fn capacity(&self) -> usize {
        self.max
    }

    fn get(&self, index: usize) -> Option<&T> {
        self.items.get(index)?.as_ref()
    }

    fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.items.get_mut(index)?.as_mut()
    }

    fn insert(&mut self, item: T) -> Option<usize> {
        let above = self.items.get(self.first_free..).unwrap_or_default();
        let index = self.first_free + above.iter().take_while(|item| item.is_some()).count();
        if index >= self.max {
            return None;
        }
        match self.items.get_mut(index) {
            Some(free) => *free = Some(item),
            None => {
                // One at first: most tables never hold a second item.
                if self.items.capacity() == index {
                    self.items.reserve_exact(index.max(1));
                }
                self.items.push(Some(item));
            }
        }
        self.first_free = index + 1;
        Some(index)
    }

    fn remove(&mut self, index: usize) -> Option<T> {
        let item = self.items.get_mut(index)?.take();
        self.first_free = self.first_free.min(index);
        while let Some(None) = self.items.last() {
            self.items.pop();
        }
        item
    }
}

/// Numbered items whose numbers are never used again.
///
/// An item that is removed leaves the size of a pointer behind.
#[derive(Clone, Debug)]
pub struct UniqueSlots<T> {
    items: Vec<Option<Box<T>>>,
    max: usize,
}

impl<T> UniqueSlots<T> {
    /// No items, of up to `max` ever.
    pub const fn new(max: usize) -> Self {
        Self { items: Vec::new(), max }
    }
}

impl<T> Slots<T> for UniqueSlots<T> {
    fn end(&self) -> usize {
        self.items.len()
    }

    fn capacity(&self) -> usize {
        self.max
    }

    fn get(&self, index: usize) -> Option<&T> {
        self.items.get(index)?.as_deref()
    }

    fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.items.get_mut(index)?.as_deref_mut()
    }

    fn insert(&mut self, item: T) -> Option<usize> {
        let index = self.items.len();
        if index >= self.max {
            return None;
        }
        // One at first: most servers never have a second job.
        if self.items.capacity() == index {
            self.items.reserve_exact(index.max(1));
        }
        self.items.push(Some(Box::new(item)));
        Some(index)
    }

    fn remove(&mut self, index: usize) -> Option<T> {
        self.items.get_mut(index)?.take().map(|item| *item)
    }
}

/// Small pieces come often and are not worth asking for memory again.
const KEPT_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_whole_or_not_at_all_up_to_the_bound() {
        let mut bytes = BoundedBuf::new(4);
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
    fn buffer_grows_by_what_is_needed_up_to_the_bound() {
        let mut bytes = BoundedBuf::new(8);
        bytes.extend(b"ab").unwrap();
        let appended = bytes.append_with(
            || 3,
            |room| {
                assert_eq!(room.len(), 3);
                room[..2].copy_from_slice(b"cd");
                Ok::<_, Full>(2)
            },
        );
        assert_eq!((appended, bytes.as_slice()), (Ok(2), &b"abcd"[..]));
        assert_eq!(bytes.append_with(|| 5, |room| Err::<usize, _>(room.len())), Err(4));
        assert_eq!((bytes.as_slice(), bytes.room()), (&b"abcd"[..], 4));
        let mut large = BoundedBuf::new(1 << 16);
        large.append_with(|| 40, |_| Ok::<_, Full>(40)).unwrap();
        assert!(large.memory_bytes() < 1 << 10, "{}", large.memory_bytes());
    }

    #[test]
    fn buffer_gives_its_memory_back_when_it_is_empty() {
        let mut bytes = BoundedBuf::new(1 << 20);
        assert_eq!(bytes.memory_bytes(), 0);
        bytes.extend(&[0; 4096]).unwrap();
        assert!(bytes.memory_bytes() >= 4096);
        bytes.drop_front(4096);
        assert_eq!(bytes.memory_bytes(), 0);
    }

    #[test]
    fn number_of_an_item_that_is_removed_is_not_given_again() {
        let mut slots = UniqueSlots::new(3);
        assert_eq!((slots.insert('a'), slots.insert('b')), (Some(0), Some(1)));
        assert_eq!((slots.remove(1), slots.remove(1), slots.get(1)), (Some('b'), None, None));
        assert_eq!((slots.insert('c'), slots.insert('d')), (Some(2), None));
        assert_eq!((slots.get(0), slots.get(2), slots.end()), (Some(&'a'), Some(&'c'), 3));
        assert_eq!(slots.get_mut(2), Some(&mut 'c'));
    }

    #[test]
    fn table_gives_the_lowest_free_number() {
        let mut slab = Slab::new(3);
        assert_eq!(
            (slab.insert('a'), slab.insert('b'), slab.insert('c')),
            (Some(0), Some(1), Some(2))
        );
        assert_eq!(slab.insert('d'), None);
        assert_eq!((slab.remove(1), slab.remove(1)), (Some('b'), None));
        assert_eq!((slab.remove(0), slab.end()), (Some('a'), 3));
        assert_eq!(
            (slab.insert('e'), slab.insert('f'), slab.insert('g')),
            (Some(0), Some(1), None)
        );
        assert_eq!((slab.remove(2), slab.remove(1), slab.end()), (Some('c'), Some('f'), 1));
        assert_eq!((slab.get(0), slab.get(7)), (Some(&'e'), None));
        assert_eq!(slab.insert('h'), Some(1));
    }

    #[test]
    fn table_of_one_thing_has_room_for_one() {
        let mut slab = Slab::new(usize::MAX);
        assert_eq!(slab.memory_bytes(), 0);
        slab.insert(7u64).unwrap();
        assert_eq!(slab.memory_bytes(), size_of::<Option<u64>>());
    }
}
