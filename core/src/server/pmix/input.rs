//! Input of connections, its effects, and their end.

use super::connection::{ConnPhase, ConnReadState, Connection};
use super::context::PmixEffect;
use super::event::{ConnectionId, PmixEvent};
use super::response::{PendingRequest, PmixResponse};
use super::server::PmixServer;
use super::state;
use super::storage::PmixStorage;
use crate::error::PeerError;
use crate::ids::ProcId;
use crate::server::Storage;
use crate::server::member::Phase;
use crate::storage::{Buffer, Slots};
use crate::time::Instant;
use crate::wire::Framed;
use crate::wire::pmix::greeting::Greeting;
use crate::wire::pmix::header::Header;

impl<P: PmixStorage, S: Storage> PmixServer<'_, P, S> {
    /// Handles as many messages as the connection accepts, and holds an incomplete next one. Bytes
    /// that it does not accept yet are left to the caller, which stops reading: the server holds
    /// nothing that could as well wait in the peer.
    pub(super) fn receive(
        &mut self,
        id: ConnectionId,
        now: Instant,
        bytes: &[u8],
    ) -> Result<usize, PeerError> {
        self.common().now = now;
        let mut rest = bytes;
        loop {
            let taken = bytes.len() - rest.len();
            let Some(connection) = self.connections.get_mut(id) else { return Ok(bytes.len()) };
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
                    let effect = self.handle_message(id, rest, is_held, len)?;
                    if !is_held {
                        rest = rest.get(len..).unwrap_or(b"");
                    }
                    self.apply_effect(id, effect);
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
                    if let Some(limit_bytes) = self.connections.exceeded(id)
                        && let Some(state) = self.connections.state_mut(id)
                    {
                        return Err(state.fail(PeerError::UnfinishedTooLong { limit_bytes }));
                    }
                }
                Err(bad) => return Err(connection.state.fail(PeerError::Malformed(bad))),
            }
        }
    }

    /// Handles the message of `len` bytes at the front of the inbox, or of `rest`.
    fn handle_message(
        &mut self,
        id: ConnectionId,
        rest: &[u8],
        is_held: bool,
        len: usize,
    ) -> Result<PmixEffect, PeerError> {
        let Some(Connection { inbox, state }) = self.connections.get_mut(id) else {
            return Ok(PmixEffect::Nothing);
        };
        let fresh = rest.get(..len).unwrap_or(b"");
        let message = if is_held { inbox.as_slice().get(..len).unwrap_or(b"") } else { fresh };
        let effect = state::handle_message(state, &mut self.context, message);
        if let Ok(PmixEffect::HostRequest(_)) = effect {
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

    /// Applies the effect of a message to other connections, to sessions and to the owner.
    fn apply_effect(&mut self, id: ConnectionId, effect: PmixEffect) {
        if let PmixEffect::InvalidGreeting { status, why } = effect {
            let event = PmixEvent::AdmissionInvalid { connection: id, status, why };
            return self.connections.push_event(id, event);
        }
        let Some(peer) = self.connections.state(id).and_then(|state| state.peer) else { return };
        let ProcId { job, rank } = peer;
        let event = match effect {
            PmixEffect::Nothing | PmixEffect::InvalidGreeting { .. } => return,
            PmixEffect::Claimed { user } => {
                PmixEvent::AdmissionRequested { connection: id, job, rank, user }
            }
            PmixEffect::Committed => return self.answer_gets(peer),
            PmixEffect::Published => return self.answer_lookups(),
            PmixEffect::Registered => return self.deliver_cached(id),
            PmixEffect::Happened(at) => return self.deliver(at, Some(id)),
            PmixEffect::LeftGroup(happened) => {
                if let Some(at) = happened {
                    self.deliver(at, Some(id));
                }
                return self.check_collectives();
            }
            PmixEffect::Fenced { is_complete } => {
                if is_complete {
                    self.end_fence(job);
                }
                return self.check_fence(job);
            }
            PmixEffect::Entered(at) => return self.check_collective(at),
            PmixEffect::Left => {
                self.disconnect(peer, Phase::Finalized);
                return;
            }
            PmixEffect::HostRequest(place) => {
                let pending = self.connections.number(id, place);
                PmixEvent::HostRequest { connection: id, pending }
            }
            PmixEffect::Aborted { code, message } => {
                PmixEvent::Aborted { job, rank, code, message }
            }
        };
        self.connections.push_event(id, event);
    }

    /// Handles the end of the input of a connection. True if the last connection of the rank ended
    /// without FINALIZE.
    pub(super) fn leave(&mut self, id: ConnectionId) -> bool {
        let Some(state) = self.connections.state_mut(id) else { return false };
        let was = core::mem::replace(&mut state.phase, ConnPhase::Ended);
        let (Some(peer), true) = (state.peer, state.is_admitted) else { return false };
        // Pending requests are dropped, and collectives do not count the peer any more.
        let mut next = 0;
        while let Some(state) = self.connections.state_mut(id)
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
        is_early && self.disconnect(peer, Phase::Lost)
    }

    /// Counts one connection of a rank less. If it was the last, the rank advances to `phase`.
    fn disconnect(&mut self, peer: ProcId, phase: Phase) -> bool {
        let Some(data) = self.context.pmix.rank_data_mut(peer) else { return false };
        data.connections = data.connections.saturating_sub(1);
        let is_last = data.connections == 0;
        if is_last && let Some(job) = self.common().job_mut(peer.job) {
            job.advance(peer.rank, phase);
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
