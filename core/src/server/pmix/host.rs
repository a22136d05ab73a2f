//! Calls of the owner: time, admission of connections, members that are gone, removed jobs, and
//! answers to requests that only the owner can answer.

use super::Pmix;
use super::connection::{ConnPhase, Connection};
use super::event::{ConnectionId, PmixEvent};
use super::response::PmixResponse;
use super::server::{PmixServer, PmixServerRef};
use super::shared_bytes::pack;
use super::storage::PmixStorage;
use crate::error::{Misuse, PeerError};
use crate::ids::{JobId, ProcId, Rank};
use crate::server::Storage;
use crate::server::member::{Member, Phase};
use crate::storage::{Buffer, Slots};
use crate::time::Instant;
use crate::wire::pmix::names::Status;
use crate::wire::pmix::{Format, Packer, Request, Type};

impl<P: PmixStorage, S: Storage> PmixServer<'_, P, S> {
    /// Removes a job, here and in the server, with the committed data of its ranks and their
    /// published data that does not outlive the job.
    ///
    /// # Errors
    ///
    /// [`Misuse::WrongState`] while a session or a connection of the job is open, or a peer claims
    /// one of its ranks, since the next job may get its number. Nothing has changed then. Otherwise
    /// those of [`Server::remove_job`](crate::server::Server::remove_job).
    pub fn remove_job(&mut self, job: JobId) -> Result<(), Misuse> {
        if self.connections.states().any(|state| state.peer.is_some_and(|of| of.job == job)) {
            return Err(Misuse::WrongState { needed: "no connection of the job is open" });
        }
        self.common().remove_job(job)?;
        self.context.remove_published(job, None);
        self.remove_events(job);
        self.context.remove_members(job);
        self.abort_collectives_of(job);
        if let Some(at) = self.context.pmix.place(job) {
            self.context.pmix.namespaces.remove(at);
        }
        Ok(())
    }

    /// The next connection to serve: to transmit, then to hand it an empty input.
    ///
    /// Changes after: any call on any connection or on any session of the server.
    pub fn next_ready(&mut self) -> Option<ConnectionId> {
        self.check_ended_fences();
        if core::mem::take(&mut self.common().has_new_names) {
            self.answer_lookups();
        }
        self.connections.next_ready()
    }

    /// Fails the connections that have not been identified in time, times out requests, and reports
    /// overdue heartbeats.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.common().now = now;
        for id in self.connections.ids() {
            let Some(state) = self.connections.state_mut(id) else { continue };
            if state.deadline.is_some_and(|deadline| deadline <= now) {
                state.fail(PeerError::TimedOut);
                self.connections.wake(id);
            }
            self.expire(id, now);
            self.check_heartbeats(id, now);
        }
    }

    /// Times out the requests of a connection.
    fn expire(&mut self, id: ConnectionId, now: Instant) {
        let mut left = None;
        while let Some((place, job, response)) = self.connections.state(id).and_then(|state| {
            let (place, pending) =
                state.pending_requests().find(|(_, pending)| pending.is_late(now))?;
            Some((place, state.peer?.job, pending.response.clone()))
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
            self.connections.resolve(id, place, PmixResponse::Status(Status::TIMEOUT));
        }
        // A fence queued behind one that has timed out is entered now.
        if let Some(job) = left {
            self.enter_queued(job);
        }
    }

    /// Reports an overdue heartbeat of the peer to the owner.
    fn check_heartbeats(&mut self, id: ConnectionId, now: Instant) {
        let Some(state) = self.connections.state_mut(id) else { return };
        // One event at a time; the owner has not polled the previous one.
        let (Some(ProcId { job, rank }), None) = (state.peer, &state.event) else { return };
        if let Some(late) = state.heartbeats.take_overdue(now) {
            let event = PmixEvent::HeartbeatLost { job, rank, code: late.code, after: late.after };
            self.connections.push_event(id, event);
        }
    }

    /// Admits a peer as the rank that it claims.
    ///
    /// # Errors
    ///
    /// [`Misuse::WrongState`] unless it has claimed to be a rank and waits.
    pub fn admit(&mut self, id: ConnectionId) -> Result<(), Misuse> {
        let waiting = Misuse::WrongState { needed: "the connection waits for acceptance" };
        let state = self.connections.state_mut(id).ok_or(waiting)?;
        let (ConnPhase::Claimed, Some(peer)) = (state.phase, state.peer) else {
            return Err(waiting);
        };
        state.phase = ConnPhase::Open;
        state.deadline = None;
        state.is_admitted = true;
        state.push_welcome(id);
        self.link(id, peer);
        if let Some(data) = self.context.pmix.rank_data_mut(peer) {
            data.connections = data.connections.saturating_add(1);
            data.was_admitted = true;
        }
        if let Some(job) = self.common().job_mut(peer.job) {
            job.set_tolerates_failures(peer.rank);
            job.advance(peer.rank, Phase::Open);
        }
        self.connections.wake(id);
        Ok(())
    }

    /// Removes a connection whose link is closed, and returns its undelivered event.
    pub fn close(&mut self, id: ConnectionId) -> Option<PmixEvent> {
        self.leave(id);
        if let Some(peer) = self.connections.state(id)?.peer {
            self.unlink(id, peer);
        }
        let Connection { state, .. } = self.connections.remove(id)?;
        if let Some(ProcId { job, rank }) = state.peer {
            self.member_gone(job, rank);
        }
        state.event
    }

    /// Answers the requests that wait for a member that is gone. Call it after
    /// [`Server::member_gone`](crate::server::Server::member_gone).
    pub fn member_gone(&mut self, job: JobId, rank: Rank) {
        let gone = ProcId { job, rank };
        if !self.context.view().member(gone).is_some_and(Member::is_gone) {
            return;
        }
        self.fail_gets(gone);
        self.context.remove_published(job, Some(rank));
        self.remove_exited_member(gone);
        self.check_fence(job);
        self.check_collectives();
    }
}

