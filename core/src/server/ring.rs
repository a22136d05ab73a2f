//! Ring: every rank waits for all others and receives the values of both neighbours. Slurm's
//! addition to PMI-2.

use super::job::{Job, RequestContext};
use super::member::Member;
use super::outcome::{Outcome, Wake};
use super::response::Response;
use crate::command::{Reason, Text};
use crate::ids::Rank;
use crate::limits::VALUE_BYTES;
use crate::store::{Keyspace, Kvs, Visibility};
use crate::wire::Writer;

impl<K: Kvs, M: AsRef<[Member]> + AsMut<[Member]>> Job<K, M> {
    /// Ends the ring.
    pub(super) fn end_ring(&mut self) {
        self.ring.end();
        self.ring_stuck_reported = false;
    }

    /// Once for each ring: a member that is outside and will never come, while others wait inside.
    pub(super) fn stuck_ring(&mut self) -> Option<Rank> {
        if self.ring.inside() == 0 || self.ring_stuck_reported {
            return None;
        }
        let generation = self.ring.generation();
        let is_lost = |member: &Member| member.rings == generation && member.is_gone();
        let (gone, _) = self.ranked().find(|(_, member)| is_lost(member))?;
        self.ring_stuck_reported = true;
        Some(gone)
    }

    /// Puts the values of a member into the ring.
    pub(super) fn enter_ring(
        &mut self,
        context: RequestContext,
        left: Text<'_>,
        right: Text<'_>,
    ) -> Outcome {
        let RequestContext { rank, now } = context;
        let generation = self.ring.generation();
        let all = self.local_size();
        if self.member(rank).is_none_or(|member| member.rings != generation) {
            return Outcome::refused(Reason::OutOfOrder {
                expected: "the end of the ring it is in",
            });
        }
        for (side, value) in [(LEFT, left), (RIGHT, right)] {
            let mut room = [0; VALUE_BYTES];
            let stored = value.resolve(&mut room).ok().filter(|value| value.len() <= VALUE_BYTES);
            let Some(value) = stored else {
                return Outcome::refused(Reason::Lacking { field: "a value within the limit" });
            };
            let (keyspace, key) = (ring_keyspace(generation), RingKey::new(side, rank));
            if self.kvs.put(keyspace, key.as_bytes(), value, Visibility::at_once(rank)).is_err() {
                return Outcome::refused(Reason::NoRoom { what: "values" });
            }
        }
        if let Some(member) = self.member_mut(rank) {
            member.rings = generation.wrapping_add(1);
        }
        let wake = match self.ring.enter(now, all) {
            true if self.has_remote() => {
                self.ring.hand_up();
                Wake::None
            }
            true => Wake::RingEnded,
            false => Wake::None,
        };
        Outcome::wake(Response::Ring(generation), wake)
    }

    /// Values of the neighbours of `rank` in a ring: from the left and from the right.
    pub(super) fn neighbours(&self, rank: Rank, generation: u32) -> [&[u8]; 2] {
        let size = self.size().max(1);
        let before = Rank((rank.0 + size - 1) % size);
        let behind = Rank((rank.0 + 1) % size);
        [(RIGHT, before), (LEFT, behind)].map(|(side, rank)| {
            let key = RingKey::new(side, rank);
            let found = self.kvs.find(ring_keyspace(generation), key.as_bytes());
            found.and_then(|id| self.kvs.entry(id)).map_or(&b""[..], |entry| entry.value)
        })
    }

    /// True if the ring with this number is complete.
    pub(super) const fn ring_has_ended(&self, generation: u32) -> bool {
        self.ring.has_ended(generation)
    }
}

/// Key of a rank's value in a ring.
pub(super) struct RingKey {
    bytes: [u8; 11],
    len: usize,
}

impl RingKey {
    pub(super) fn new(side: u8, rank: Rank) -> Self {
        let mut bytes = [0; 11];
        let mut writer = Writer::new(&mut bytes);
        writer.byte(side).number(rank.0);
        let len = writer.len();
        Self { bytes, len }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&self.bytes)
    }
}

pub(super) const fn ring_keyspace(generation: u32) -> Keyspace {
    Keyspace::Ring(generation % 2 == 1)
}

pub(super) const LEFT: u8 = b'L';
pub(super) const RIGHT: u8 = b'R';
