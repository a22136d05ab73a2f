//! Host interface: calls of the owner about jobs, answers to requests that only the owner can answer,
//! and output for clients.

use super::context::{PmixServer, PmixServerRef};
use super::namespace::Namespace;
use super::publish::EndedPublisher;
use super::session::{PmixPeerState, PmixResponse, UnfinishedLimits};
use super::shared_bytes::{copy_bytes, pack};
use super::tables::{PendingOf, PmixStorage, RanksOf};
use crate::error::Misuse;
use crate::ids::{JobId, ProcId, Rank, SessionId};
use crate::server::member::Phase;
use crate::server::session::{Session, SessionPhase};
use crate::server::session_table::READY;
use crate::server::{Event, Server, Storage};
use crate::storage::Slots;
use crate::time::Instant;
use crate::wire::pmix::header::TAG_OUTPUT;
use crate::wire::pmix::names::Status;
use crate::wire::pmix::{Format, Packer, Proc, Request, Type};

/// Output of a process, for one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardedOutput<'a> {
    /// The process that has written it.
    pub source: Proc<'a>,
    /// The stream: a bit of [`channel`](crate::wire::pmix::names::channel).
    pub channel: u16,
    /// Number of the request at the client.
    pub reference: u64,
    /// The output; empty at its end.
    pub bytes: &'a [u8],
}

