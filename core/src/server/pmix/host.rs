//! Events and calls of the owner: admission of connections, and requests that only the owner can
//! answer.

use super::connection::{ConnPhase, Connection, PmixResponse};
use super::shared_bytes::pack;
use super::{ConnectionId, Pmix, PmixStorage, event_link, namespace, ready_link};
use crate::error::{Misuse, PeerError};
use crate::ids::{Excerpt, JobId, ProcId, Rank};
use crate::server::member::{Member, Phase};
use crate::server::{Server, Storage};
use crate::storage::{Buffer, Slots};
use crate::time::Duration;
use crate::wire::pmix::header::Header;
use crate::wire::pmix::names::Status;
use crate::wire::pmix::{Format, Packer, Request, Type, Unpacker};

/// Event for the owner of PMIx sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PmixEvent {
    /// A peer claims a rank, which the protocol does not prove. Verify the claim and call
    /// [`Pmix::admit`] or [`Pmix::refuse`]; the peer waits for that.
    AdmissionRequested {
        /// The connection.
        connection: ConnectionId,
        /// Job of the claimed rank.
        job: JobId,
        /// Claimed rank.
        rank: Rank,
        /// The user that the peer claims to run as, if any.
        user: Option<u32>,
    },
    /// An invalid greeting. Call [`Pmix::refuse`] with this status; the peer waits for that.
    AdmissionInvalid {
        /// The connection.
        connection: ConnectionId,
        /// Status for the peer.
        status: Status,
        /// Cause of the rejection.
        why: PeerError,
    },
    /// A rank aborts its job. Its request is already answered.
    Aborted {
        /// Its job.
        job: JobId,
        /// The rank.
        rank: Rank,
        /// Exit code requested for the job.
        code: i32,
        /// Message of the rank.
        message: Excerpt,
    },
    /// No heartbeat of a rank within the interval that it requested.
    HeartbeatLost {
        /// Its job.
        job: JobId,
        /// The rank.
        rank: Rank,
        /// Code of the event for other processes.
        code: Status,
        /// Length of the interval.
        after: Duration,
    },
    /// A request that only the owner can answer: read [`Pmix::request`], then call
    /// [`Pmix::request_read`], and [`Pmix::answer`] with the result.
    HostRequest {
        /// The connection.
        connection: ConnectionId,
        /// Number of the request, to be passed back with the answer.
        pending: usize,
    },
}

impl<P: PmixStorage> Pmix<P> {
    /// Admits a peer as the rank that it claims.
    ///
    /// # Errors
    ///
    /// [`Misuse::WrongState`] unless it has claimed to be a rank and waits.
    pub fn admit<S: Storage>(
        &mut self,
        id: ConnectionId,
        server: &mut Server<S>,
    ) -> Result<(), Misuse> {
        let waiting = Misuse::WrongState { needed: "the caller waits to be let in" };
        let Some(Connection { state, .. }) = self.connections.get_mut(id.0 as usize) else {
            return Err(waiting);
        };
        let (ConnPhase::Claimed, Some(ProcId { job, rank })) = (state.phase, state.peer) else {
            return Err(waiting);
        };
        state.phase = ConnPhase::Open;
        state.deadline = None;
        state.is_admitted = true;
        state.push_welcome(id);
        if let Some(rank_data) = namespace::rank_data_mut(&mut self.jobs, job, rank) {
            rank_data.connections = rank_data.connections.saturating_add(1);
            rank_data.has_spoken = true;
        }
        if let Some(job) = server.jobs.get_mut(job.0 as usize) {
            job.set_tolerates_failures(rank);
            job.advance(rank, Phase::Open);
        }
        self.ready.push(&mut self.connections, id.0, ready_link::<P>);
        Ok(())
    }

    /// Rejects a peer with a status.
    pub fn refuse(&mut self, id: ConnectionId, status: Status) {
        if let Some(Connection { state, .. }) = self.connections.get_mut(id.0 as usize) {
            state.reject(status, PeerError::Unproven);
            self.ready.push(&mut self.connections, id.0, ready_link::<P>);
        }
    }

    /// Removes a connection whose link is closed, and returns its undelivered event.
    pub fn close<S: Storage>(
        &mut self,
        id: ConnectionId,
        server: &mut Server<S>,
    ) -> Option<PmixEvent> {
        self.leave(id, server);
        self.ready.remove(&mut self.connections, id.0, ready_link::<P>);
        self.events_queue.remove(&mut self.connections, id.0, event_link::<P>);
        let Connection { state, .. } = self.connections.remove(id.0 as usize)?;
        if let Some(ProcId { job, rank }) = state.peer {
            self.member_gone(job, rank, server);
        }
        state.event
    }

    /// Answers the requests that wait for a member that is gone. Call it after
    /// [`Server::member_gone`].
    pub fn member_gone<S: Storage>(&mut self, job: JobId, rank: Rank, server: &mut Server<S>) {
        if !server.job(job).and_then(|job| job.member(rank)).is_some_and(Member::is_gone) {
            return;
        }
        self.fail_gets(job, rank);
        self.remove_published(job, Some(rank), server);
        self.remove_exited_member(ProcId { job, rank }, server);
        self.check_fence(job, server);
        self.check_collectives(server);
    }

    /// Lends the request of a connection, until [`request_read`](Self::request_read).
    pub fn request(&self, id: ConnectionId) -> Option<Request<'_>> {
        let Connection { inbox, state } = self.connections.get(id.0 as usize)?;
        let message = inbox.as_slice().get(..state.held_len?)?;
        let body = message.get(Header::BYTES..)?;
        Request::read(Unpacker::new(body, state.format)).ok()
    }

    /// Wire format of a connection.
    pub fn format(&self, id: ConnectionId) -> Option<Format> {
        Some(self.connections.get(id.0 as usize)?.state.format)
    }

    /// Resumes a connection after the owner has read its request.
    pub fn request_read(&mut self, id: ConnectionId) {
        let Some(Connection { inbox, state }) = self.connections.get_mut(id.0 as usize) else {
            return;
        };
        if let Some(len) = state.held_len.take() {
            inbox.drop_front(len);
            self.ready.push(&mut self.connections, id.0, ready_link::<P>);
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
        let connection = self.connections.get_mut(id.0 as usize).ok_or(missing)?;
        let state = &mut connection.state;
        let format = state.format;
        let place = state.host_request(pending).ok_or(missing)?;
        let body = pack(format, |to| {
            to.one(Type::STATUS).i32(status.0);
            more(to);
        });
        state.resolve(place, body.map_or(PmixResponse::Status(Status::NOMEM), PmixResponse::Body));
        self.ready.push(&mut self.connections, id.0, ready_link::<P>);
        Ok(())
    }
}
