//! Input of a session, its effects, and the transmission of replies.

use super::member::Member;
use super::outcome::Wake;
#[cfg(feature = "pmix")]
use super::pmix::context::PmixEffect;
#[cfg(feature = "pmix")]
use super::pmix::tables::PmixStorage;
use super::reply::ReplyContext;
use super::response::{GroupFence, KvsListing, PendingReply, Response};
use super::session::{ProtocolState, ReadState, Session, SessionPhase, SessionState};
use super::session_table::{AWAITS_BUFFER, HAS_EVENT, READY, SessionTable};
use super::shared::Shared;
use super::{Event, PmiPeerState, Server, Storage};
use crate::command::{Verb, Version};
use crate::error::{Full, Malformed, PeerError};
use crate::ids::{JobId, SessionId};
use crate::parts;
use crate::storage::{Buffer, Slots};
use crate::store::{Keyspace, Kvs};
use crate::time::Instant;
use crate::wire::Framed;

/// Protocol of a session, for the loop that handles its input.
pub(super) trait Protocol<S: Storage>: ProtocolState + Sized {
    type Inbox: Buffer;
    type Pending: Slots<Self::Request>;
    /// Form of a message.
    type Dialect: Copy;
    /// True if a paused session holds input as far as there is room. Otherwise it leaves the input to the
    /// caller, which stops reading: the server holds nothing that could as well wait in the peer.
    const HOLDS_WHILE_PAUSED: bool;

    fn session(table: &mut SessionTable<S>, id: SessionId) -> Option<&mut Of<S, Self>>;

    /// Form of the message at the front of `bytes`.
    fn dialect(state: &StateOf<S, Self>, bytes: &[u8]) -> Self::Dialect;

    fn frame(dialect: Self::Dialect, bytes: &[u8]) -> Result<Framed, Malformed>;

    /// Number of bytes that the session holds of a message that has not ended: all that have arrived, or
    /// fewer if further ones would have to be moved repeatedly.
    fn missing_bytes(_session: &Of<S, Self>) -> usize {
        usize::MAX
    }

    /// Moves parts of messages that have arrived interleaved; false if their order is right, or still
    /// unknown.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if more messages are open at once than may be.
    fn reorder(_dialect: Self::Dialect, _bytes: &mut [u8]) -> Result<bool, Malformed> {
        Ok(false)
    }

    /// The limit that an unfinished message exceeds.
    fn check_unfinished(_sessions: &SessionTable<S>, _id: SessionId) -> Option<PeerError> {
        None
    }

    /// Handles one whole message. A failure of the peer that ends the session is set as its phase.
    fn handle_message(
        state: &mut StateOf<S, Self>,
        context: MessageContext<'_, S>,
        dialect: Self::Dialect,
        bytes: &[u8],
    ) -> MessageEffect;

    /// Ends the session because of a protocol error; a protocol with replies explains it in that to `verb`.
    fn fail(state: &mut StateOf<S, Self>, to: (Verb, Self::Dialect), error: PeerError);
}

/// Effect of a message outside its session.
pub(super) enum MessageEffect {
    /// Sessions to wake, after a message of PMI.
    Wake(Wake),
    #[cfg(feature = "pmix")]
    Pmix(PmixEffect),
}

/// A session of a protocol in the memory of `S`.
pub(super) type Of<S, T> = Session<<T as Protocol<S>>::Inbox, <T as Protocol<S>>::Pending, T>;
/// Its state.
pub(super) type StateOf<S, T> = SessionState<<T as Protocol<S>>::Pending, T>;

/// State that a message may modify besides its session.
pub(super) struct MessageContext<'a, S: Storage> {
    pub(super) id: SessionId,
    pub(super) now: Instant,
    pub(super) shared: &'a mut Shared<S>,
    /// The number of spawn requests so far.
    pub(super) spawns: &'a mut u32,
}

impl<S: Storage> Server<S> {
    /// Handles as many messages as the session accepts, and holds the rest if there is room.
    pub(super) fn receive<T: Protocol<S>>(
        &mut self,
        id: SessionId,
        now: Instant,
        bytes: &[u8],
    ) -> Result<usize, PeerError> {
        #[cfg(feature = "pmix")]
        {
            self.shared.now = now;
        }
        let received = self.receive_all::<T>(id, now, bytes);
        // The session may have returned a buffer. One that is woken for no reason waits again.
        if T::Inbox::IS_POOLED
            && T::session(&mut self.sessions, id).is_some_and(|session| session.inbox.room() > 0)
        {
            self.sessions.wake_awaiting_buffer();
        }
        received
    }

