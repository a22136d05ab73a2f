//! Fences of groups and rings of a job on several nodes: the part of this node, and those of the others.

use super::blocked_fence::groups;
use super::job::Job;
use super::member::Member;
use super::response::{GroupFence, Response};
use super::ring::{LEFT, RIGHT, RingKey, ring_keyspace};
use super::session_table::{HAS_EVENT, READY};
use super::storage::{JobOf, Storage};
use super::{Event, NO_JOB, RemoteError, Server, Session};
use crate::error::{Malformed, Misuse};
use crate::ids::{JobId, Rank, SessionId};
use crate::limits::VALUE_BYTES;
use crate::storage::Slots;
use crate::store::{
    BlockError, BlockReader, BlockRecord, Entry, EntryId, Keyspace, Kvs, Visibility,
};

impl<S: Storage> Server<S> {
    /// Members of a fence of a group that was handed up, on all nodes.
    pub fn group_ranks(&self, job: JobId, number: u32) -> impl Iterator<Item = u32> {
        let found = self.handed_up_group(job, number);
        found.into_iter().flat_map(|(job, group)| job.group_ranks(group))
    }

    /// The contribution of this node to a fence of a group that was handed up: the pairs that its members
    /// have put since the last fence of the job.
    pub fn group_puts(&self, job: JobId, number: u32) -> impl Iterator<Item = BlockRecord<'_>> {
        let found = self.handed_up_group(job, number);
        found.into_iter().flat_map(move |(job, group)| {
            let is_member = move |writer: Rank| {
                let session = job.member(writer).and_then(Member::session);
                let session = session.and_then(|id| self.sessions.get(id));
                session.is_some_and(|session| groups(session).any(|own| own == group))
            };
            job.unsent_puts(is_member)
        })
    }

    /// Ends a fence of a group with the contributions of all nodes. Nothing happens if no member waits any
    /// more.
    ///
    /// # Errors
    ///
    /// [`RemoteError`]; the fence has not ended then.
    pub fn end_group(
        &mut self,
        id: JobId,
        number: u32,
        block: &<S::Kvs as Kvs>::Block,
    ) -> Result<(), RemoteError> {
        let Some((_, group)) = self.handed_up_group(id, number) else { return Ok(()) };
        let job = self.shared.job_mut(id).ok_or(RemoteError::Misuse(NO_JOB))?;
        job.kvs.add_block(block).map_err(RemoteError::Block)?;
        let sessions = &self.sessions;
        job.publish_puts(|member| {
            let session = member.session().and_then(|id| sessions.get(id));
            session.is_some_and(|session| groups(session).any(|own| own == group))
        });
        job.forget_group(&group);
        self.replace_waits(
            id,
            Response::GroupHandedUp(group, number),
            Response::Released(group.tag),
        );
        Ok(())
    }

    /// Values of this node for neighbours on other nodes, in a ring that was handed up.
    pub fn ring_values(&self, job: JobId) -> impl Iterator<Item = BlockRecord<'_>> {
        let job = self.job(job).filter(|job| job.ring.is_handed_up());
        job.into_iter().flat_map(Job::ring_values)
    }

    /// Ends the ring of a job with the values of all nodes.
    ///
    /// # Errors
    ///
    /// [`RemoteError`] unless the ring was handed up, for malformed values, and without room for them; the
    /// ring has not ended then.
    pub fn end_ring(&mut self, job: JobId, values: &[u8]) -> Result<(), RemoteError> {
        let of = self.shared.job_mut(job).ok_or(RemoteError::Misuse(NO_JOB))?;
        if !of.ring.is_handed_up() {
            let needed = "the ring was handed up";
            return Err(RemoteError::Misuse(Misuse::WrongState { needed }));
        }
        of.add_ring_values(values).map_err(RemoteError::Block)?;
        of.end_ring();
        self.sessions.wake_all(of);
        Ok(())
    }

    /// Hands up a fence of a group whose members of this node are inside.
    pub(super) fn hand_up_group(&mut self, job: JobId, group: GroupFence) {
        self.spawns = self.spawns.wrapping_add(1);
        let number = self.spawns;
        let waits = Response::GroupHandedUp(group, number);
        let Some(last) = self.replace_waits(job, Response::Group(group), waits) else { return };
        if let Some(session) = self.sessions.get_mut(last) {
            let event = Event::GroupHandedUp { job, number, tag: group.tag };
            session.state.lifecycle.event = Some(event);
            self.sessions.push(HAS_EVENT, last);
        }
    }

    /// Replaces a response that members of a job wait for, and returns the last of their sessions.
    fn replace_waits(&mut self, id: JobId, from: Response, to: Response) -> Option<SessionId> {
        let mut last = None;
        let job = self.shared.job(id)?;
        for session in job.members().iter().filter_map(Member::session) {
            let Some(Session { state, .. }) = self.sessions.get_mut(session) else { continue };
            let found = state.pending_requests().find(|(_, waits)| waits.response == from);
            let Some(at) = found.map(|(at, _)| at) else { continue };
            if let Some(waits) = state.pending.get_mut(at) {
                waits.response = to.clone();
            }
            last = Some(session);
            self.sessions.push(READY, session);
        }
        last
    }

    fn handed_up_group(&self, job: JobId, number: u32) -> Option<(&JobOf<S>, GroupFence)> {
        let job = self.job(job)?;
        let sessions = job.members().iter().filter_map(Member::session);
        let mut found = sessions.filter_map(|id| {
            let mut pending = self.sessions.get(id)?.state.pending_requests();
            pending.find_map(|(_, waits)| match waits.response {
                Response::GroupHandedUp(group, of) if of == number => Some(group),
                _ => None,
            })
        });
        Some((job, found.next()?))
    }
}

