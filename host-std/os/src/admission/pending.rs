//! Unauthenticated connections: few at once, and none keeps another one out.

use super::Socket;
use super::holders::{Holder, holders};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

/// Accepted connections that are not authenticated, oldest first.
///
/// If there are too many, the source with the most of them loses some, so that a flood from one source
/// keeps out nothing that comes from another. Over a local connection whose socket is known, a source is a
/// rank with its descendants, or all processes that are no rank; else it is the address.
#[derive(Debug)]
pub struct Pending<K> {
    entries: VecDeque<PendingPeer<K>>,
}

#[derive(Debug)]
struct PendingPeer<K> {
    key: K,
    address: IpAddr,
    /// Socket at the other end, if the kernel was asked for it.
    socket: Option<Socket>,
    /// Process at the other end. It is searched for when there are too many connections, and once only.
    holder: HolderSearch,
    /// True if it has input that is not processed yet.
    is_held: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HolderSearch {
    Due,
    Done(Option<Holder>),
}

/// Source of connections. The order decides between sources with equal numbers of connections: the
/// greatest one loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    /// A process that this launcher has started, and its descendants.
    Rank(i32),
    /// An address, where the process is unknown.
    Address(IpAddr),
    /// All processes that this launcher has not started.
    Strangers,
}

impl<K: Copy + PartialEq> Pending<K> {
    /// Adds a connection from `address`, with the socket at its other end if that is known.
    pub fn insert(&mut self, key: K, address: IpAddr, socket: Option<Socket>) {
        let holder = if socket.is_some() { HolderSearch::Due } else { HolderSearch::Done(None) };
        self.entries.push_back(PendingPeer { key, address, socket, holder, is_held: false });
    }

    /// Removes a connection; false if it is not there.
    pub fn remove(&mut self, key: K) -> bool {
        let at = self.entries.iter().position(|entry| entry.key == key);
        at.is_some_and(|at| self.entries.remove(at).is_some())
    }

    /// Marks a connection as waiting until [`next_held`](Self::next_held) returns it.
    pub fn hold(&mut self, key: K) {
        let entry = self.entries.iter_mut().find(|entry| entry.key == key);
        entry.into_iter().for_each(|entry| entry.is_held = true);
    }

    /// The next held connection: the oldest one of the source with the fewest connections, and of its
    /// process with the fewest.
    pub fn next_held(&mut self) -> Option<K> {
        let held = (0..self.entries.len()).filter(|at| self.entries[*at].is_held);
        let count = |at: &usize| {
            let entry = &self.entries[*at];
            (
                self.count(|one| one.source() == entry.source()),
                self.count(|one| one.process() == entry.process()),
            )
        };
        let at = { held }.min_by_key(count)?;
        let entry = self.entries.get_mut(at)?;
        entry.is_held = false;
        Some(entry.key)
    }

    /// True if any connection is held.
    pub fn has_held(&self) -> bool {
        self.entries.iter().any(|entry| entry.is_held)
    }

    /// The connections to close before another one fits, if there are `most` already: those of the source
    /// with the most connections, of its process with the most, the oldest first, and one that has sent
    /// nothing before one that is held.
    ///
    /// It is one connection, unless a single process has more than 16: of that a quarter of
    /// all goes at once, since a search for processes follows each time.
    pub fn surplus(&mut self, most: usize) -> Vec<K> {
        let mut surplus = Vec::new();
        if self.entries.len() < most {
            return surplus;
        }
        self.find_holders();
        let mut left = Vec::from_iter(&self.entries);
        loop {
            let (mut of_source, mut of_process) = (BTreeMap::new(), BTreeMap::new());
            for entry in &left {
                *of_source.entry(entry.source()).or_insert(0) += 1;
                *of_process.entry(entry.process()).or_insert(0) += 1;
            }
            let rank = |at: &usize| {
                let entry = left[*at];
                let source = entry.source();
                (of_source[&source], source, of_process[&entry.process()], !entry.is_held)
            };
            // Among equals the last one is the maximum, but the first one is wanted.
            let Some(at) = (0..left.len()).rev().max_by_key(rank) else { break };
            let process = left[at].process();
            let is_flood = process.is_some() && of_process[&process] > OF_PROCESS_MAX;
            if left.len() < most && !(is_flood && left.len() > most - most / 4) {
                break;
            }
            surplus.push(left.remove(at).key);
        }
        surplus
    }

