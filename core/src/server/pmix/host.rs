//! Calls of the owner: sessions, time, admission, members that are gone, removed jobs, and
//! answers to requests that only the owner can answer.

use super::context::{PmixServer, PmixServerRef};
use super::namespace::Namespace;
use super::publish::EndedPublisher;
use super::session::{PmixFraming, PmixPeerState, PmixResponse, UnfinishedLimits};
use super::shared_bytes::pack;
use super::tables::{PendingOf, PmixPeerStateOf, PmixStorage, RanksOf};
use crate::error::{Misuse, PeerError};
use crate::ids::{JobId, ProcId, Rank, SessionId};
use crate::server::member::{Member, Phase};
use crate::server::session::{Session, SessionPhase};
use crate::server::session_table::READY;
use crate::server::{Event, Server, Storage};
use crate::storage::Slots;
use crate::time::Instant;
use crate::wire::pmix::greeting::Layout;
use crate::wire::pmix::names::Status;
use crate::wire::pmix::{Format, Packer, Request, Type};

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

    /// The next event of PMIx clients that is no event of a session.
    pub(in crate::server) fn next_pmix_event(&mut self) -> Option<Event> {
        self.pmix().take_collective_event().or_else(|| self.pmix().take_modex_event())
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Limits what inboxes hold together from now on. A session that exceeds a limit ends with
    /// [`PeerError::UnfinishedTooLong`].
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
        let added = self.context.pmix.namespaces.insert(namespace);
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
        self.common().remove_job(job)?;
        self.context.remove_published(EndedPublisher::Job(job));
        self.remove_events(job);
        self.context.remove_members(job);
        self.abort_collectives_of(job);
        if let Some(at) = self.context.pmix.place(job) {
            self.context.pmix.namespaces.remove(at);
        }
        Ok(())
    }

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

    /// Admits a peer as the rank that it claims.
    ///
    /// # Errors
    ///
    /// [`Misuse::WrongState`] unless it has claimed to be a rank and waits. For a tool that its launcher has
    /// started, [`Misuse::NoSuch`] if the description of the job does not name the server, as
    /// [`admit_tool`](Self::admit_tool) needs it, and [`Misuse::NoRoom`] without memory for the answer.
    pub fn admit(&mut self, id: SessionId) -> Result<(), Misuse> {
        let waiting = Misuse::WrongState { needed: "the session waits for admission" };
        let state = self.sessions.state(id).ok_or(waiting)?;
        let (SessionPhase::Claimed, Some(peer)) = (state.lifecycle.phase, state.protocol.peer)
        else {
            return Err(waiting);
        };
        let welcome = match state.protocol.welcome {
            Layout::Client => None,
            layout => self.welcome(peer.job, layout)?,
        };
        self.open_as(id, peer, welcome);
        Ok(())
    }

    /// Opens a session as one of this process, with the answer to the greeting of a tool, if it is one.
    pub(super) fn open_as(&mut self, id: SessionId, peer: ProcId, welcome: Option<P::Bytes>) {
        let Some(state) = self.sessions.state_mut(id) else { return };
        match welcome {
            Some(bytes) => {
                state.push_response(0, PmixResponse::ToolWelcome(bytes));
            }
            None => state.push_welcome(id),
        }
        state.lifecycle.phase = SessionPhase::Open;
        state.lifecycle.deadline = None;
        state.protocol.is_admitted = true;
        self.link(id, peer);
        if let Some(data) = self.context.pmix.rank_data_mut(peer) {
            data.sessions = data.sessions.saturating_add(1);
            data.was_admitted = true;
        }
        if let Some(job) = self.common().job_mut(peer.job) {
            job.set_tolerates_failures(peer.rank);
            job.advance(peer.rank, Phase::Open);
        }
        self.sessions.push(READY, id);
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
        if !self.context.view().member(gone).is_some_and(Member::is_gone) {
            return;
        }
        self.note_committed(gone);
        self.fail_gets(gone);
        self.context.remove_published(EndedPublisher::Process(gone));
        self.remove_exited_member(gone);
        self.check_fence(job);
        self.check_collectives();
    }

    /// Rejects a peer with a status.
    pub fn refuse(&mut self, id: SessionId, status: Status) {
        if let Some(state) = self.sessions.state_mut(id) {
            state.reject(status, PeerError::Unproven);
            self.sessions.push(READY, id);
        }
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

impl<'a, P: PmixStorage, S: Storage<Pmix = P>> PmixServerRef<'a, P, S> {
    /// True if the last connection of this rank ended without FINALIZE.
    pub fn has_left_early(&self, job: JobId, rank: Rank) -> bool {
        let proc = ProcId { job, rank };
        let was_admitted = self.view.pmix.rank_data(proc).is_some_and(|data| data.was_admitted);
        let member = self.view.member(proc);
        was_admitted && member.is_some_and(|member| member.phase() == Phase::Lost)
    }

    /// The process of a session that was admitted.
    pub fn peer(self, id: SessionId) -> Option<ProcId> {
        let PmixPeerState { peer, is_admitted, .. } = &self.sessions.state(id)?.protocol;
        peer.filter(|_| *is_admitted)
    }

    /// True if PMIx clients know a job.
    pub fn has_job(self, job: JobId) -> bool {
        self.view.pmix.namespace(job).is_some()
    }

    /// True if the peer of a session is a tool.
    pub fn is_tool(self, id: SessionId) -> bool {
        self.sessions.state(id).is_some_and(|state| state.protocol.tool.is_some())
    }

    /// True if a session was ever admitted as this rank.
    pub fn was_admitted(self, job: JobId, rank: Rank) -> bool {
        self.view.pmix.rank_data(ProcId { job, rank }).is_some_and(|data| data.was_admitted)
    }

    /// Deadlines of the sessions.
    pub(in crate::server) fn deadlines(self) -> impl Iterator<Item = Instant> + use<'a, P, S> {
        let states = self.sessions.states().filter(|_| P::ENABLED);
        states.filter_map(|state| state.deadline())
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
