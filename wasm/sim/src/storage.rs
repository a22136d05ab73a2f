//! Storage of the server: vectors that grow to a bound and report their size.

use crate::scenario::PMIX;
use pmi_core::error::Full;
use pmi_core::server::pmix;
use pmi_core::server::{Member, Storage};
use pmi_core::storage::{Buffer, Slots};
use pmi_core::store::{Arena, ArenaCell};
use pmi_link::heap::{self, BoundedBuf};
use std::cell::Cell;
use std::rc::Rc;

/// Storage of a simulated server.
#[derive(Debug)]
pub struct Metered;

/// The key-value space of a job: the one the core ships.
pub type Store = Arena<Vec<ArenaCell>, Vec<u8>>;

impl Storage for Metered {
    type Inbox = Bytes;
    type Pending<T: 'static> = MeteredSlab<T>;
    type Sessions<T: 'static> = MeteredSlab<T>;
    type Kvs = Store;
    type Members = Vec<Member>;
    type Jobs<T: 'static> = MeteredSlab<T>;
    type Pmix = MeteredPmix;
}

/// Storage of PMIx sessions of a simulated server.
#[derive(Debug)]
pub struct MeteredPmix;

/// Immutable bytes shared by several responses.
#[derive(Clone, Debug)]
pub struct Shared(Rc<[u8]>);

impl pmix::PmixStorage for MeteredPmix {
    type Bytes = Shared;
    type Inbox = Bytes;
    type Pending<T: 'static> = MeteredSlab<T>;
    type Sessions<T: 'static> = MeteredSlab<T>;
    type Ranks<T: 'static> = Vec<T>;
    type Namespaces<T: 'static> = MeteredSlab<T>;
    type Collectives<T: 'static> = MeteredSlab<T>;
    type Names<T: 'static> = MeteredSlab<T>;
    type Groups<T: 'static> = MeteredSlab<T>;
    type Events<T: 'static> = MeteredSlab<T>;

    const ENABLED: bool = PMIX;
}

impl pmix::SharedBytes for Shared {
    fn make(len: usize, fill: impl FnOnce(&mut [u8])) -> Option<Self> {
        let mut bytes = vec![0; len];
        fill(&mut bytes);
        Some(Self(bytes.into()))
    }
}

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Counts the bytes held by all buffers that share it.
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
    bytes: BoundedBuf,
    meter: Meter,
}

/// Numbered items up to a bound, counted.
#[derive(Debug)]
pub struct MeteredSlab<T> {
    items: heap::Slab<T>,
    meter: Meter,
}

impl Meter {
    /// Maximum number of bytes held at one time.
    pub fn most(&self) -> usize {
        self.0.get().most
    }

    /// Number of bytes held now.
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
        Self { bytes: BoundedBuf::new(max), meter }
    }

    fn counted<R>(&mut self, change: impl FnOnce(&mut BoundedBuf) -> R) -> R {
        let before = self.bytes.memory_bytes();
        let result = change(&mut self.bytes);
        self.meter.change(before, self.bytes.memory_bytes());
        result
    }
}

impl Buffer for Bytes {
    fn as_slice(&self) -> &[u8] {
        self.bytes.as_slice()
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        self.bytes.as_mut_slice()
    }

    fn room(&self) -> usize {
        self.bytes.room()
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), Full> {
        self.counted(|own| own.extend(bytes))
    }

    fn append_with<E>(
        &mut self,
        needed: impl FnOnce() -> usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        self.counted(|own| own.append_with(needed, fill))
    }

    fn drop_front(&mut self, len: usize) {
        self.counted(|own| own.drop_front(len));
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        self.meter.change(self.bytes.memory_bytes(), 0);
    }
}

impl<T> MeteredSlab<T> {
    /// An empty table for up to `max` items.
    pub const fn new(max: usize, meter: Meter) -> Self {
        Self { items: heap::Slab::new(max), meter }
    }
}

impl<T> Drop for MeteredSlab<T> {
    fn drop(&mut self) {
        self.meter.change(self.items.memory_bytes(), 0);
    }
}

impl<T> Slots<T> for MeteredSlab<T> {
    fn end(&self) -> usize {
        self.items.end()
    }

    fn capacity(&self) -> usize {
        self.items.capacity()
    }

    fn get(&self, index: usize) -> Option<&T> {
        self.items.get(index)
    }

    fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.items.get_mut(index)
    }

    fn insert(&mut self, item: T) -> Option<usize> {
        let before = self.items.memory_bytes();
        let placed = self.items.insert(item);
        self.meter.change(before, self.items.memory_bytes());
        placed
    }

    fn remove(&mut self, index: usize) -> Option<T> {
        self.items.remove(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_counts_its_memory_and_returns_it() {
        let meter = Meter::default();
        let mut table = MeteredSlab::new(3, meter.clone());
        assert_eq!([5u64, 6, 7].map(|n| table.insert(n).unwrap()), [0, 1, 2]);
        assert_eq!((table.remove(2), table.end()), (Some(7), 2));
        assert!(meter.now() >= 3 * size_of::<Option<u64>>());
        drop(table);
        assert_eq!(meter.now(), 0);
        assert!(meter.most() > 0);
    }

    #[test]
    fn bytes_are_counted_while_they_are_held() {
        let meter = Meter::default();
        let mut bytes = Bytes::new(4096, meter.clone());
        bytes.extend(&[0; 4096]).unwrap();
        assert!(meter.now() >= 4096);
        bytes.drop_front(4096);
        assert_eq!((bytes.room(), meter.now()), (4096, 0));
    }
}
