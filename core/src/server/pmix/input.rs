//! Effects of messages of PMIx clients, their output, and the end of their sessions.

use super::context::{PmixEffect, PmixServer};
use super::session::{PendingRequest, PmixResponse};
use super::tables::PmixStorage;
use crate::error::{Full, PeerError};
use crate::ids::{ProcId, SessionId};
use crate::server::member::Phase;
use crate::server::session::SessionPhase;
use crate::server::{Event, Storage};
use crate::storage::Slots;

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Applies the effect of a message to other connections, to sessions and to the owner.
    pub(in crate::server) fn apply_effect(&mut self, id: SessionId, effect: PmixEffect) {
        if let PmixEffect::InvalidGreeting { status, why } = effect {
            return self
                .sessions
                .push_event(id, Event::AdmissionInvalid { session: id, status, why });
        }
        if let PmixEffect::ToolClaimed { user } = effect {
            let event = Event::ToolAdmissionRequested { session: id, user };
            return self.sessions.push_event(id, event);
        }
        let Some(peer) = self.sessions.state(id).and_then(|state| state.protocol.peer) else {
            return;
        };
        let ProcId { job, rank } = peer;
        let event = match effect {
            PmixEffect::Nothing
            | PmixEffect::InvalidGreeting { .. }
            | PmixEffect::ToolClaimed { .. } => return,
            PmixEffect::Claimed { user } => {
                Event::AdmissionRequested { session: id, job, rank, user }
            }
            PmixEffect::Committed => {
                self.note_committed(peer);
                return self.answer_gets(peer);
            }
            PmixEffect::Fetched => Event::ModexRequested { session: id },
            PmixEffect::Published => return self.answer_lookups(),
            PmixEffect::Registered => return self.deliver_cached(id),
            PmixEffect::Happened { at, is_forwarded, stopped_at } => {
                self.deliver(at, Some(id));
                match (is_forwarded, stopped_at) {
                    (true, _) => Event::RequestForwarded { session: id },
                    (false, Some(breakpoint)) => Event::ReadyForDebug { job, rank, breakpoint },
                    (false, None) => return,
                }
            }
            PmixEffect::LeftGroup { at, is_forwarded } => {
                if let Some(at) = at {
                    self.deliver(at, Some(id));
                }
                self.check_collectives();
                if !is_forwarded {
                    return;
                }
                Event::RequestForwarded { session: id }
            }
            PmixEffect::Fenced { is_complete } => {
                if is_complete {
                    self.end_fence(job);
                }
                return self.check_fence(job);
            }
            PmixEffect::Entered(at) => return self.check_collective(at),
            PmixEffect::UnknownJob { nspace } => Event::UnknownJobConnected { job, rank, nspace },
            PmixEffect::Left => {
                self.disconnect(peer, Phase::Finalized);
                return;
            }
            PmixEffect::HostRequest(place) => {
                Event::HostRequest { session: id, exchange: self.number(id, place) }
            }
            PmixEffect::Aborted { code, message } => {
                Event::Aborted { job, rank, code: Some(code), world: true, message }
            }
        };
        self.sessions.push_event(id, event);
    }

    /// Numbers a request for the owner. Session ids and places are reused, so they do not identify it.
    fn number(&mut self, id: SessionId, place: usize) -> usize {
        let asked = &mut self.context.pmix.asked;
        *asked = asked.wrapping_add(1);
        if let Some(state) = self.sessions.state_mut(id)
            && let Some(pending) = state.pending.get_mut(place)
            && let PmixResponse::Host { number, .. } = &mut pending.response
        {
            *number = *asked;
        }
        *asked as usize
    }

    /// Writes the next part of a message, as far as there is room.
    pub(in crate::server) fn transmit(
        &mut self,
        id: SessionId,
        out: &mut [u8],
    ) -> Result<Option<usize>, Full> {
        let state = self.sessions.state(id);
        if state.is_some_and(|state| state.protocol.registrations.is_behind) {
            self.deliver_cached(id);
        }
        match self.sessions.state_mut(id) {
            Some(state) => state.transmit(out),
            None => Ok(None),
        }
    }

    /// Handles the end of the input of a session.
    pub(in crate::server) fn handle_end(&mut self, id: SessionId) -> Result<(), PeerError> {
        match self.leave(id) {
            true => Err(PeerError::LeftEarly),
            false => Ok(()),
        }
    }

    /// Handles the end of the input of a connection. True if the last connection of the rank ended
    /// without FINALIZE.
    pub(super) fn leave(&mut self, id: SessionId) -> bool {
        let Some(state) = self.sessions.state_mut(id) else { return false };
        let was = core::mem::replace(&mut state.lifecycle.phase, SessionPhase::Ended);
        let (Some(peer), true) = (state.protocol.peer, state.protocol.is_admitted) else {
            return false;
        };
        // Pending requests are dropped, and collectives do not count the peer any more.
        let mut next = 0;
        while let Some(state) = self.sessions.state_mut(id)
            && next < state.pending.end()
        {
            if let Some(PendingRequest { response: PmixResponse::Collective { at, .. }, .. }) =
                state.pending.remove(next)
            {
                self.leave_collective(at);
            }
            next += 1;
        }
        let is_early = matches!(was, SessionPhase::Open | SessionPhase::Broken(_));
        is_early && self.disconnect(peer, Phase::Lost)
    }

    /// Counts one connection of a rank less. If it was the last, the rank advances to `phase`.
    fn disconnect(&mut self, peer: ProcId, phase: Phase) -> bool {
        let Some(data) = self.context.pmix.rank_data_mut(peer) else { return false };
        data.sessions = data.sessions.saturating_sub(1);
        let is_last = data.sessions == 0;
        if is_last && let Some(job) = self.common().job_mut(peer.job) {
            job.advance(peer.rank, phase);
        }
        is_last
    }
}
