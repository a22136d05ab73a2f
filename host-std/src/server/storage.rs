//! The memory of the server on a host: vectors that grow with the job and are bounded only against
//! peers that misbehave.

use super::map_kvs::MapKvs;
use pmi_core::server::{Exchange, Job, Member, Session, Storage};
use pmi_core::storage::Slots;
use pmi_std::Bounded;

/// What a host's [`Server`](pmi_core::server::Server) is made of.
#[derive(Debug)]
pub struct Heap;

impl Storage for Heap {
    type Inbox = Bounded;
    type Exchanges = Table<Exchange>;
    type Sessions = Table<Session<Bounded, Table<Exchange>>>;
    type Kvs = MapKvs;
    type Members = Vec<Member>;
    type Jobs = Table<Job<MapKvs, Vec<Member>>>;
}

/// Numbered things in a vector that grows up to a bound.
#[derive(Debug)]
pub struct Table<T> {
    /// The last one is in use.
    things: Vec<Option<T>>,
    /// Places below this one are in use.
    first_free: usize,
    max: usize,
}

impl<T> Table<T> {
    /// An empty table for up to `max` things.
    pub const fn new(max: usize) -> Self {
        Self { things: Vec::new(), first_free: 0, max }
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
        match self.things.get_mut(index) {
            Some(free) => *free = Some(item),
            None => self.things.push(Some(item)),
        }
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
    fn a_table_gives_the_lowest_free_number() {
        let mut table = Table::new(3);
        assert_eq!(
            (table.insert('a'), table.insert('b'), table.insert('c')),
            (Ok(0), Ok(1), Ok(2))
        );
        assert_eq!(table.insert('d'), Err('d'));
        assert_eq!((table.remove(1), table.remove(1)), (Some('b'), None));
        assert_eq!((table.remove(0), table.end()), (Some('a'), 3));
        assert_eq!(
            (table.insert('e'), table.insert('f'), table.insert('g')),
            (Ok(0), Ok(1), Err('g'))
        );
        assert_eq!((table.remove(2), table.remove(1), table.end()), (Some('c'), Some('f'), 1));
        assert_eq!((table.get(0), table.get(7)), (Some(&'e'), None));
        assert_eq!(table.insert('h'), Ok(1));
    }
}
