//! Input of a session, its effects, and the transmission of replies.

use super::member::Member;
use super::outcome::Wake;
use super::reply::ReplyContext;
use super::response::{GroupFence, KvsListing, PendingReply, RequestHeader, Response};
use super::session::{ReadState, Session, SessionPhase};
use super::shared::{HAS_EVENT, READY};
use super::state::{self, Context};
use super::{Event, Server, Storage};
use crate::command::{Verb, Version};
use crate::error::{Full, PeerError};
use crate::ids::{JobId, Rank, SessionId};
use crate::parts;
use crate::storage::{Buffer, Slots};
use crate::store::{Keyspace, Kvs};
use crate::time::Instant;
use crate::wire::{Dialect, Framed};

impl<S: Storage> Server<S> {
    /// Handles as many messages as the session accepts, and holds the rest if there is room.
    pub(super) fn receive(
        &mut self,
        id: SessionId,
        now: Instant,
        bytes: &[u8],
    ) -> Result<usize, PeerError> {
        #[cfg(feature = "pmix")]
        {
            self.shared.now = now;
        }
        let mut rest = bytes;
        loop {
            let taken = bytes.len() - rest.len();
            let Some(session) = self.sessions.get_mut(id) else {
                return Ok(bytes.len());
            };
            match (session.state.read_state(), session.state.phase) {
                (ReadState::Discard, SessionPhase::Broken(error)) => return Err(error),
                (ReadState::Discard, _) => return Ok(bytes.len()),
                (ReadState::Paused, _) => return Ok(taken + session.hold(rest)),
                (ReadState::Accept, _) => {}
            }
            let is_held = !session.inbox.as_slice().is_empty();
            let source = if is_held { session.inbox.as_slice() } else { rest };
            let dialect = Dialect::of(source, session.state.version);
            match dialect.frame_request(source) {
                Ok(Framed::Whole(len)) => {
                    let wake = self.handle_message(id, now, rest, is_held, (dialect, len));
                    if !is_held {
                        rest = rest.get(len..).unwrap_or(b"");
                    }
                    self.apply(id, wake);
                }
                Ok(Framed::Partial) if rest.is_empty() => return Ok(bytes.len()),
                Ok(Framed::Partial) => {
                    let len = session.hold(rest);
                    rest = rest.get(len..).unwrap_or(b"");
                    if len == 0 {
                        let limit_bytes = session.inbox.as_slice().len();
                        session
                            .state
                            .fail_unread(dialect, PeerError::MessageTooLong { limit_bytes });
                    }
                }
                Err(bad) => {
                    session.state.fail_unread(dialect, PeerError::Malformed(bad));
                }
            }
        }
    }

    /// Handles the message of `len` bytes at the front of the inbox, or of `rest`.
    fn handle_message(
        &mut self,
        id: SessionId,
        now: Instant,
        rest: &[u8],
        is_held: bool,
        (dialect, len): (Dialect, usize),
    ) -> Wake {
        let Some(session) = self.sessions.get_mut(id) else { return Wake::None };
        let Session { inbox, state } = session;
        let fresh = rest.get(..len).unwrap_or(b"");
        let message = if is_held { inbox.as_slice().get(..len).unwrap_or(b"") } else { fresh };
        let (shared, spawns) = (&mut self.shared, &mut self.spawns);
        let (jobs, names) = (&mut shared.jobs, &mut shared.names);
        let context = Context { id, jobs, names, spawns, now };
        let wake = state::handle_message(state, context, dialect, message);
        if parts::SPAWN && state.held_len.is_some() {
            if !is_held && inbox.extend(fresh).is_err() {
                (state.held_len, state.event) = (None, None);
                let error = PeerError::MessageTooLong { limit_bytes: inbox.room() };
                state.fail(RequestHeader::unread(Verb::Spawn, dialect), error);
            }
        } else if is_held {
            inbox.drop_front(len);
        }
        wake
    }

    /// Wakes the sessions that a message concerns, and queues its session if it has an event.
    fn apply(&mut self, id: SessionId, wake: Wake) {
        let Some(Session { state, .. }) = self.sessions.get(id) else { return };
        let (job, rank) = (state.job, state.rank);
        if state.event.is_some() {
            self.sessions.push(HAS_EVENT, id);
        }
        match (wake, self.shared.job_mut(job)) {
            (Wake::FenceEnded, _) => self.sessions.end_fence(&mut self.shared, job),
            (Wake::RingEnded, Some(job)) if parts::CONNECT => {
                job.end_ring();
                self.sessions.wake_all(job);
            }
            (Wake::GroupEntered, _) if parts::GROUPS => self.release_groups(job, id),
            (Wake::NodePut, Some(of)) if parts::PMI2 => {
                if let Some(member) = rank.and_then(|rank| of.member(rank)) {
                    let node = member.node;
                    self.wake_attribute_waiters(job, node);
                }
            }
            #[cfg(feature = "pmix")]
            (Wake::Published, _) => self.shared.has_new_names = true,
            _ => {}
        }
    }

