//! What the server is made of here: vectors that grow to a bound and say how much they hold.

use pmi_core::error::Full;
use pmi_core::server::{Exchange, Job, Member, Session, Storage};
use pmi_core::storage::{Buffer, Slots};
use pmi_core::store::{Arena, Place};
use std::cell::Cell;
use std::rc::Rc;

/// The memory of a simulated server.
#[derive(Debug)]
pub struct Metered;

/// The key-value space of a job: the one the core ships.
pub type Store = Arena<Vec<Place>, Vec<u8>>;

impl Storage for Metered {
    type Inbox = Bytes;
    type Exchanges = Table<Exchange>;
    type Sessions = Table<Session<Bytes, Table<Exchange>>>;
    type Kvs = Store;
    type Members = Vec<Member>;
    type Jobs = Table<Job<Store, Vec<Member>>>;
}

/// Counts the bytes that all who share it hold.
#[derive(Clone, Debug, Default)]
pub struct Meter(Rc<Cell<Held>>);

#[derive(Clone, Copy, Debug, Default)]
struct Held {
    now: usize,
    most: usize,
}

/// Bytes up to a bound, counted.
#[derive(Debug)]
pub struct Bytes {
    bytes: Vec<u8>,
    max: usize,
    meter: Meter,
}

/// Numbered things up to a bound, counted.
#[derive(Debug)]
pub struct Table<T> {
    things: Vec<Option<T>>,
    /// Places below this one are in use.
    first_free: usize,
    max: usize,
    meter: Meter,
}

impl Meter {
    /// The most bytes that were held at one time.
    pub fn most(&self) -> usize {
        self.0.get().most
    }

    /// The bytes that are held now.
    pub fn now(&self) -> usize {
        self.0.get().now
    }

    fn change(&self, from: usize, to: usize) {
        let Held { now, most } = self.0.get();
        let now = now.saturating_sub(from) + to;
        self.0.set(Held { now, most: most.max(now) });
    }
}

impl Bytes {
    /// No bytes, and room for `max`.
    pub const fn new(max: usize, meter: Meter) -> Self {
        Self { bytes: Vec::new(), max, meter }
    }
}

impl Buffer for Bytes {
    fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    fn room(&self) -> usize {
        self.max - self.bytes.len()
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), Full> {
        if bytes.len() > self.room() {
            return Err(Full { needed: self.bytes.len() + bytes.len() });
        }
        let before = self.bytes.capacity();
        self.bytes.extend_from_slice(bytes);
        self.meter.change(before, self.bytes.capacity());
        Ok(())
    }

    fn drop_front(&mut self, len: usize) {
        self.bytes.drain(..len.min(self.bytes.len()));
        if self.bytes.is_empty() {
            self.meter.change(self.bytes.capacity(), 0);
            self.bytes = Vec::new();
        }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        self.meter.change(self.bytes.capacity(), 0);
    }
}

impl<T> Table<T> {
    /// An empty table for up to `max` things.
    pub const fn new(max: usize, meter: Meter) -> Self {
        Self { things: Vec::new(), first_free: 0, max, meter }
    }

    fn bytes(&self) -> usize {
        self.things.capacity() * size_of::<Option<T>>()
    }
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        self.meter.change(self.bytes(), 0);
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

    fn insert(&mut self, item: T) -> Result<usize, T> {
        let above = self.things.get(self.first_free..).unwrap_or_default();
        let index = self.first_free + above.iter().take_while(|thing| thing.is_some()).count();
        if index >= self.max {
            return Err(item);
        }
        let before = self.bytes();
        match self.things.get_mut(index) {
            Some(free) => *free = Some(item),
            None => {
                // One at first: most tables never hold a second thing.
                self.things.reserve_exact(if index == 0 { 1 } else { index });
                self.things.push(Some(item));
            }
        }
        self.meter.change(before, self.bytes());
        self.first_free = index + 1;
        Ok(index)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_gives_the_lowest_free_number_and_counts_what_it_holds() {
        let meter = Meter::default();
        let mut table = Table::new(3, meter.clone());
        assert_eq!([5u64, 6, 7].map(|n| table.insert(n).unwrap()), [0, 1, 2]);
        assert_eq!(table.insert(8), Err(8));
        assert_eq!((table.remove(0), table.remove(1)), (Some(5), Some(6)));
        assert_eq!((table.insert(9), table.insert(10)), (Ok(0), Ok(1)));
        assert_eq!((table.remove(2), table.end()), (Some(7), 2));
        assert!(meter.now() >= 3 * size_of::<Option<u64>>());
        drop(table);
        assert_eq!(meter.now(), 0);
        assert!(meter.most() > 0);
    }

    #[test]
    fn bytes_are_taken_whole_or_not_at_all_and_counted() {
        let meter = Meter::default();
        let mut bytes = Bytes::new(4, meter.clone());
        bytes.extend(b"abc").unwrap();
        assert_eq!(bytes.extend(b"de"), Err(Full { needed: 5 }));
        assert!(meter.now() >= 3);
        bytes.drop_front(9);
        assert_eq!((bytes.room(), meter.now()), (4, 0));
    }
}
