//! The server: many sessions, a few jobs, one name service.
//!
//! ```text
//!   bytes ── Session (input, lifecycle, pending requests) ── state ── Job (members, store, fence)
//! ```
//!
//! There is one kind of session, with the state of its protocol inside: that of PMI-1, PMI-2 and the binary
//! dialect, or that of PMIx. All are in one table with one queue of those to serve and one of those
//! with an event.
//!
//! A session knows bytes and no members; a job knows members and no bytes. A request goes from one
//! to the other; an outcome comes back: the response, an event for the owner, and the sessions to
//! wake. The server sends nothing: an owner asks [`Server::next_ready`] for the next session to
//! serve, and the session for bytes to transmit. A response is a few bytes that are rendered when
//! there is room, so ending a fence of ten thousand members needs no memory, and no order of calls
//! is wrong.

mod blocked_fence;
mod connected_jobs;
mod credential;
mod event;
mod group_fence;
mod group_uplink;
mod input;
mod job;
mod job_changes;
mod member;
mod name_service;
mod node_attribute;
mod outcome;
mod pairs;
mod pmi_session;
#[cfg(feature = "pmix")]
pub mod pmix;
mod put_all;
mod queue;
mod reply;
mod response;
mod ring;
mod roster;
mod services;
mod session;
mod session_table;
mod shared;
mod state;
mod storage;
#[cfg(test)]
mod tests;
mod uplink;
mod waits;

pub use event::{Event, GivenCredential};
pub use job::{Job, JobSpec};
pub use job_changes::ChangeAnswer;
pub use member::{Member, Phase};
pub use name_service::{NameAnswer, NameRequest};
pub use pmi_session::{Peer, PmiPeerState};
pub use response::{
    AttributeKey, GroupFence, KvsListing, PendingReply, RequestHeader, Response, SpawnCodes,
};
pub use session::Session;
pub use storage::{Arrays, JobOf, SessionOf, Storage};
pub use uplink::RemoteError;
pub use waits::Wait;

use self::member::MemberListener;
#[cfg(feature = "pmix")]
use self::pmix::tables::{PmixShared, PmixStorage};
use self::session::{SessionPhase, SessionState};
use self::session_table::{HAS_EVENT, READY, SessionTable};
use self::shared::Shared;
use self::storage::{JobsOf, SessionsOf};
use crate::command::{CodeRun, Notice, Request, Spawn, Text, Verb};
use crate::error::{Code, Full, Misuse, PeerError};
use crate::ids::{JobId, Key, Rank, SessionId};
use crate::limits::VALUE_BYTES;
use crate::machine::Machine;
use crate::parts;
use crate::storage::{Buffer, Slots};
use crate::store::Keyspace;
use crate::time::Instant;
use crate::wire::{Dialect, pmi2::FrameStyle};

/// Sessions and jobs, without I/O.
pub struct Server<S: Storage> {
    sessions: SessionTable<S>,
    shared: Shared<S>,
    /// Number of spawn requests so far.
    spawns: u32,
}

impl<S: Storage> core::fmt::Debug for Server<S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

/// One session as a [`Machine`], lent together with its server.
pub struct SessionMut<'a, S: Storage> {
    server: &'a mut Server<S>,
    id: SessionId,
}

impl<S: Storage<Pmix = ()>> Server<S> {
    /// Creates a server without sessions and jobs; `names` stores published names.
    pub const fn new(sessions: SessionsOf<S>, jobs: JobsOf<S>, names: S::Kvs) -> Self {
        Self {
            sessions: SessionTable::new(
                sessions,
                #[cfg(feature = "pmix")]
                [],
            ),
            shared: Shared::new(
                jobs,
                names,
                #[cfg(feature = "pmix")]
                PmixShared::EMPTY,
            ),
            spawns: 0,
        }
    }
}

impl<S: Storage> Server<S> {
    /// Adds a job. `members` are its ranks on this node, in the order of the ranks; a member without
    /// [`with_rank`](Member::with_rank) has the rank of its index.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoRoom`] without a slot for the job, or for its connection with the job that spawned it,
    /// [`Misuse::WrongState`] unless the members are in the order of their ranks, all below its size.
    pub fn add_job(
        &mut self,
        spec: JobSpec,
        members: S::Members,
        kvs: S::Kvs,
    ) -> Result<JobId, Misuse> {
        let full = Misuse::NoRoom { what: "job" };
        let job = Job::new(spec, members, kvs);
        if parts::NODES && !job.has_valid_ranks() {
            return Err(Misuse::WrongState {
                needed: "the members are in the order of their ranks",
            });
        }
        let at = self.shared.jobs.insert(job).ok_or(full)?;
        let id = JobId(u32::try_from(at).map_err(|_| full)?);
        if !connected_jobs::start(&mut self.shared.jobs, id) {
            self.shared.jobs.remove(at);
            return Err(Misuse::NoRoom { what: "connection of the spawning job" });
        }
        Ok(id)
    }

