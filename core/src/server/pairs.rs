//! Pairs of a job: puts, gets, and their visibility.

use super::job::{Job, RequestContext};
use super::member::Member;
use super::outcome::{Outcome, PutTwice, Wake};
use super::response::{AttributeKey, Response};
use crate::command::{LimitedField, Place, Reason, Text};
use crate::ids::{Key, Rank};
use crate::limits::{KEY_BYTES, VALUE_BYTES};
use crate::parts;
use crate::store::{EntryId, Keyspace, Kvs, NoRoom, Visibility};

impl<K: Kvs, M: AsRef<[Member]> + AsMut<[Member]>> Job<K, M> {
    /// Finds the entry that `reader` would read: a rank of the job, or a process outside.
    pub(super) fn look_up(
        &self,
        reader: Option<Rank>,
        place: Place<'_>,
        key: &[u8],
    ) -> Option<EntryId> {
        let seen = |keyspace| {
            let id = self.kvs.find(keyspace, key)?;
            let visibility = self.kvs.entry(id)?.visibility;
            visibility.is_visible(reader, self.fence().generation()).then_some(id)
        };
        match place {
            Place::Node if parts::ATTRIBUTES => seen(Keyspace::Node(self.member(reader?)?.node)),
            Place::Attributes if parts::ATTRIBUTES => seen(Keyspace::Attributes),
            _ if is_node_local(key) => seen(Keyspace::Node(self.member(reader?)?.node)),
            // A value of the process manager cannot be replaced by a put.
            _ => seen(Keyspace::Attributes).or_else(|| match self.is_over_nodes() {
                true => self.look_up_over_nodes(reader, key, self.fence().generation()),
                false => seen(Keyspace::Space),
            }),
        }
    }

    /// The value of `key` that every rank of the job reads: of the process manager, or put by a rank
    /// before the last fence. Keys of the ranks of one node have none.
    pub fn visible_value(&self, key: &[u8]) -> Option<&[u8]> {
        let found = self.look_up(None, Place::Job(None), key)?;
        self.kvs.entry(found).map(|entry| entry.value)
    }

    pub(super) fn put(
        &mut self,
        context: RequestContext,
        place: Place<'_>,
        key: Text<'_>,
        value: Text<'_>,
    ) -> Outcome {
        let rank = context.rank;
        if key.is_empty() && crate::wire::quirks::EMPTY_PUT_IS_NOTHING {
            return Outcome::reply(Response::Done);
        }
        let (mut key_room, mut value_room) = ([0; KEY_BYTES], None);
        let too_long = |what, len_bytes, limit_bytes| {
            let reason = Reason::Length { what, key: b"", len_bytes, limit_bytes, rank: rank.0 };
            let mut reply = Response::Done;
            reply.refuse_about(&reason, key.as_plain().unwrap_or(b""));
            Outcome::reply(reply)
        };
        let bytes = match resolved(key, &mut key_room) {
            Some(bytes) if bytes.len() <= KEY_BYTES => bytes,
            _ => return too_long(LimitedField::Key, key.len(), KEY_BYTES),
        };
        // Nearly all values are plain, and room for them need not be cleared.
        let plain = value.as_plain();
        let value = match plain.or_else(|| resolved(value, value_room.insert([0; VALUE_BYTES]))) {
            Some(value) if value.len() <= VALUE_BYTES => value,
            _ => return too_long(LimitedField::Value, value.len(), VALUE_BYTES),
        };
        if Key::check(bytes).is_err() {
            return Outcome::refused(Reason::Lacking { field: "key" });
        }
        let is_of_node = parts::ATTRIBUTES && place == Place::Node || is_node_local(bytes);
        let (keyspace, epoch) = match self.member(rank) {
            Some(member) if is_of_node => (Keyspace::Node(member.node), 0),
            _ => (Keyspace::Space, self.next_fence()),
        };
        let visibility = Visibility::Put { writer: rank, fence: epoch };
        let Ok((id, old)) = self.kvs.put(keyspace, bytes, value, visibility) else {
            return Outcome::refused(Reason::NoRoom { what: "values" });
        };
        let mut outcome = Outcome::reply(Response::Done);
        if is_of_node {
            outcome.wake = Wake::NodePut;
            return outcome;
        }
        self.has_unsent_puts = self.is_over_nodes();
        if let Some(old) = old {
            self.keep_visible(id, old, rank);
            if let Visibility::Put { writer: first, fence } = old
                && first != rank
                && fence == epoch
            {
                outcome.event = Some(PutTwice { entry: id, first, second: rank });
            }
        }
        outcome
    }

