//! Pending operations of members, from which an owner can explain missing progress.

use super::blocked_fence::groups;
use super::member::Member;
use super::reply::ReplyContext;
use super::response::{GroupFence, Response};
use super::session::{ReadState, Session};
use super::{Server, Storage};
use crate::ids::{JobId, Key, Rank, SessionId};
use crate::storage::Buffer;

/// Condition that a member waits for and that other processes have to fulfil.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait<'a> {
    /// The end of the job's fence with this number.
    Fence(u32),
    /// The end of the fence of a group.
    Group(GroupFence),
    /// The end of the job's ring with this number.
    Ring(u32),
    /// A node attribute, put by a process of the same node.
    Attribute(&'a Key),
    /// The job it has asked for.
    Spawn,
    /// The answer to a message of which it has sent a part alone.
    Message,
}

impl<S: Storage> Server<S> {
    /// Pending operations of the peer of a session: one for each waiting request and for a message that has
    /// not ended, none if all of its responses are due.
    ///
    /// Changes after: any call on any session of the job, [`end_fence`](Self::end_fence),
    /// [`answer_spawn`](Self::answer_spawn).
    pub fn waits(&self, session: SessionId) -> impl Iterator<Item = Wait<'_>> {
        let open = self.sessions.get(session);
        // A session that accepts messages has handled all whole ones.
        let is_part = open.is_some_and(|Session { inbox, state }| {
            state.read_state() == ReadState::Accept && !inbox.as_slice().is_empty()
        });
        let state = open.map(|session| &session.state);
        let found = state.and_then(|state| Some((state, self.shared.job(state.protocol.job)?)));
        let part = is_part.then_some(Wait::Message);
        part.into_iter().chain(found.into_iter().flat_map(|(state, job)| {
            let rank = state.protocol.rank;
            let names = &self.shared.names;
            let context =
                ReplyContext { job, names, rank, nonce: b"", has_tags: false, other: None };
            state.pending_requests().filter_map(move |(_, exchange)| match &exchange.response {
                response if context.is_due(response) => None,
                Response::Fence(generation) => Some(Wait::Fence(*generation)),
                Response::Group(group) | Response::GroupHandedUp(group, _) => {
                    Some(Wait::Group(*group))
                }
                Response::Ring(generation) => Some(Wait::Ring(*generation)),
                Response::Attribute(_, key) => key.get().map(Wait::Attribute),
                Response::Spawn(_) => Some(Wait::Spawn),
                _ => None,
            })
        }))
    }

    /// The ranks that are not in the fence of `group` and certainly take part in it: all that are
    /// missing, unless the job has more than 64 ranks and there was no room to keep which.
    pub fn missing_from_group(&self, job: JobId, group: GroupFence) -> impl Iterator<Item = Rank> {
        let is_in = move |member: &Member| {
            let session = member.session().and_then(|id| self.sessions.get(id));
            session.is_some_and(|session| groups(session).any(|own| own == group))
        };
        self.job(job).into_iter().flat_map(move |job| job.outside(group, is_in))
    }

    /// The ranks that the current ring waits for.
    pub fn missing_from_ring(&self, job: JobId) -> impl Iterator<Item = Rank> {
        self.job(job).into_iter().flat_map(|job| {
            let generation = job.ring.generation();
            job.ranked().filter(move |(_, m)| m.rings == generation).map(|(rank, _)| rank)
        })
    }
}