impl<P: PmixStorage, S: Storage> PmixServerRef<'_, P, S> {
    /// True if the last connection of this rank ended without FINALIZE.
    pub fn has_left_early(&self, job: JobId, rank: Rank) -> bool {
        let proc = ProcId { job, rank };
        let was_admitted = self.view.pmix.rank_data(proc).is_some_and(|data| data.was_admitted);
        let member = self.view.member(proc);
        was_admitted && member.is_some_and(|member| member.phase() == Phase::Lost)
    }
}

impl<P: PmixStorage> Pmix<P> {
    /// Rejects a peer with a status.
    pub fn refuse(&mut self, id: ConnectionId, status: Status) {
        if let Some(state) = self.connections.state_mut(id) {
            state.reject(status, PeerError::Unproven);
            self.connections.wake(id);
        }
    }

    /// Lends the request of a connection, until [`request_read`](Self::request_read).
    pub fn request(&self, id: ConnectionId) -> Option<Request<'_>> {
        self.connections.get(id)?.request()
    }

    /// Wire format of a connection.
    pub fn format(&self, id: ConnectionId) -> Option<Format> {
        Some(self.connections.state(id)?.format)
    }

    /// Resumes a connection after the owner has read its request.
    pub fn request_read(&mut self, id: ConnectionId) {
        let Some(Connection { inbox, state }) = self.connections.get_mut(id) else { return };
        if let Some(len) = state.held_len.take() {
            inbox.drop_front(len);
            self.connections.wake(id);
        }
    }

    /// Answers a [`HostRequest`](PmixEvent::HostRequest) with a status and the data that `more` packs.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoSuch`] if the connection does not wait for this answer, or not any more.
    pub fn answer(
        &mut self,
        id: ConnectionId,
        pending: usize,
        status: Status,
        more: impl Fn(&mut Packer<'_>),
    ) -> Result<(), Misuse> {
        let missing = Misuse::NoSuch { what: "request" };
        let state = self.connections.state(id).ok_or(missing)?;
        let place = state.host_request(pending).ok_or(missing)?;
        let body = pack(state.format, |to| {
            to.one(Type::STATUS).i32(status.0);
            more(to);
        });
        self.connections.resolve(id, place, PmixResponse::body(body));
        Ok(())
    }
}
