//! What an owner is told of, and what it says: who is let in, and how requests are answered that only it
//! can do.

use super::connection::{ConnPhase, Connection, PmixResponse};
use super::shared_bytes::pack;
use super::{ConnectionId, Pmix, PmixStorage, event_link, namespace, ready_link};
use crate::error::{Misuse, PeerError};
use crate::ids::{Excerpt, JobId, Rank};
use crate::server::member::{Member, Phase};
use crate::server::{Server, Storage};
use crate::storage::{Buffer, Slots};
use crate::time::Duration;
use crate::wire::pmix::header::Header;
use crate::wire::pmix::names::Status;
use crate::wire::pmix::{Format, Packer, Request, Type, Unpacker};

/// What an owner must know or do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PmixEvent {
    /// Somebody claims to be a rank, which the protocol does not prove. Find out whether it is, and
    /// call [`Pmix::admit`] or [`Pmix::refuse`]; it waits for that.
    AdmissionRequested {
        /// The connection.
        connection: ConnectionId,
        /// The job it claims to be of.
        job: JobId,
        /// The rank it claims to be.
        rank: Rank,
        /// The user it claims to run as, if it says so.
        user: Option<u32>,
    },
    /// Somebody says what cannot be. Call [`Pmix::refuse`] with this status; it waits for that.
    AdmissionInvalid {
        /// The connection.
        connection: ConnectionId,
        /// What to tell it.
        status: Status,
        /// What it did.
        why: PeerError,
    },
    /// A rank wants processes to end. The answer is on its way.
    Aborted {
        /// Its job.
        job: JobId,
        /// The rank.
        rank: Rank,
        /// The exit code it wants the job to have.
        code: i32,
        /// What it says.
        message: Excerpt,
    },
    /// A rank has not been heard for as long as it wanted to be watched for.
    HeartbeatLost {
        /// Its job.
        job: JobId,
        /// The rank.
        rank: Rank,
        /// What it wants others to be told then.
        code: Status,
        /// How long it was not heard.
        after: Duration,
    },
    /// A rank asks for something that only the owner can do: read [`Pmix::request`], then call
    /// [`Pmix::request_read`], and [`Pmix::answer`] when it is done.
    HostRequest {
        /// The connection.
        connection: ConnectionId,
        /// Numbers the requests that only the owner can answer; to be given back with the answer.
        pending: usize,
    },
}

impl<P: PmixStorage> Pmix<P> {
    /// Lets a caller in.
    ///
    /// Errors: [`Misuse::WrongState`] unless it has claimed to be a rank and waits.
    pub fn admit<S: Storage>(
        &mut self,
        id: ConnectionId,
        server: &mut Server<S>,
    ) -> Result<(), Misuse> {
        let waiting = Misuse::WrongState { needed: "the caller waits to be let in" };
        let Some(Connection { state, .. }) = self.connections.get_mut(id.0 as usize) else {
            return Err(waiting);
        };
        let (ConnPhase::Claimed, Some((job, rank))) = (state.phase, state.peer) else {
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

    /// Sends a caller away with a status.
    pub fn refuse(&mut self, id: ConnectionId, status: Status) {
        if let Some(Connection { state, .. }) = self.connections.get_mut(id.0 as usize) {
            state.reject(status, PeerError::Unproven);
            self.ready.push(&mut self.connections, id.0, ready_link::<P>);
        }
    }

    /// Forgets a connection whose link is closed, and gives what it had not told its owner yet.
    pub fn close<S: Storage>(
        &mut self,
        id: ConnectionId,
        server: &mut Server<S>,
    ) -> Option<PmixEvent> {
        self.leave(id, server);
        self.ready.remove(&mut self.connections, id.0, ready_link::<P>);
        self.events_queue.remove(&mut self.connections, id.0, event_link::<P>);
        let Connection { state, .. } = self.connections.remove(id.0 as usize)?;
        if let Some((job, rank)) = state.peer {
            self.member_gone(job, rank, server);
        }
        state.event
    }

    /// Looks again at what waits for a member that may be gone. Call it after
    /// [`Server::member_gone`].
    pub fn member_gone<S: Storage>(&mut self, job: JobId, rank: Rank, server: &mut Server<S>) {
        if !server.job(job).and_then(|job| job.member(rank)).is_some_and(Member::is_gone) {
            return;
        }
        self.fail_gets(job, rank);
        self.remove_published(job, Some(rank), server);
        self.remove_exited_member((job, rank), server);
        self.check_fence(job, server);
        self.check_collectives(server);
    }

    /// Lends the request that a connection has asked with, until
    /// [`request_read`](Self::request_read).
    pub fn request(&self, id: ConnectionId) -> Option<Request<'_>> {
        let Connection { inbox, state } = self.connections.get(id.0 as usize)?;
        let message = inbox.as_slice().get(..state.held_len?)?;
        let body = message.get(Header::BYTES..)?;
        Request::read(Unpacker::new(body, state.format)).ok()
    }

    /// How a connection packs values, and takes them.
    pub fn format(&self, id: ConnectionId) -> Option<Format> {
        Some(self.connections.get(id.0 as usize)?.state.format)
    }

    /// Lets a connection go on with other requests.
    pub fn request_read(&mut self, id: ConnectionId) {
        let Some(Connection { inbox, state }) = self.connections.get_mut(id.0 as usize) else {
            return;
        };
        if let Some(len) = state.held_len.take() {
            inbox.drop_front(len);
            self.ready.push(&mut self.connections, id.0, ready_link::<P>);
        }
    }

    /// Answers a request that was [`HostRequest`](Event::Asked): a status, and what `more` packs behind it.
    ///
    /// Errors: [`Misuse::NoSuch`] if the connection does not wait for this answer, or not any more.
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