    /// Removes a job, the names it published, and what its PMIx clients have committed and published. Its
    /// sessions must be closed.
    ///
    /// # Errors
    ///
    /// [`Misuse::WrongState`] while a session is open, or a PMIx client claims one of its ranks, since the
    /// next job may get its number. Nothing has changed then.
    pub fn remove_job(&mut self, job: JobId) -> Result<(), Misuse> {
        #[cfg(feature = "pmix")]
        if S::Pmix::ENABLED {
            return self.pmix().remove_job(job);
        }
        self.shared.remove_job(job)
    }

    /// Sets a value that members of the job read as a key and as a job attribute, and that no put
    /// replaces; `PMI_process_mapping` for one.
    ///
    /// # Errors
    ///
    /// [`Misuse`] for an unknown job, no room, an invalid key, or a value that is too long.
    pub fn preset(&mut self, job: JobId, key: &[u8], value: &[u8]) -> Result<(), Misuse> {
        self.store(job, Keyspace::Attributes, key, value)
    }

    /// Sets an attribute of a node of the job, which its members there read from the start; `localRanks` for
    /// one. Spec: PMI-2 API, `PMI2_Info_GetNodeAttr`.
    ///
    /// # Errors
    ///
    /// As for [`preset`](Self::preset).
    pub fn preset_node(
        &mut self,
        job: JobId,
        node: u32,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), Misuse> {
        self.store(job, Keyspace::Node(node), key, value)
    }

    /// Puts a value into the key-value space of a job before it starts, as a spawn requests.
    ///
    /// # Errors
    ///
    /// As for [`preset`](Self::preset).
    pub fn preput(&mut self, job: JobId, key: &[u8], value: &[u8]) -> Result<(), Misuse> {
        self.store(job, Keyspace::Space, key, value)
    }

    /// Opens a session. `inbox` and `exchanges` are empty.
    ///
    /// # Errors
    ///
    /// [`Misuse`] if there is no such job or rank, or no room.
    pub fn open(
        &mut self,
        peer: Peer,
        inbox: S::Inbox,
        exchanges: S::Pending<PendingReply>,
    ) -> Result<SessionId, Misuse> {
        let (job, rank) = match peer {
            Peer::Member { job, rank } => (job, Some(rank)),
            Peer::Unidentified { .. } if !parts::LISTEN => {
                return Err(Misuse::NoSuch {
                    what: "connection over TCP, which this build leaves out",
                });
            }
            Peer::Unidentified { job, .. } => (job, None),
        };
        let of = self.job(job).ok_or(NO_JOB)?;
        if let Some(rank) = rank {
            let member = of.member(rank).ok_or(Misuse::NoSuch { what: "rank" })?;
            if member.session().is_some() {
                return Err(Misuse::WrongState { needed: "the rank has no session" });
            }
        }
        let session = Session::of_peer(peer, inbox, exchanges);
        let id = self.sessions.insert(session).ok_or(Misuse::NoRoom { what: "session" })?;
        if let (Some(rank), Some(job)) = (rank, self.shared.job_mut(job)) {
            job.connect(rank, id);
        }
        Ok(id)
    }

