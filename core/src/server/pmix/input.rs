//! Input of connections, its effects, and their end.

use super::UnfinishedLimits;
use super::connection::{ConnPhase, ConnReadState, Connection, PendingRequest, PmixResponse};
use super::state::{self, PmixContext, PmixEffect};
use super::{ConnectionId, Pmix, PmixEvent, PmixStorage, event_link, namespace};
use crate::error::PeerError;
use crate::ids::{JobId, ProcId, Rank};
use crate::server::member::Phase;
use crate::server::{Server, Storage};
use crate::storage::{Buffer, Slots};
use crate::time::Instant;
use crate::wire::Framed;
use crate::wire::pmix::greeting::Greeting;
use crate::wire::pmix::header::Header;

impl<P: PmixStorage> Pmix<P> {
    /// Handles as many messages as the connection accepts, and holds an incomplete next one. Bytes
    /// that it does not accept yet are left to the caller, which stops reading: the server holds
    /// nothing that could as well wait in the peer.
    pub(super) fn receive<S: Storage>(
        &mut self,
        id: ConnectionId,
        server: &mut Server<S>,
        now: Instant,
        bytes: &[u8],
    ) -> Result<usize, PeerError> {
        server.now = now;
        let mut rest = bytes;
        loop {
            let taken = bytes.len() - rest.len();
            let Some(connection) = self.connections.get_mut(id.0 as usize) else {
                return Ok(bytes.len());
            };
            match (connection.state.read_state(), connection.state.phase) {
                (ConnReadState::Discard, ConnPhase::Broken(error)) => return Err(error),
                (ConnReadState::Discard, _) => return Ok(bytes.len()),
                (ConnReadState::Paused, _) => return Ok(taken),
                (ConnReadState::Accept, _) => {}
            }
            let is_held = !connection.inbox.as_slice().is_empty();
            let source = if is_held { connection.inbox.as_slice() } else { rest };
            let framed = match connection.state.phase {
                ConnPhase::Greeting => Greeting::frame(source),
                _ => Ok(Header::frame(source)),
            };
            match framed {
                Ok(Framed::Whole(len)) => {
                    let effect = self.handle_message(id, server, now, (rest, is_held, len))?;
                    if !is_held {
                        rest = rest.get(len..).unwrap_or(b"");
                    }
                    self.apply_effect(id, server, effect);
                }
                Ok(Framed::Partial) if rest.is_empty() => return Ok(bytes.len()),
                Ok(Framed::Partial) => {
                    // Only the missing bytes: further ones would have to be moved repeatedly.
                    let lacks = connection.missing_bytes().min(rest.len());
                    let len = connection.hold(rest.get(..lacks).unwrap_or(b""));
                    rest = rest.get(len..).unwrap_or(b"");
                    // A message that will never fit is not worth waiting for.
                    if len == 0 || connection.is_beyond_inbox() {
                        let limit_bytes =
                            connection.inbox.as_slice().len() + connection.inbox.room();
                        return Err(connection
                            .state
                            .fail(PeerError::MessageTooLong { limit_bytes }));
                    }
                    if let Some(limit_bytes) = self.exceeded(id)
                        && let Some(connection) = self.connections.get_mut(id.0 as usize)
                    {
                        let error = PeerError::UnfinishedTooLong { limit_bytes };
                        return Err(connection.state.fail(error));
                    }
                }
                Err(bad) => return Err(connection.state.fail(PeerError::Malformed(bad))),
            }
        }
    }

    /// The limit that all unfinished messages together exceed, if this connection has a share in that.
    fn exceeded(&self, id: ConnectionId) -> Option<usize> {
        let UnfinishedLimits { rank_bytes, all_bytes } = self.unfinished;
        let own = self.connections.get(id.0 as usize)?;
        // Looking at all takes time, and short messages are no share worth it.
        if own.inbox.as_slice().len() <= UNCOUNTED_BYTES.min(rank_bytes / 2) {
            return None;
        }
        let (mut of_rank, mut of_all) = (0_usize, 0_usize);
        for at in 0..self.connections.end() {
            let Some(Connection { inbox, state }) = self.connections.get(at) else { continue };
            let held = inbox.as_slice().len();
            of_all = of_all.saturating_add(held);
            if state.peer.is_some() && state.peer == own.state.peer {
                of_rank = of_rank.saturating_add(held);
            }
        }
        match (of_rank > rank_bytes, of_all > all_bytes) {
            (true, _) => Some(rank_bytes),
            (_, true) => Some(all_bytes),
            _ => None,
        }
    }

    /// Handles the message of `len` bytes at the front of the inbox, or of `rest`.
    fn handle_message<S: Storage>(
        &mut self,
        id: ConnectionId,
        server: &mut Server<S>,
        now: Instant,
        (rest, is_held, len): (&[u8], bool, usize),
    ) -> Result<PmixEffect, PeerError> {
        let Self { connections, jobs, collectives, names, events, groups, .. } = self;
        let Some(connection) = connections.get_mut(id.0 as usize) else {
            return Ok(PmixEffect::Nothing);
        };
        let Connection { inbox, state } = connection;
        let fresh = rest.get(..len).unwrap_or(b"");
        let message = if is_held { inbox.as_slice().get(..len).unwrap_or(b"") } else { fresh };
        let mut context =
            PmixContext::<P, S> { jobs, collectives, names, events, groups, server, now };
        let effect = state::handle_message(state, &mut context, message);
        if let Ok(PmixEffect::Asked(_)) = effect {
            if !is_held && inbox.extend(fresh).is_err() {
                let limit_bytes = inbox.room();
                return Err(state.fail(PeerError::MessageTooLong { limit_bytes }));
            }
            state.held_len = Some(len);
        } else if is_held {
            inbox.drop_front(len);
        }
        effect
    }