impl<P: PmixStorage, S: Storage<Pmix = P>> Server<S> {
    /// The next event of PMIx clients that is no event of a session.
    pub(in crate::server) fn next_pmix_event(&mut self) -> Option<Event> {
        self.pmix().take_collective_event().or_else(|| self.pmix().take_modex_event())
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Limits what inboxes hold together from now on. A session that exceeds a limit ends with
    /// [`UnfinishedTooLong`](crate::error::PeerError::UnfinishedTooLong).
    pub const fn limit_unfinished(&mut self, limits: UnfinishedLimits) {
        self.sessions.unfinished = limits;
    }

    /// Lets PMIx clients into a job of the server. `info` is the job description: KVALs as they
    /// stand behind the namespace in the answer to REQ, in [`Format::PLAIN`]. `posts` has an element for each
    /// member of the job, with the same ranks.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoRoom`] if there is no slot for the job.
    pub fn add_job(&mut self, job: JobId, info: P::Bytes, posts: RanksOf<P>) -> Result<(), Misuse> {
        let namespace = Namespace::new(job, info, posts);
        let added = self.shared.pmix.namespaces.insert(namespace);
        added.map(drop).ok_or(Misuse::NoRoom { what: "job" })
    }

    /// Opens the session of a peer, which must identify itself until `deadline`.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoRoom`] if there is no slot for the session.
    pub fn open(
        &mut self,
        inbox: P::Inbox,
        pending: PendingOf<P>,
        deadline: Option<Instant>,
    ) -> Result<SessionId, Misuse> {
        let session = Session::new(inbox, pending, deadline, PmixPeerState::new());
        self.sessions.insert_pmix(session).ok_or(Misuse::NoRoom { what: "session" })
    }

    /// Removes a job; see [`Server::remove_job`](crate::server::Server::remove_job).
    pub(in crate::server) fn remove_job(&mut self, job: JobId) -> Result<(), Misuse> {
        if self.sessions.states().any(|state| state.protocol.peer.is_some_and(|of| of.job == job)) {
            return Err(Misuse::WrongState { needed: "no connection of the job is open" });
        }
        self.shared.remove_job(job)?;
        self.shared.remove_published(EndedPublisher::Job(job));
        self.remove_events(job);
        self.shared.remove_members(job);
        self.abort_collectives_of(job);
        if let Some(at) = self.shared.pmix.place(job) {
            self.shared.pmix.namespaces.remove(at);
        }
        Ok(())
    }

    /// Resumes a session after the owner has read its request.
    pub fn request_read(&mut self, id: SessionId) {
        if self.sessions.pmix_mut(id).is_some_and(Session::drop_held) {
            self.sessions.push(READY, id);
        }
    }

    /// Answers a [`HostRequest`](Event::HostRequest) with a status and the data that `more` packs.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoSuch`] if the session does not wait for this answer, or not any more.
    pub fn answer(
        &mut self,
        id: SessionId,
        pending: usize,
        status: Status,
        more: impl Fn(&mut Packer<'_>),
    ) -> Result<(), Misuse> {
        let missing = Misuse::NoSuch { what: "request" };
        let state = self.sessions.state(id).ok_or(missing)?;
        let place = state.host_request(pending).ok_or(missing)?;
        let body = pack(state.protocol.format, |to| {
            to.one(Type::STATUS).i32(status.0);
            more(to);
        });
        self.sessions.resolve(id, place, PmixResponse::body(body));
        Ok(())
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Answers a [`HostRequest`](crate::server::Event::HostRequest) with a body that another server has made;
    /// an empty one stands for the lack of memory there.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoSuch`] if the session does not wait for this answer, or not any more.
    pub fn answer_with(
        &mut self,
        id: SessionId,
        pending: usize,
        body: &[u8],
    ) -> Result<(), Misuse> {
        let missing = Misuse::NoSuch { what: "request" };
        let state = self.sessions.state(id).ok_or(missing)?;
        let place = state.host_request(pending).ok_or(missing)?;
        let body = if body.is_empty() { None } else { copy_bytes(body) };
        self.sessions.resolve(id, place, PmixResponse::body(body));
        Ok(())
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Sends output to a client.
    ///
    /// Wire: PROC, IOF_CHANNEL, SIZE reference, SIZE 0 (no INFO follows), BYTE_OBJECT; tag 2.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoSuch`] if the session is not open, and [`Misuse::NoRoom`] while the client has not read
    /// earlier output, or without memory. Nothing is sent then.
    pub fn send_output(
        &mut self,
        id: SessionId,
        output: &ForwardedOutput<'_>,
    ) -> Result<(), Misuse> {
        let missing = Misuse::NoSuch { what: "open session" };
        let full = Misuse::NoRoom { what: "output" };
        let state = self.sessions.state_mut(id).ok_or(missing)?;
        if state.lifecycle.phase != SessionPhase::Open {
            return Err(missing);
        }
        let unsent = state.pending_requests().filter(|(_, pending)| pending.tag == TAG_OUTPUT);
        // A place is left for the answer to a request.
        let taken = state.pending_requests().count();
        if unsent.count() >= UNSENT_MAX || taken + 1 >= state.pending.capacity() {
            return Err(full);
        }
        let body = pack(state.protocol.format, |to| {
            output.source.write(to.one(Type::PROC));
            to.one(Type::IOF_CHANNEL).u16(output.channel);
            to.one(Type::SIZE).size(output.reference).one(Type::SIZE).size(0);
            to.one(Type::BYTE_OBJECT).blob(output.bytes);
        });
        state.push_response(TAG_OUTPUT, PmixResponse::Body(body.ok_or(full)?));
        self.sessions.push(READY, id);
        Ok(())
    }
}

impl<'a, P: PmixStorage, S: Storage<Pmix = P>> PmixServerRef<'a, P, S> {
    /// True if the last connection of this rank ended without FINALIZE.
    pub fn has_left_early(&self, job: JobId, rank: Rank) -> bool {
        let proc = ProcId { job, rank };
        let was_admitted = self.shared.pmix.rank_data(proc).is_some_and(|data| data.was_admitted);
        let member = self.shared.member(proc);
        was_admitted && member.is_some_and(|member| member.phase() == Phase::Lost)
    }

    /// The process of a session that was admitted.
    pub fn peer(self, id: SessionId) -> Option<ProcId> {
        let PmixPeerState { peer, is_admitted, .. } = &self.sessions.state(id)?.protocol;
        peer.filter(|_| *is_admitted)
    }

    /// True if PMIx clients know a job.
    pub fn has_job(self, job: JobId) -> bool {
        self.shared.pmix.namespace(job).is_some()
    }

    /// True if the peer of a session is a tool.
    pub fn is_tool(self, id: SessionId) -> bool {
        self.sessions.state(id).is_some_and(|state| state.protocol.tool.is_some())
    }

    /// True if a session was ever admitted as this rank.
    pub fn was_admitted(self, job: JobId, rank: Rank) -> bool {
        self.shared.pmix.rank_data(ProcId { job, rank }).is_some_and(|data| data.was_admitted)
    }

    /// Lends the request of a session, until [`PmixServer::request_read`].
    pub fn request(self, id: SessionId) -> Option<Request<'a>> {
        self.sessions.pmix(id)?.request()
    }

    /// Wire format of a session.
    pub fn format(self, id: SessionId) -> Option<Format> {
        Some(self.sessions.state(id)?.protocol.format)
    }
}

/// Upper bound of unsent output messages of one session; the owner keeps the rest.
const UNSENT_MAX: usize = 4;