    /// Borrows a session.
    pub fn session(&mut self, id: SessionId) -> Option<SessionMut<'_, S>> {
        self.sessions.lifecycle(id)?;
        Some(SessionMut { server: self, id })
    }

    /// The job and rank of a session; the rank is absent until the peer has identified itself. A PMIx client
    /// has neither until it was admitted.
    pub fn peer(&self, id: SessionId) -> Option<(JobId, Option<Rank>)> {
        #[cfg(feature = "pmix")]
        if S::Pmix::ENABLED && id.is_pmix() {
            let peer = self.pmix_ref().peer(id)?;
            return Some((peer.job, Some(peer.rank)));
        }
        let state = &self.sessions.get(id)?.state.protocol;
        Some((state.job, state.rank))
    }

    /// Removes a session whose link is closed, and returns its undelivered event: an abort counts
    /// even after its sender is gone.
    pub fn close(&mut self, id: SessionId) -> Option<Event> {
        #[cfg(feature = "pmix")]
        if S::Pmix::ENABLED && id.is_pmix() {
            let event = self.pmix().close(id);
            self.wake_awaiting_buffer();
            return event;
        }
        let SessionState { lifecycle, protocol, .. } = self.sessions.remove(id)?.state;
        self.wake_awaiting_buffer();
        let (PmiPeerState { job: own, rank, .. }, phase) = (protocol, lifecycle.phase);
        let Some(job) = self.shared.job_mut(own) else { return lifecycle.event };
        if phase == SessionPhase::Listening || rank.is_none() {
            job.stop_listening(id);
        }
        if let Some(rank) = rank {
            if matches!(phase, SessionPhase::Open | SessionPhase::Broken(_)) {
                job.advance(rank, Phase::Lost);
            }
            if matches!(phase, SessionPhase::Fresh | SessionPhase::Declined(_)) {
                job.mark_disconnected(rank);
            }
            job.disconnect(rank);
            #[cfg(feature = "pmix")]
            if S::Pmix::ENABLED {
                self.pmix().member_gone(own, rank);
            }
        }
        lifecycle.event
    }

    /// Records that the process of a member has terminated, with or without a session.
    pub fn member_gone(&mut self, job: JobId, rank: Rank) {
        let Some(of) = self.shared.job_mut(job) else { return };
        if of.member(rank).is_some_and(|member| member.phase() != Phase::Finalized) {
            of.advance(rank, Phase::Lost);
        }
        of.mark_exited(rank);
        #[cfg(feature = "pmix")]
        if S::Pmix::ENABLED {
            self.pmix().member_gone(job, rank);
        }
    }

    /// Answers a later `init` of a member as [`Member::accepting_newer`] describes: its client was identified
    /// after its job was added.
    pub fn accept_newer(&mut self, job: JobId, rank: Rank) {
        if let Some(job) = self.shared.job_mut(job) {
            job.change(rank, |member| member.accepts_newer = true);
        }
    }

    /// Sets whether a debugger controls a job. The server reports it in later PMI-2 `fullinit` responses.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoSuch`] for an unknown job.
    pub fn set_debugged(&mut self, job: JobId, is_debugged: bool) -> Result<(), Misuse> {
        let unknown = Misuse::NoSuch { what: "job" };
        self.shared.job_mut(job).ok_or(unknown)?.is_debugged = is_debugged;
        Ok(())
    }

    /// Sets whether the clients of a job shall print debug messages (`pmiverbose`); otherwise as
    /// [`set_debugged`](Self::set_debugged).
    ///
    /// # Errors
    ///
    /// [`Misuse::NoSuch`] for an unknown job.
    pub fn set_verbose(&mut self, job: JobId, is_verbose: bool) -> Result<(), Misuse> {
        let unknown = Misuse::NoSuch { what: "job" };
        self.shared.job_mut(job).ok_or(unknown)?.is_verbose = is_verbose;
        Ok(())
    }

    /// The next session to serve: to transmit, then to hand it an empty input.
    ///
    /// Changes after: any call on any session, [`poll_event`](Self::poll_event),
    /// [`end_fence`](Self::end_fence), [`answer_spawn`](Self::answer_spawn),
    /// [`member_gone`](Self::member_gone), [`handle_timeout`](Self::handle_timeout).
    pub fn next_ready(&mut self) -> Option<SessionId> {
        let mut next = self.sessions.pop(READY);
        if parts::PMI2 && next.is_none() {
            self.fail_attributes();
            next = self.sessions.pop(READY);
        }
        next
    }

    /// The next event for the owner.
    ///
    /// Changes after: any call on any session, [`member_gone`](Self::member_gone).
    pub fn poll_event(&mut self) -> Option<Event> {
        while let Some(id) = self.sessions.pop(HAS_EVENT) {
            let event = self.sessions.take_event(id);
            if event.is_some() {
                return event;
            }
        }
        #[cfg(feature = "pmix")]
        if S::Pmix::ENABLED
            && let Some(event) = self.next_pmix_event()
        {
            return Some(event);
        }
        self.shared.ids().find_map(|id| {
            let job = self.shared.job_mut(id)?;
            #[cfg(feature = "pmix")]
            job.check_gone_in_fence();
            if let Some(generation) = job.take_hand_up() {
                return Some(Event::FenceHandedUp { job: id, generation });
            }
            if parts::CONNECT && parts::NODES && job.ring.take_hand_up() {
                let generation = job.ring.generation();
                return Some(Event::RingHandedUp { job: id, generation });
            }
            let stuck = job.stuck();
            let in_group = || if parts::GROUPS { self.stuck_group(id) } else { None };
            let gone = stuck.or_else(in_group)?;
            Some(Event::FenceStuck { job: id, gone })
        })
    }

    /// Time of the next call of [`handle_timeout`](Self::handle_timeout), if any.
    ///
    /// Changes after: every other call.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let sessions = self.sessions.ids().filter_map(|id| self.sessions.get(id));
        let deadlines = sessions.filter_map(|session| session.state.lifecycle.deadline);
        #[cfg(feature = "pmix")]
        let deadlines = deadlines.chain(self.pmix_ref().deadlines());
        deadlines.min()
    }

    /// Fails the sessions of peers that have not identified themselves in time, times out requests of PMIx
    /// clients, and reports their overdue heartbeats.
    pub fn handle_timeout(&mut self, now: Instant) {
        for id in self.sessions.ids() {
            self.check_deadline::<PmiPeerState>(id, now, Dialect::Lines);
        }
        #[cfg(feature = "pmix")]
        if S::Pmix::ENABLED {
            self.handle_pmix_timeout(now);
        }
    }

    /// Ends the fence of a job whose other members are on other nodes.
    ///
    /// # Errors
    ///
    /// [`Misuse`] unless the fence was handed up.
    pub fn end_fence(&mut self, job: JobId) -> Result<(), Misuse> {
        if !self.job(job).ok_or(NO_JOB)?.fence().is_handed_up() {
            return Err(Misuse::WrongState { needed: "the fence was handed up" });
        }
        self.release_fence(job);
        Ok(())
    }

    /// Borrows the spawn request of a session, until [`spawn_read`](Self::spawn_read).
    pub fn spawn_request(&self, session: SessionId) -> Option<Spawn<'_>> {
        match self.held_request(session)? {
            Request::Spawn(spawn) => Some(spawn),
            _ => None,
        }
    }

    /// The message at the front of the inbox that the owner has not read.
    fn held_request(&self, session: SessionId) -> Option<Request<'_>> {
        let Session { inbox, state } = self.sessions.get(session)?;
        let message = inbox.as_slice().get(..state.lifecycle.held_len?)?;
        state.protocol.dialect_of(message).read_request(message).ok()?.request
    }

    /// Resumes the session after the owner has read its spawn request.
    pub fn spawn_read(&mut self, session: SessionId) {
        if self.sessions.get_mut(session).is_some_and(Session::drop_held) {
            self.sessions.push(READY, session);
            self.wake_awaiting_buffer();
        }
    }

    /// The text of the abort that a session has sent, as long as the session is open; an event has the front
    /// of it only.
    pub fn abort_message(&self, session: SessionId) -> Option<Text<'_>> {
        match self.held_request(session)? {
            Request::Abort { message, .. } => Some(message),
            _ => None,
        }
    }

    /// Responds to a spawn request with the new job, or with the reason of the failure.
    ///
    /// Shape: `codes` has a status for each requested process, in runs; if empty, the response
    /// holds for all of them.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoSuch`] if the session does not wait for this spawn, or no longer does,
    /// [`Misuse::NoRoom`] for more than [`SPAWN_RUNS`](crate::limits::SPAWN_RUNS) runs.
    pub fn answer_spawn(
        &mut self,
        session: SessionId,
        exchange: usize,
        made: Result<JobId, Code>,
        codes: &[CodeRun],
    ) -> Result<(), Misuse> {
        let codes = SpawnCodes::new(codes)?;
        let missing = Misuse::NoSuch { what: "spawn" };
        let state = &mut self.sessions.get_mut(session).ok_or(missing)?.state;
        let number = u32::try_from(exchange).map_err(|_| missing)?;
        let place =
            state.pending_requests().find(|(_, waits)| waits.response == Response::Spawn(number));
        let waits = state.pending.get_mut(place.ok_or(missing)?.0).ok_or(missing)?;
        waits.response = Response::Spawned(number, made, codes);
        self.sessions.push(READY, session);
        Ok(())
    }

    /// Sends a notice to a member on its second connection.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoSuch`] if the member has none, [`Misuse::Busy`] if it has not read the previous
    /// notice.
    pub fn notify(&mut self, job: JobId, rank: Rank, notice: Notice) -> Result<(), Misuse> {
        let member = self.job(job).ok_or(NO_JOB)?.member(rank);
        let listener = member.and_then(|member| member.listener.as_ref());
        let MemberListener { session, version, .. } =
            listener.ok_or(Misuse::NoSuch { what: "listener" })?;
        let (session, is_lines) = (*session, version.major < 2);
        let dialect =
            if is_lines { Dialect::Lines } else { Dialect::Frames(FrameStyle::LeftAligned) };
        let header = RequestHeader::unread(Verb::Notice, dialect);
        let exchange = PendingReply { header, response: Response::Notice(notice) };
        let open = self.sessions.get_mut(session).ok_or(Misuse::NoSuch { what: "session" })?;
        open.state.pending.insert(exchange).ok_or(Misuse::Busy)?;
        self.sessions.push(READY, session);
        Ok(())
    }

    /// Borrows a job, read-only.
    pub fn job(&self, id: JobId) -> Option<&JobOf<S>> {
        self.shared.job(id)
    }

    /// All jobs of the server.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> {
        self.shared.ids().filter(|id| self.job(*id).is_some())
    }

    fn store(
        &mut self,
        job: JobId,
        keyspace: Keyspace,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), Misuse> {
        Key::check(key)?;
        // Spawns are the only source of values that a peer has sent.
        if parts::SPAWN && value.len() > VALUE_BYTES {
            let (len_bytes, limit_bytes) = (value.len(), VALUE_BYTES);
            return Err(Misuse::Length { what: "value", len_bytes, limit_bytes });
        }
        let job = self.shared.job_mut(job).ok_or(NO_JOB)?;
        job.preset(keyspace, key, value).map_err(|_| Misuse::NoRoom { what: "value" })
    }
}

