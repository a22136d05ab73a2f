//! Unauthenticated connections: few at once, and none keeps another one out.

use std::collections::VecDeque;
use std::net::IpAddr;

/// Accepted connections that are not authenticated, oldest first.
///
/// If there are too many, the source with the most of them loses one, so that a flood from one address
/// keeps out nothing that comes from another.
#[derive(Debug)]
pub(crate) struct Pending<K, V = ()> {
    entries: VecDeque<PendingPeer<K, V>>,
}

#[derive(Debug)]
struct PendingPeer<K, V> {
    key: K,
    source: IpAddr,
    value: V,
    /// True if it has input that is not processed yet.
    is_held: bool,
}

impl<K: Copy + PartialEq, V> Pending<K, V> {
    /// Adds a connection from `source`.
    pub(crate) fn insert(&mut self, key: K, source: IpAddr, value: V) {
        self.entries.push_back(PendingPeer { key, source, value, is_held: false });
    }

    /// Removes a connection; false if it is not there.
    pub(crate) fn remove(&mut self, key: K) -> bool {
        let at = self.entries.iter().position(|entry| entry.key == key);
        at.is_some_and(|at| self.entries.remove(at).is_some())
    }

    /// Marks a connection as waiting until [`next_held`](Self::next_held) returns it.
    pub(crate) fn hold(&mut self, key: K) {
        let entry = self.entries.iter_mut().find(|entry| entry.key == key);
        entry.into_iter().for_each(|entry| entry.is_held = true);
    }

    /// The next held connection: the oldest one of the source with the fewest connections.
    pub(crate) fn next_held(&mut self) -> Option<K> {
        let held = (0..self.entries.len()).filter(|at| self.entries[*at].is_held);
        let at = { held }.min_by_key(|at| self.of_source(self.entries[*at].source))?;
        let entry = self.entries.get_mut(at)?;
        entry.is_held = false;
        Some(entry.key)
    }

    /// True if any connection is held.
    pub(crate) fn has_held(&self) -> bool {
        self.entries.iter().any(|entry| entry.is_held)
    }

    /// The connection to close before another one fits, if there are `most` already: the oldest one of
    /// the source with the most connections, and one that has sent nothing before one that is held.
    pub(crate) fn surplus(&self, most: usize) -> Option<K> {
        if self.entries.len() < most {
            return None;
        }
        // Among equals the last one is the maximum, but the first one is wanted.
        let rank = |entry: &&PendingPeer<K, V>| (self.of_source(entry.source), !entry.is_held);
        self.entries.iter().rev().max_by_key(rank).map(|entry| entry.key)
    }

    /// Value of a connection.
    pub(crate) fn get(&self, key: K) -> Option<&V> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// True if there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn of_source(&self, source: IpAddr) -> usize {
        self.entries.iter().filter(|entry| entry.source == source).count()
    }
}

impl<K, V> Default for Pending<K, V> {
    fn default() -> Self {
        Self { entries: VecDeque::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(last: u8) -> IpAddr {
        IpAddr::from([127, 0, 0, last])
    }

    fn pending(sources: &[u8]) -> Pending<usize> {
        let mut pending = Pending::default();
        for (key, last) in sources.iter().enumerate() {
            pending.insert(key, source(*last), ());
        }
        pending
    }

    #[test]
    fn oldest_of_the_most_numerous_source_makes_room() {
        let mut pending = pending(&[2, 1, 1, 1, 3]);
        assert_eq!((pending.surplus(6), pending.surplus(5)), (None, Some(1)));
        pending.hold(1);
        assert_eq!(pending.surplus(5), Some(2));
        assert!(pending.remove(2) && !pending.remove(2));
        pending.hold(3);
        assert_eq!(pending.surplus(4), Some(1));
        assert_eq!((pending.get(4), pending.get(2)), (Some(&()), None));
    }

    #[test]
    fn source_with_few_connections_waits_for_none_with_many() {
        let mut pending = pending(&[1, 1, 1, 2, 3]);
        assert!(!pending.has_held());
        [0, 2, 3].into_iter().for_each(|key| pending.hold(key));
        let order = std::iter::from_fn(|| pending.next_held());
        assert_eq!(Vec::from_iter(order), [3, 0, 2]);
        assert!(!pending.has_held() && !pending.is_empty());
    }
}