    fn receive_all<T: Protocol<S>>(
        &mut self,
        id: SessionId,
        now: Instant,
        bytes: &[u8],
    ) -> Result<usize, PeerError> {
        let mut rest = bytes;
        loop {
            let taken = bytes.len() - rest.len();
            let Some(session) = T::session(&mut self.sessions, id) else {
                return Ok(bytes.len());
            };
            match (session.state.read_state(), session.state.lifecycle.phase) {
                (ReadState::Discard, phase) => {
                    if T::Inbox::IS_POOLED {
                        session.inbox.clear();
                    }
                    return match phase {
                        SessionPhase::Broken(error) => Err(error),
                        _ => Ok(bytes.len()),
                    };
                }
                (ReadState::Paused, _) if T::Inbox::IS_POOLED => {
                    return Ok(taken - session.leave_in_link(taken));
                }
                (ReadState::Paused, _) if T::HOLDS_WHILE_PAUSED => {
                    return Ok(taken + session.hold(rest));
                }
                (ReadState::Paused, _) => return Ok(taken),
                (ReadState::Accept, _) => {}
            }
            let is_held = !session.inbox.as_slice().is_empty();
            let source = if is_held { session.inbox.as_slice() } else { rest };
            if source.is_empty() {
                return Ok(bytes.len());
            }
            let dialect = T::dialect(&session.state, source);
            let to = (Verb::Unknown, dialect);
            match T::frame(dialect, source) {
                // The message may have to be held until the owner has read it.
                Ok(Framed::Whole(_))
                    if HOLDS_REQUESTS
                        && session.is_without_buffer()
                        && session.inbox.room() == 0 =>
                {
                    self.sessions.push(AWAITS_BUFFER, id);
                    return Ok(taken);
                }
                Ok(Framed::Whole(len)) => {
                    self.handle_message::<T>(id, now, rest, is_held, (dialect, len));
                    if !is_held {
                        rest = rest.get(len..).unwrap_or(b"");
                    }
                }
                Ok(Framed::Partial) if is_held && reorder(session, dialect) => {}
                Ok(Framed::Partial) if rest.is_empty() => return Ok(bytes.len()),
                Ok(Framed::Partial) => {
                    let missing = T::missing_bytes(session).min(rest.len());
                    let len = session.hold(rest.get(..missing).unwrap_or(b""));
                    rest = rest.get(len..).unwrap_or(b"");
                    if len == 0 {
                        if session.is_without_buffer() {
                            self.sessions.push(AWAITS_BUFFER, id);
                            return Ok(taken);
                        }
                        let limit_bytes = session.inbox.as_slice().len();
                        let error = PeerError::MessageTooLong { limit_bytes };
                        T::fail(&mut session.state, to, error);
                    } else if let Some(error) = T::check_unfinished(&self.sessions, id)
                        && let Some(session) = T::session(&mut self.sessions, id)
                    {
                        T::fail(&mut session.state, to, error);
                    }
                }
                Err(bad) => T::fail(&mut session.state, to, PeerError::Malformed(bad)),
            }
        }
    }

    /// Handles the message of `len` bytes at the front of the inbox, or of `rest`, and its effect.
    fn handle_message<T: Protocol<S>>(
        &mut self,
        id: SessionId,
        now: Instant,
        rest: &[u8],
        is_held: bool,
        (dialect, len): (T::Dialect, usize),
    ) {
        let Self { sessions, shared, spawns, .. } = self;
        let Some(Session { inbox, state }) = T::session(sessions, id) else { return };
        let fresh = rest.get(..len).unwrap_or(b"");
        let message = if is_held { inbox.as_slice().get(..len).unwrap_or(b"") } else { fresh };
        let context = MessageContext { id, now, shared, spawns };
        let effect = T::handle_message(state, context, dialect, message);
        if HOLDS_REQUESTS && state.lifecycle.held_len.is_some() {
            if !is_held && inbox.extend(fresh).is_err() {
                if state.lifecycle.phase == SessionPhase::Ended {
                    // An abort counts without the rest of its text.
                    state.lifecycle.held_len = None;
                    return;
                }
                (state.lifecycle.held_len, state.lifecycle.event) = (None, None);
                let error = PeerError::MessageTooLong { limit_bytes: inbox.room() };
                return T::fail(state, (Verb::Spawn, dialect), error);
            }
        } else if is_held {
            inbox.drop_front(len);
        }
        match effect {
            MessageEffect::Wake(wake) => self.apply(id, wake),
            #[cfg(feature = "pmix")]
            MessageEffect::Pmix(effect) => {
                // A build without PMIx sessions contains no code for them.
                if S::Pmix::ENABLED {
                    self.pmix().apply_effect(id, effect);
                }
            }
        }
    }

