//! Parts that importers of logs share: connections, and requests that wait for a reply.

use pmi_core::command::{Verb, Version};
use pmi_trace::message::{self, Shape};
use pmi_trace::{Content, Direction, Record};
use std::collections::{BTreeMap, BTreeSet};

/// A connection of a log.
#[derive(Debug)]
pub(super) struct Conn {
    /// The negotiated version.
    pub(super) version: Option<Version>,
    /// Number of requests without a reply.
    asked_count: usize,
    /// The place of its last message.
    last: usize,
}

/// Messages in the order of the log, and the connections they belong to.
#[derive(Debug)]
pub(super) struct Log<K> {
    conns: Vec<Conn>,
    /// By name, the key of a connection in the log.
    places: BTreeMap<K, usize>,
    keys: Vec<K>,
    messages: Vec<(u64, usize, Direction, Vec<u8>)>,
    /// Requests without a reply: kind, position among all messages, connection.
    asked: BTreeSet<(u8, usize, usize)>,
}

impl<K: Copy + Ord> Log<K> {
    pub(super) const fn new() -> Self {
        Self {
            conns: Vec::new(),
            places: BTreeMap::new(),
            keys: Vec::new(),
            messages: Vec::new(),
            asked: BTreeSet::new(),
        }
    }

    /// True if there is no message.
    pub(super) const fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Keys of the connections in the log, by their numbers.
    pub(super) fn keys(&self) -> &[K] {
        &self.keys
    }

    /// The number of the connection of this name, new or known.
    pub(super) fn conn(&mut self, key: K) -> usize {
        *self.places.entry(key).or_insert_with(|| {
            self.keys.push(key);
            self.conns.push(Conn { version: None, asked_count: 0, last: 0 });
            self.conns.len() - 1
        })
    }

    /// The negotiated version of a connection.
    pub(super) fn version(&self, conn: usize) -> Option<Version> {
        self.conns.get(conn)?.version
    }

    /// Adds a message of a client.
    pub(super) fn ask(&mut self, time_ns: u64, at: usize, bytes: Vec<u8>) {
        let place = self.messages.len();
        if let Some(conn) = self.conns.get_mut(at) {
            conn.last = place;
            if message::shape(Direction::ToServer, &bytes) == Shape::Question {
                conn.asked_count += 1;
                let verb = message::verb(Direction::ToServer, &bytes);
                self.asked.insert((verb as u8, place, at));
            }
        }
        self.messages.push((time_ns, at, Direction::ToServer, bytes));
    }

    /// Adds a message of the server to a known client.
    pub(super) fn answer(&mut self, time_ns: u64, at: usize, bytes: Vec<u8>) {
        if let Some(conn) = self.conns.get_mut(at) {
            conn.last = self.messages.len();
            conn.version = conn.version.or_else(|| message::agreed(&bytes));
            let verb = message::verb(Direction::ToClient, &bytes);
            let asked = waiting(&self.asked, verb).find(|(.., who)| *who == at);
            if message::shape(Direction::ToClient, &bytes) == Shape::Answer
                && let Some(asked) = asked
            {
                conn.asked_count -= 1;
                self.asked.remove(&asked);
            }
        }
        self.messages.push((time_ns, at, Direction::ToClient, bytes));
    }

    /// The connection that has waited longest for a reply of this kind.
    pub(super) fn waits_for(&self, verb: Verb, is_meant: impl Fn(&K) -> bool) -> Option<usize> {
        let mut waiting = waiting(&self.asked, verb).map(|(.., at)| at);
        waiting.find(|at| self.keys.get(*at).is_some_and(&is_meant))
    }

    /// The connection that waits for nothing and was active last.
    pub(super) fn is_free(&self, is_meant: impl Fn(&K) -> bool) -> Option<usize> {
        let conns = self.keys.iter().zip(&self.conns).enumerate();
        let free = conns.filter(|(_, (key, conn))| conn.asked_count == 0 && is_meant(key));
        free.max_by_key(|(_, (_, conn))| conn.last).map(|(at, _)| at)
    }

    /// The records, given the job and rank of each connection by its number.
    pub(super) fn into_records(self, who: &[(u32, Option<u32>)]) -> Vec<Record> {
        let record = |(time_ns, at, direction, bytes): (u64, usize, Direction, Vec<u8>)| {
            let (job, rank) = *who.get(at)?;
            let session = u32::try_from(at).ok();
            Some(Record {
                time_ns,
                job,
                rank,
                session,
                what: Content::Message { direction, bytes },
            })
        };
        self.messages.into_iter().filter_map(record).collect()
    }
}

/// Requests of one kind, the oldest first.
fn waiting(
    asked: &BTreeSet<(u8, usize, usize)>,
    verb: Verb,
) -> impl Iterator<Item = (u8, usize, usize)> {
    asked.range((verb as u8, 0, 0)..=(verb as u8, usize::MAX, usize::MAX)).copied()
}