    /// Ends the fences of groups that a session is in and that are complete.
    fn release_groups(&mut self, job: JobId, id: SessionId) {
        for place in 0..self.sessions.get(id).map_or(0, |session| session.state.pending.end()) {
            let pending =
                self.sessions.get(id).and_then(|session| session.state.pending.get(place));
            if let Some(PendingReply { response: Response::Group(group), .. }) = pending {
                self.release_group(job, *group);
            }
        }
    }

    /// Ends the fence of a group if all of its members are inside. They are found by their pending
    /// replies, so a group fence needs no memory of its own.
    fn release_group(&mut self, id: JobId, group: GroupFence) {
        let Some(job) = self.shared.job_mut(id) else { return };
        let sessions = &self.sessions;
        let is_in = |session: Option<SessionId>| {
            let state = &sessions.get(session?)?.state;
            state
                .pending_replies()
                .find(|(_, waits)| waits.response == Response::Group(group))
                .map(|(at, _)| at)
        };
        let entered = job.members().iter().filter(|member| is_in(member.session()).is_some());
        if entered.count() < group.size as usize {
            return;
        }
        job.publish_puts(|member| is_in(member.session()).is_some());
        job.forget_group(&group);
        for session in job.members().iter().filter_map(Member::session) {
            let Some(Session { state, .. }) = self.sessions.get_mut(session) else {
                continue;
            };
            let found =
                state.pending_replies().find(|(_, waits)| waits.response == Response::Group(group));
            let Some(at) = found.map(|(at, _)| at) else { continue };
            if let Some(waits) = state.pending.get_mut(at) {
                waits.response = Response::Released(group.tag);
            }
            self.sessions.push(READY, session);
        }
    }

    /// Wakes the sessions that wait for an attribute of this node that has been put.
    fn wake_attribute_waiters(&mut self, id: JobId, node: u32) {
        let Some(job) = self.shared.job(id) else { return };
        for member in job.members().iter().filter(|member| member.node == node) {
            let Some(session) = member.session() else { continue };
            let is_due = |pending: &PendingReply| match &pending.response {
                Response::Attribute(of, key) => {
                    *of == node && job.kvs().find(Keyspace::Node(node), key.as_bytes()).is_some()
                }
                _ => false,
            };
            let open = self.sessions.get(session);
            if open.is_some_and(|open| open.state.pending_replies().any(|(_, one)| is_due(one))) {
                self.sessions.push(READY, session);
            }
        }
    }

    pub(super) fn transmit(
        &mut self,
        id: SessionId,
        out: &mut [u8],
    ) -> Result<Option<usize>, Full> {
        let Some(Session { state, .. }) = self.sessions.get_mut(id) else {
            return Ok(None);
        };
        let Some(job) = self.shared.job(state.job) else { return Ok(None) };
        let rank = state.rank.unwrap_or(Rank(u32::MAX));
        let nonce =
            state.challenge.as_ref().map_or(&b""[..], |challenge| challenge.nonce().as_bytes());
        let has_tags = parts::GROUPS && state.version == Some(Version::V1_2);
        let mut context =
            ReplyContext { job, names: &self.shared.names, rank, nonce, has_tags, other: None };
        let is_due = |exchange: &PendingReply| {
            context.is_due(&exchange.response) && !state.must_wait_for_earlier(exchange)
        };
        let due = state.pending_replies().find(|(_, exchange)| is_due(exchange));
        let Some((at, exchange)) = due else { return Ok(None) };
        if (parts::CONNECT || parts::SPAWN)
            && let Response::Spawned(_, Ok(other), _)
            | Response::Foreign(other, _)
            | Response::All(KvsListing { job: other, .. }) = exchange.response
        {
            context.other = self.shared.job(other);
        }
        let len = context.write(exchange, out)?;
        let rest = if parts::CONNECT { context.rest(exchange) } else { None };
        let signal = match exchange.response {
            Response::Notice(_) if parts::LISTEN => {
                job.listener(id).and_then(|(rank, listener)| {
                    Some(Event::Signal { job: state.job, rank, signal: listener.signal.clone()? })
                })
            }
            _ => None,
        };
        match (rest, state.pending.get_mut(at)) {
            (Some(rest), Some(exchange)) => exchange.response = rest,
            _ => drop(state.pending.remove(at)),
        }
        if signal.is_some() {
            state.event = signal;
            self.sessions.push(HAS_EVENT, id);
        }
        Ok(Some(len))
    }
}