    /// Keeps a value visible that was visible before the put: the new value is visible at once,
    /// since the old one is gone. A fence guarantees that earlier puts are visible, not that later
    /// ones are hidden.
    fn keep_visible(&mut self, id: EntryId, old: Visibility, by: Rank) {
        let generation = self.fence().generation();
        if self.is_over_nodes() {
            // The other nodes get the new value with the next fence, and the blocks have one that was sent.
            let is_unsent =
                matches!(old, Visibility::Put { writer, fence } if writer == by && fence != 0);
            if !self.is_sent(old) && !is_unsent {
                self.kvs.set_visibility(id, Visibility::at_once(by));
            }
            return;
        }
        if old.writer() != Some(by) || old.is_visible(None, generation) {
            self.kvs.set_visibility(id, Visibility::Put { writer: by, fence: generation });
        }
    }

    /// Stores a value of another server or job, which is visible at once.
    pub(super) fn put_visible(&mut self, key: Text<'_>, value: Text<'_>) -> Response {
        let (mut key_room, mut value_room) = ([0; KEY_BYTES], [0; VALUE_BYTES]);
        let (Ok(key), Ok(value)) = (key.resolve(&mut key_room), value.resolve(&mut value_room))
        else {
            return Response::refused(Reason::Lacking { field: "a pair within the limits" });
        };
        if Key::check(key).is_err() || value.len() > VALUE_BYTES {
            return Response::refused(Reason::Lacking { field: "a pair within the limits" });
        }
        match self.kvs.put(Keyspace::Space, key, value, Visibility::Manager) {
            Ok(_) => Response::Done,
            Err(NoRoom) => Response::refused(Reason::NoRoom { what: "values" }),
        }
    }

    /// The pair after `last` that `reader` sees after `fences` fences.
    pub(super) fn next_pair(
        &self,
        last: Option<EntryId>,
        reader: Option<Rank>,
        fences: u32,
    ) -> Option<EntryId> {
        if self.is_over_nodes() {
            return self.next_over_nodes(last, reader, fences);
        }
        let mut at = self.kvs.next(last);
        while let Some(id) = at {
            let entry = self.kvs.entry(id)?;
            if entry.keyspace == Keyspace::Space && entry.visibility.is_visible(reader, fences) {
                return Some(id);
            }
            at = self.kvs.next(at);
        }
        None
    }

    pub(super) fn get(
        &mut self,
        rank: Rank,
        place: Place<'_>,
        key: Text<'_>,
        wait: bool,
    ) -> Response {
        // No byte of a name is ever doubled.
        if let Place::Job(Some(name)) = place
            && name.as_plain() != Some(self.name().as_bytes())
        {
            return Response::Missing;
        }
        let mut room = [0; KEY_BYTES];
        let Some(key) = resolved(key, &mut room) else { return Response::Missing };
        match self.look_up(Some(rank), place, key) {
            Some(found) => Response::Value(found),
            None if parts::ATTRIBUTES && wait => match (Key::new(key), self.member(rank)) {
                (Ok(key), Some(member)) => {
                    let node = member.node;
                    self.may_have_stuck_attribute = true;
                    Response::Attribute(node, AttributeKey::new(key))
                }
                _ => Response::Missing,
            },
            None => Response::Missing,
        }
    }
}

/// The bytes that a text means. Only frames double bytes, and need room to read through them.
fn resolved<'s, 'a: 's>(text: Text<'a>, room: &'s mut [u8]) -> Option<&'s [u8]> {
    if parts::DOUBLED_TEXTS { text.resolve(room).ok() } else { text.as_plain() }
}

/// True for a key of the keyspace that is reserved for the ranks of one node.
fn is_node_local(key: &[u8]) -> bool {
    parts::ATTRIBUTES && key.starts_with(crate::wire::quirks::NODE_LOCAL)
}