impl<K: Kvs, M: AsRef<[Member]>> Job<K, M> {
    /// Pairs of members that no fence of the job has carried to the other nodes.
    fn unsent_puts<'a>(
        &'a self,
        is_member: impl Fn(Rank) -> bool + 'a,
    ) -> impl Iterator<Item = BlockRecord<'a>> {
        let ids = core::iter::successors(self.kvs.next(None), |last| self.kvs.next(Some(*last)));
        ids.filter_map(move |id: EntryId| {
            let Entry { keyspace, key, value, visibility } = self.kvs.entry(id)?;
            match visibility {
                Visibility::Put { writer, .. }
                    if keyspace == Keyspace::Space
                        && !self.is_sent(visibility)
                        && is_member(writer) =>
                {
                    Some(BlockRecord::Pair { writer, key, value })
                }
                _ => None,
            }
        })
    }

    /// Values of members whose neighbours are on other nodes.
    fn ring_values(&self) -> impl Iterator<Item = BlockRecord<'_>> {
        let size = self.size().max(1);
        let keyspace = ring_keyspace(self.ring.generation());
        self.ranked().flat_map(move |(writer, _)| {
            let before = Rank((writer.0 + size - 1) % size);
            let behind = Rank((writer.0 + 1) % size);
            let sides = [(LEFT, before), (RIGHT, behind)].into_iter();
            sides.filter(|(_, reader)| self.is_remote(*reader)).filter_map(move |(side, _)| {
                let id = self.kvs.find(keyspace, RingKey::new(side, writer).as_bytes())?;
                let value = self.kvs.entry(id)?.value;
                let key: &[u8] = if side == LEFT { b"L" } else { b"R" };
                Some(BlockRecord::Pair { writer, key, value })
            })
        })
    }

    /// Stores the values of other nodes that members here read.
    fn add_ring_values(&mut self, values: &[u8]) -> Result<(), BlockError> {
        let malformed = |at| BlockError::Malformed(Malformed::new(at, "a value of a ring"));
        let side = |key: &[u8]| match key {
            b"L" => Some(LEFT),
            b"R" => Some(RIGHT),
            _ => None,
        };
        let records = || {
            let mut reader = BlockReader::new(values);
            core::iter::from_fn(move || {
                let at = reader.offset();
                Some((at, reader.next()?))
            })
        };
        for (at, record) in records() {
            match record? {
                BlockRecord::Pair { key, value, .. }
                    if side(key).is_some() && value.len() <= VALUE_BYTES => {}
                _ => return Err(malformed(at)),
            }
        }
        let (size, keyspace) = (self.size().max(1), ring_keyspace(self.ring.generation()));
        for (_, record) in records() {
            let Ok(BlockRecord::Pair { writer, key, value }) = record else { continue };
            let Some(side) = side(key) else { continue };
            let reader = if side == LEFT { writer.0.wrapping_add(size - 1) } else { writer.0 + 1 };
            if !self.is_remote(writer) || self.member(Rank(reader % size)).is_none() {
                continue;
            }
            let visibility = Visibility::Put { writer, fence: 0 };
            let key = RingKey::new(side, writer);
            self.kvs
                .put(keyspace, key.as_bytes(), value, visibility)
                .map_err(|_| BlockError::NoRoom)?;
        }
        Ok(())
    }
}