    /// Socket at the other end of a connection, if the kernel was asked for it.
    pub fn socket(&self, key: K) -> Option<Socket> {
        self.entries.iter().find(|entry| entry.key == key)?.socket
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Searches for the processes of all connections for which this was not done yet.
    fn find_holders(&mut self) {
        let due = self.entries.iter_mut().filter(|entry| entry.holder == HolderSearch::Due);
        let mut due = Vec::from_iter(due);
        let inodes = due.iter().filter_map(|entry| Some(entry.socket?.inode));
        let inodes = BTreeSet::from_iter(inodes);
        if inodes.is_empty() {
            return;
        }
        let found = holders(&inodes);
        for entry in &mut due {
            let holder = entry.socket.and_then(|socket| found.get(&socket.inode)).copied();
            entry.holder = HolderSearch::Done(holder);
        }
    }

    fn count(&self, is_meant: impl Fn(&PendingPeer<K>) -> bool) -> usize {
        self.entries.iter().filter(|entry| is_meant(entry)).count()
    }
}

impl<K> PendingPeer<K> {
    const fn source(&self) -> Source {
        match self.holder {
            HolderSearch::Done(Some(Holder { rank_pid: Some(pid), .. })) => Source::Rank(pid),
            HolderSearch::Done(Some(_)) => Source::Strangers,
            HolderSearch::Done(None) | HolderSearch::Due => Source::Address(self.address),
        }
    }

    const fn process(&self) -> Option<i32> {
        match self.holder {
            HolderSearch::Done(Some(holder)) => Some(holder.pid),
            HolderSearch::Done(None) | HolderSearch::Due => None,
        }
    }
}

impl<K> Default for Pending<K> {
    fn default() -> Self {
        Self { entries: VecDeque::new() }
    }
}

/// Number of unauthenticated connections of one process from which on they are a flood. A process that
/// represents several ranks connects them one after the other.
const OF_PROCESS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([127, 0, 0, last])
    }

    fn pending(addresses: &[u8]) -> Pending<usize> {
        let mut pending = Pending::default();
        for (key, last) in addresses.iter().enumerate() {
            pending.insert(key, address(*last), None);
        }
        pending
    }

    /// Connections of one address whose processes were found.
    fn held_by(holders: &[Option<Holder>]) -> Pending<usize> {
        let mut pending = pending(&vec![1; holders.len()]);
        for (entry, holder) in pending.entries.iter_mut().zip(holders) {
            entry.holder = HolderSearch::Done(*holder);
        }
        pending
    }

    const fn of_rank(rank_pid: i32, pid: i32) -> Option<Holder> {
        Some(Holder { pid, rank_pid: Some(rank_pid) })
    }

    const fn stranger(pid: i32) -> Option<Holder> {
        Some(Holder { pid, rank_pid: None })
    }

    /// Removes the connections that go when there are `most`.
    fn take(pending: &mut Pending<usize>, most: usize) -> Vec<usize> {
        let surplus = pending.surplus(most);
        assert!(surplus.iter().all(|key| pending.remove(*key)));
        surplus
    }

    #[test]
    fn oldest_of_the_most_numerous_address_makes_room() {
        let mut pending = pending(&[2, 1, 1, 1, 3]);
        assert_eq!((take(&mut pending, 6), take(&mut pending, 5)), (vec![], vec![1]));
        pending.hold(2);
        assert_eq!(take(&mut pending, 4), [3]);
        assert!(pending.remove(2) && !pending.remove(2));
        assert!(take(&mut pending, 3).is_empty());
        assert_eq!((pending.socket(0), pending.socket(1)), (None, None));
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

    #[test]
    fn rank_that_has_connected_first_stays_in_a_flood_of_another_one() {
        // The oldest connection is that of rank 10; a child of rank 20 floods, and so do its children.
        let mut holders = vec![of_rank(10, 10), of_rank(20, 20)];
        holders.extend(vec![of_rank(20, 21); 3]);
        holders.extend((22..26).map(|pid| of_rank(20, pid)));
        let mut pending = held_by(&holders);
        let most = holders.len();
        assert_eq!(take(&mut pending, most), [2]);
        assert_eq!(take(&mut pending, most - 1), [3]);
        // Its own process and its children have one each.
        assert_eq!(take(&mut pending, most - 2), [1]);
        for left in (2..most - 2).rev() {
            assert_ne!(take(&mut pending, left), [0]);
        }
    }

    #[test]
    fn stranger_goes_before_a_rank_and_a_process_unknown_to_the_kernel_before_a_stranger() {
        let mut pending = held_by(&[of_rank(10, 10), stranger(7), None, None, stranger(8)]);
        assert_eq!(take(&mut pending, 5), [1]);
        assert_eq!(take(&mut pending, 4), [2]);
        assert_eq!(take(&mut pending, 3), [4]);
        assert_eq!(take(&mut pending, 2), [3]);
    }

    #[test]
    fn process_that_floods_loses_a_quarter_of_all_at_once_and_others_lose_one() {
        let flood = [vec![of_rank(10, 10)], vec![stranger(7); 31]].concat();
        let mut pending = held_by(&flood);
        assert_eq!(take(&mut pending, 32), Vec::from_iter(1..9));
        assert!(take(&mut pending, 32).is_empty());
        let crowd = Vec::from_iter((0..32).map(stranger));
        assert_eq!(take(&mut held_by(&crowd), 32), [0]);
    }
}