impl<S: Storage> SessionMut<'_, S> {
    /// The server of the session, read-only.
    pub const fn server(&self) -> &Server<S> {
        self.server
    }
}

impl<S: Storage> Machine for SessionMut<'_, S> {
    type Event<'a>
        = Event
    where
        Self: 'a;

    fn handle_input(&mut self, now: Instant, bytes: &[u8]) -> Result<usize, PeerError> {
        #[cfg(feature = "pmix")]
        if S::Pmix::ENABLED && self.id.is_pmix() {
            return self.server.receive::<pmix::PmixPeerStateOf<S::Pmix>>(self.id, now, bytes);
        }
        self.server.receive::<PmiPeerState>(self.id, now, bytes)
    }

    fn holds_input(&self) -> bool {
        let session = self.server.sessions.get(self.id);
        self.id.is_pmix() || session.is_some_and(Session::holds_input)
    }

    fn handle_timeout(&mut self, now: Instant) -> Result<(), PeerError> {
        self.server.handle_timeout(now);
        match self.server.sessions.lifecycle(self.id).map(|state| state.phase) {
            Some(SessionPhase::Broken(error)) => Err(error),
            _ => Ok(()),
        }
    }

    fn handle_end(&mut self, _now: Instant) -> Result<(), PeerError> {
        #[cfg(feature = "pmix")]
        if S::Pmix::ENABLED && self.id.is_pmix() {
            return self.server.pmix().handle_end(self.id);
        }
        let Server { sessions, shared, .. } = &mut *self.server;
        let Some(Session { state, .. }) = sessions.get_mut(self.id) else { return Ok(()) };
        state::handle_end(state, shared.job_mut(state.protocol.job))
    }

    /// Writes one whole message; to a PMIx client the next part of one, as far as there is room.
    fn poll_transmit(&mut self, out: &mut [u8]) -> Result<Option<usize>, Full> {
        #[cfg(feature = "pmix")]
        if S::Pmix::ENABLED && self.id.is_pmix() {
            return self.server.pmix().transmit(self.id, out);
        }
        self.server.transmit(self.id, out)
    }

    fn poll_event(&mut self) -> Option<Event> {
        let event = self.server.sessions.take_event(self.id);
        if event.is_some() {
            self.server.sessions.dequeue(HAS_EVENT, self.id);
        }
        event
    }

    fn poll_timeout(&self) -> Option<Instant> {
        #[cfg(feature = "pmix")]
        if S::Pmix::ENABLED && self.id.is_pmix() {
            return self.server.sessions.state(self.id)?.deadline();
        }
        self.server.sessions.lifecycle(self.id)?.deadline
    }

    fn is_finished(&self) -> bool {
        #[cfg(feature = "pmix")]
        if S::Pmix::ENABLED && self.id.is_pmix() {
            return self.server.sessions.state(self.id).is_none_or(SessionState::is_finished);
        }
        self.server.sessions.get(self.id).is_none_or(|session| session.state.has_sent_all())
    }
}

const NO_JOB: Misuse = Misuse::NoSuch { what: "job" };
