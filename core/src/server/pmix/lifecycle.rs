//! Course of a session: effects of its messages on others, its output, its deadlines, and its end.

use super::context::{PmixEffect, PmixServer, PmixServerRef};
use super::publish::EndedPublisher;
use super::session::{PendingRequest, PmixResponse};
use super::state::PmixFraming;
use super::tables::{PmixPeerStateOf, PmixStorage};
use crate::error::{Full, PeerError};
use crate::ids::{JobId, ProcId, Rank, SessionId};
use crate::server::member::{Member, Phase};
use crate::server::session::{Session, SessionPhase};
use crate::server::{Event, Server, Storage};
use crate::storage::Slots;
use crate::time::Instant;
use crate::wire::pmix::names::Status;

impl<P: PmixStorage, S: Storage<Pmix = P>> Server<S> {
    /// Handles the deadlines of PMIx clients; see [`handle_timeout`](Self::handle_timeout).
    pub(in crate::server) fn handle_pmix_timeout(&mut self, now: Instant) {
        self.shared.now = now;
        for id in self.sessions.pmix_ids() {
            self.check_deadline::<PmixPeerStateOf<P>>(id, now, PmixFraming::Greeting);
            self.pmix().expire(id, now);
            self.pmix().check_heartbeats(id, now);
        }
    }
}

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
        let asked = &mut self.shared.pmix.asked;
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
        let Some(data) = self.shared.pmix.rank_data_mut(peer) else { return false };
        data.sessions = data.sessions.saturating_sub(1);
        let is_last = data.sessions == 0;
        if is_last && let Some(job) = self.shared.job_mut(peer.job) {
            job.advance(peer.rank, phase);
        }
        is_last
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Times out the requests of a session.
    fn expire(&mut self, id: SessionId, now: Instant) {
        let mut left = None;
        while let Some((place, job, response)) = self.sessions.state(id).and_then(|state| {
            let (place, pending) =
                state.pending_requests().find(|(_, pending)| pending.is_late(now))?;
            Some((place, state.protocol.peer?.job, pending.response.clone()))
        }) {
            match response {
                PmixResponse::Fence { .. } => {
                    self.expire_fence(job);
                    left = Some(job);
                }
                PmixResponse::QueuedFence { .. } => left = Some(job),
                PmixResponse::Collective { at, .. } => self.end_collective(at, Status::TIMEOUT),
                _ => {}
            }
            // This includes requests whose collective is gone.
            self.sessions.resolve(id, place, PmixResponse::Status(Status::TIMEOUT));
        }
        // A fence queued behind one that has timed out is entered now.
        if let Some(job) = left {
            self.enter_queued(job);
        }
    }

    /// Reports an overdue heartbeat of the peer to the owner.
    fn check_heartbeats(&mut self, id: SessionId, now: Instant) {
        let Some(state) = self.sessions.state_mut(id) else { return };
        // One event at a time; the owner has not polled the previous one.
        let (Some(ProcId { job, rank }), None) = (state.protocol.peer, &state.lifecycle.event)
        else {
            return;
        };
        if let Some(late) = state.protocol.heartbeats.take_overdue(now) {
            let event = Event::HeartbeatLost { job, rank, code: late.code, after: late.after };
            self.sessions.push_event(id, event);
        }
    }

    /// Removes a session whose link is closed, and returns its undelivered event.
    pub(in crate::server) fn close(&mut self, id: SessionId) -> Option<Event> {
        self.leave(id);
        if let Some(peer) = self.sessions.state(id)?.protocol.peer {
            self.unlink(id, peer);
        }
        let Session { state, .. } = self.sessions.remove_pmix(id)?;
        if let Some(ProcId { job, rank }) = state.protocol.peer {
            self.member_gone(job, rank);
        }
        state.lifecycle.event
    }

    /// Answers the requests that wait for a member that is gone.
    pub(in crate::server) fn member_gone(&mut self, job: JobId, rank: Rank) {
        let gone = ProcId { job, rank };
        if !self.shared.member(gone).is_some_and(Member::is_gone) {
            return;
        }
        self.note_committed(gone);
        self.fail_gets(gone);
        self.shared.remove_published(EndedPublisher::Process(gone));
        self.remove_exited_member(gone);
        self.check_fence(job);
        self.check_collectives();
    }
}

impl<'a, P: PmixStorage, S: Storage<Pmix = P>> PmixServerRef<'a, P, S> {
    /// Deadlines of the sessions.
    pub(in crate::server) fn deadlines(self) -> impl Iterator<Item = Instant> + use<'a, P, S> {
        let states = self.sessions.states().filter(|_| P::ENABLED);
        states.filter_map(|state| state.deadline())
    }
}