    /// Fails a session whose peer has not identified itself in time.
    pub(super) fn check_deadline<T: Protocol<S>>(
        &mut self,
        id: SessionId,
        now: Instant,
        dialect: T::Dialect,
    ) {
        let Some(Session { state, .. }) = T::session(&mut self.sessions, id) else { return };
        if state.lifecycle.is_late(now) {
            T::fail(state, (Verb::InitAck, dialect), PeerError::TimedOut);
            self.sessions.push(READY, id);
        }
    }

    /// Queues the sessions that wait for a buffer, after one was returned outside of their input.
    pub(super) fn wake_awaiting_buffer(&mut self) {
        #[cfg(feature = "pmix")]
        let is_pooled = S::Inbox::IS_POOLED || <S::Pmix as PmixStorage>::Inbox::IS_POOLED;
        #[cfg(not(feature = "pmix"))]
        let is_pooled = S::Inbox::IS_POOLED;
        if is_pooled {
            self.sessions.wake_awaiting_buffer();
        }
    }

    /// Ends the fence of a job, and wakes its sessions and its PMIx clients.
    pub(super) fn release_fence(&mut self, job: JobId) {
        self.sessions.end_fence(&mut self.shared, job);
        #[cfg(feature = "pmix")]
        if S::Pmix::ENABLED {
            self.pmix().check_fence(job);
        }
    }

    /// Wakes the sessions that a message concerns, and queues its session if it has an event.
    fn apply(&mut self, id: SessionId, wake: Wake) {
        let Some(Session { state, .. }) = self.sessions.get(id) else { return };
        let PmiPeerState { job, rank, .. } = state.protocol;
        if state.lifecycle.event.is_some() {
            self.sessions.push(HAS_EVENT, id);
        }
        match (wake, self.shared.job_mut(job)) {
            (Wake::FenceEnded, _) => self.release_fence(job),
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
            (Wake::Published, _) if S::Pmix::ENABLED => self.pmix().answer_lookups(),
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
                .pending_requests()
                .find(|(_, waits)| waits.response == Response::Group(group))
                .map(|(at, _)| at)
        };
        let entered = job.members().iter().filter(|member| is_in(member.session()).is_some());
        if entered.count() < group.local as usize {
            return;
        }
        if parts::NODES && group.is_over_nodes() {
            return self.hand_up_group(id, group);
        }
        job.publish_puts(|member| is_in(member.session()).is_some());
        job.forget_group(&group);
        for session in job.members().iter().filter_map(Member::session) {
            let Some(Session { state, .. }) = self.sessions.get_mut(session) else {
                continue;
            };
            let found = state
                .pending_requests()
                .find(|(_, waits)| waits.response == Response::Group(group));
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
            if open.is_some_and(|open| open.state.pending_requests().any(|(_, one)| is_due(one))) {
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
        let own = state.protocol.job;
        let Some(job) = self.shared.job(own) else { return Ok(None) };
        let PmiPeerState { rank, version, challenge, .. } = &state.protocol;
        let rank = *rank;
        let nonce = challenge.as_ref().map_or(&b""[..], |challenge| challenge.nonce().as_bytes());
        let has_tags = parts::GROUPS && *version == Some(Version::V1_2);
        let mut context =
            ReplyContext { job, names: &self.shared.names, rank, nonce, has_tags, other: None };
        let is_due = |exchange: &PendingReply| {
            context.is_due(&exchange.response) && !state.must_wait_for_earlier(exchange)
        };
        let due = state.pending_requests().find(|(_, exchange)| is_due(exchange));
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
                    Some(Event::Signal { job: own, rank, signal: listener.signal.clone()? })
                })
            }
            _ => None,
        };
        match (rest, state.pending.get_mut(at)) {
            (Some(rest), Some(exchange)) => exchange.response = rest,
            _ => drop(state.pending.remove(at)),
        }
        if signal.is_some() {
            state.lifecycle.event = signal;
            self.sessions.push(HAS_EVENT, id);
        }
        Ok(Some(len))
    }
}

/// Moves parts of messages in the inbox that have arrived interleaved. True if the message at the front is
/// another one now, or if the session has failed.
fn reorder<S: Storage, T: Protocol<S>>(session: &mut Of<S, T>, dialect: T::Dialect) -> bool {
    match T::reorder(dialect, session.inbox.as_mut_slice()) {
        Ok(has_moved) => has_moved,
        Err(bad) => {
            T::fail(&mut session.state, (Verb::Unknown, dialect), PeerError::Malformed(bad));
            true
        }
    }
}

/// True if a request may stay in the inbox until the owner has read it.
const HOLDS_REQUESTS: bool = parts::SPAWN || cfg!(feature = "pmix");