    /// Applies the effect of a message to other connections and to the owner.
    fn apply_effect<S: Storage>(
        &mut self,
        id: ConnectionId,
        server: &mut Server<S>,
        effect: PmixEffect,
    ) {
        let Some(Connection { state, .. }) = self.connections.get(id.0 as usize) else { return };
        if let PmixEffect::Doubted { status, why } = effect {
            return self
                .push_event(id, PmixEvent::AdmissionInvalid { connection: id, status, why });
        }
        let Some(ProcId { job, rank }) = state.peer else { return };
        let event = match effect {
            PmixEffect::Nothing | PmixEffect::Doubted { .. } => return,
            PmixEffect::Claimed { user } => {
                PmixEvent::AdmissionRequested { connection: id, job, rank, user }
            }
            PmixEffect::Committed => return self.answer_gets(ProcId { job, rank }, server),
            PmixEffect::Published => return self.answer_lookups(server),
            PmixEffect::Registered => return self.deliver_cached(id, server),
            PmixEffect::Happened(at) => return self.deliver(at, Some(id), server),
            PmixEffect::LeftGroup(happened) => {
                if let Some(at) = happened {
                    self.deliver(at, Some(id), server);
                }
                return self.check_collectives(server);
            }
            PmixEffect::Fenced => return self.check_fence(job, server),
            PmixEffect::Entered(at) => return self.check_collective(at, server),
            PmixEffect::Left => {
                self.unlink(job, rank, Phase::Finalized, server);
                return;
            }
            PmixEffect::Asked(place) => {
                PmixEvent::HostRequest { connection: id, pending: self.number(id, place) }
            }
            PmixEffect::Aborted { code, message } => {
                PmixEvent::Aborted { job, rank, code, message }
            }
        };
        self.push_event(id, event);
    }

    fn push_event(&mut self, id: ConnectionId, event: PmixEvent) {
        if let Some(Connection { state, .. }) = self.connections.get_mut(id.0 as usize) {
            state.event = Some(event);
        }
        self.events_queue.push(&mut self.connections, id.0, event_link::<P>);
    }

    /// Numbers a request for the owner. Connection ids and places are reused, so they do not
    /// identify it.
    fn number(&mut self, id: ConnectionId, place: usize) -> usize {
        self.asked = self.asked.wrapping_add(1);
        let connection = self.connections.get_mut(id.0 as usize);
        if let Some(waits) = connection.and_then(|found| found.state.pending.get_mut(place)) {
            waits.response = PmixResponse::Host(self.asked);
        }
        self.asked as usize
    }

    /// Handles the end of the input of a connection. True if the last connection of the rank ended
    /// without FINALIZE.
    pub(super) fn leave<S: Storage>(&mut self, id: ConnectionId, server: &mut Server<S>) -> bool {
        let Some(Connection { state, .. }) = self.connections.get_mut(id.0 as usize) else {
            return false;
        };
        let was = core::mem::replace(&mut state.phase, ConnPhase::Ended);
        let (Some(ProcId { job, rank }), true) = (state.peer, state.is_admitted) else {
            return false;
        };
        // Pending requests are dropped, and collectives do not count the peer any more.
        let mut next = 0;
        while let Some(Connection { state, .. }) = self.connections.get_mut(id.0 as usize)
            && next < state.pending.end()
        {
            if let Some(PendingRequest { response: PmixResponse::Collective { at, .. }, .. }) =
                state.pending.remove(next)
            {
                self.leave_collective(at);
            }
            next += 1;
        }
        let is_early = matches!(was, ConnPhase::Open | ConnPhase::Broken(_));
        is_early && self.unlink(job, rank, Phase::Lost, server)
    }

    /// Removes one connection of a rank. If it was the last, the rank advances to `phase`.
    fn unlink<S: Storage>(
        &mut self,
        job: JobId,
        rank: Rank,
        phase: Phase,
        server: &mut Server<S>,
    ) -> bool {
        let Some(rank_data) = namespace::rank_data_mut(&mut self.jobs, job, rank) else {
            return false;
        };
        rank_data.connections = rank_data.connections.saturating_sub(1);
        let is_last = rank_data.connections == 0;
        if is_last && let Some(of) = server.jobs.get_mut(job.0 as usize) {
            of.advance(rank, phase);
        }
        is_last
    }
}

impl<B, I: Buffer, X> Connection<B, I, X> {
    /// Number of bytes missing to the end of the held message, or of its header. A greeting is held
    /// with all bytes that arrive with it.
    fn missing_bytes(&self) -> usize {
        let held = self.inbox.as_slice();
        let whole = match (self.state.phase, Header::read(held)) {
            (ConnPhase::Greeting, _) => return usize::MAX,
            (_, None) => Header::BYTES,
            (_, Some(header)) => Header::BYTES.saturating_add(header.body_bytes as usize),
        };
        whole.saturating_sub(held.len())
    }

    /// True if the message at the front announces more bytes than the inbox can hold.
    fn is_beyond_inbox(&self) -> bool {
        let held = self.inbox.as_slice();
        let whole = Header::read(held).map_or(0, |header| header.body_bytes as usize);
        self.state.phase != ConnPhase::Greeting
            && whole.saturating_add(Header::BYTES) > held.len() + self.inbox.room()
    }
}

/// A connection that holds less does not exceed a limit alone.
const UNCOUNTED_BYTES: usize = 64 << 10;
