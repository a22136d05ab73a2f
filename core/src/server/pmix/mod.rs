//! Sessions of PMIx clients, beside those of PMI-1 and PMI-2.
//!
//! ```text
//!   bytes ── Connection (bytes, identity, responses) ── state ── a request
//!                       │                                             │
//!             Pmix: jobs as PMIx clients see them           Server: members, fences, names
//! ```
//!
//! A PMIx client asks for much more than a PMI client: committed data is kept by process and scope,
//! fences are of any processes, and values have types. This module holds all of that. The
//! [`Server`] holds the state common to the clients of all generations: the members of a job and
//! their phases, the fence of a whole job, and the names. A [`Pmix`] is lent the [`Server`] for
//! every call, so that one job may have ranks of every generation.
//!
//! Answers may be long: the description of a job, or all committed data of a process. They are
//! packed once, into a [`SharedBytes`], and sent piece by piece as there is room. Later commits
//! never change an answer that is being sent.
//!
//! Requests that only the owner can fulfil (start processes, signal them, remove files) are
//! reported as a [`PmixEvent`]; the owner reads the request in place, and answers it.

mod cached_event;
mod collective;
mod collective_request;
mod connection;
mod directives;
mod events;
mod fence;
mod get;
mod group_construct;
mod groups;
mod heartbeat;
mod host;
mod input;
mod machine;
mod modex;
mod namespace;
mod publish;
mod query;
mod realm;
mod resolve;
mod shared_bytes;
mod state;
mod storage;
mod waits;

pub use cached_event::{CachedEvent, Notification};
pub use collective::{CollectiveKind, OpenCollective};
pub use connection::{Connection, PendingRequest};
pub use groups::ProcessGroup;
pub use host::PmixEvent;
pub use machine::ConnectionMut;
pub use modex::{ModexBlob, RankData};
pub use namespace::Namespace;
pub use publish::PublishedValue;
pub use query::QueryItem;
pub use shared_bytes::SharedBytes;
pub use storage::{PmixStorage, PmixTables};
pub use waits::PmixWait;

use self::connection::PmixResponse;
use self::storage::{
    CollectivesOf, ConnectionsOf, EventsOf, GroupsOf, NamesOf, NamespacesOf, PendingOf, RanksOf,
};
use super::member::Phase;
use super::queue::{Queue, QueueLink};
use super::{Server, Storage};
use crate::error::{Misuse, PeerError};
use crate::ids::{JobId, ProcId, Rank};
use crate::storage::Slots;
use crate::time::Instant;
use crate::wire::pmix::names::Status;

/// Number of a connection. Reused after the connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u32);

/// PMIx sessions of a [`Server`], without I/O.
pub struct Pmix<P: PmixStorage> {
    connections: ConnectionsOf<P>,
    jobs: NamespacesOf<P>,
    collectives: CollectivesOf<P>,
    names: NamesOf<P>,
    events: EventsOf<P>,
    groups: GroupsOf<P>,
    /// Last context id given to a group.
    contexts: u32,
    /// Connections with output, or with held input to handle.
    ready: Queue,
    /// Connections with an event for the owner.
    events_queue: Queue,
    /// Number of requests handed to the owner.
    asked: u32,
    unfinished: UnfinishedLimits,
}

/// Limits of what inboxes hold together; each inbox has its own besides.
///
/// A rank may have several connections, as its threads and children do, so that the limit of one inbox
/// does not bound what a rank makes the server hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnfinishedLimits {
    /// Number of bytes in all connections of one rank.
    pub rank_bytes: usize,
    /// Number of bytes in all connections.
    pub all_bytes: usize,
}

impl UnfinishedLimits {
    /// No limits besides those of the inboxes.
    pub const NONE: Self = Self { rank_bytes: usize::MAX, all_bytes: usize::MAX };
}

impl<P: PmixStorage> core::fmt::Debug for Pmix<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pmix").finish_non_exhaustive()
    }
}

impl<P: PmixStorage> Pmix<P> {
    /// Creates the sessions without connections and jobs.
    pub fn new(tables: PmixTables<P>) -> Self {
        let PmixTables { connections, jobs, collectives, names, events, groups } = tables;
        let (ready, noted) = (Queue::new(), Queue::new());
        Self {
            connections,
            jobs,
            collectives,
            names,
            events,
            groups,
            contexts: 0,
            ready,
            events_queue: noted,
            asked: 0,
            unfinished: UnfinishedLimits::NONE,
        }
    }

    /// Limits what inboxes hold together from now on. A connection that exceeds a limit ends with
    /// [`PeerError::UnfinishedTooLong`].
    pub const fn limit_unfinished(&mut self, limits: UnfinishedLimits) {
        self.unfinished = limits;
    }

    /// Lets PMIx clients into a job of the server. `info` is the job description: KVALs as they
    /// stand behind the namespace in the answer to REQ, in
    /// [`Format::PLAIN`](crate::wire::pmix::Format::PLAIN). `posts` has an element for each rank.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoRoom`] if there is no slot for the job.
    pub fn add_job(&mut self, job: JobId, info: P::Bytes, posts: RanksOf<P>) -> Result<(), Misuse> {
        let namespace = Namespace::new(job, info, posts);
        self.jobs.insert(namespace).map(drop).ok_or(Misuse::NoRoom { what: "job" })
    }

    /// Removes a job, here and in the server, with the committed data of its ranks and their
    /// published data that does not outlive the job.
    ///
    /// # Errors
    ///
    /// [`Misuse::WrongState`] while a session or a connection of the job is open, or a peer claims
    /// one of its ranks, since the next job may get its number. Nothing has changed then. Otherwise
    /// those of [`Server::remove_job`].
    pub fn remove_job<S: Storage>(
        &mut self,
        job: JobId,
        server: &mut Server<S>,
    ) -> Result<(), Misuse> {
        let mut open = (0..self.connections.end()).filter_map(|at| self.connections.get(at));
        if open.any(|connection| connection.state.peer.is_some_and(|of| of.job == job)) {
            return Err(Misuse::WrongState { needed: "no connection of the job is open" });
        }
        server.remove_job(job)?;
        self.remove_published(job, None, server);
        self.remove_events(job);
        self.remove_members(job);
        self.abort_collectives_of(job, server);
        if let Some(at) = namespace::place(&self.jobs, job) {
            self.jobs.remove(at);
        }
        Ok(())
    }

    /// Opens a connection to a peer, which must identify itself until `deadline`.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoRoom`] if there is no slot for the connection.
    pub fn open(
        &mut self,
        inbox: P::Inbox,
        pendings: PendingOf<P>,
        deadline: Option<Instant>,
    ) -> Result<ConnectionId, Misuse> {
        let full = Misuse::NoRoom { what: "connection" };
        let connection = Connection::new(inbox, pendings, deadline);
        let at = self.connections.insert(connection).ok_or(full)?;
        u32::try_from(at).map(ConnectionId).map_err(|_| full)
    }

    /// Lends a connection.
    pub fn connection<'a, S: Storage>(
        &'a mut self,
        id: ConnectionId,
        server: &'a mut Server<S>,
    ) -> Option<ConnectionMut<'a, P, S>> {
        self.connections.get(id.0 as usize)?;
        Some(ConnectionMut { pmix: self, server, id })
    }

    /// The process of a connection that was admitted.
    pub fn peer(&self, id: ConnectionId) -> Option<ProcId> {
        let state = &self.connections.get(id.0 as usize)?.state;
        state.peer.filter(|_| state.is_admitted)
    }

    /// True if a connection was ever admitted as this rank.
    pub fn has_spoken(&self, job: JobId, rank: Rank) -> bool {
        let rank_data =
            namespace::get(&self.jobs, job).and_then(|namespace| namespace.rank_data(rank));
        rank_data.is_some_and(|rank_data| rank_data.has_spoken)
    }

    /// True if the last connection of this rank ended without FINALIZE.
    pub fn has_left_early<S: Storage>(&self, job: JobId, rank: Rank, server: &Server<S>) -> bool {
        let member = server.job(job).and_then(|job| job.member(rank));
        self.has_spoken(job, rank) && member.is_some_and(|m| m.phase() == Phase::Lost)
    }

    /// The next connection to serve: to transmit, then to hand it an empty input.
    ///
    /// Changes after: any call on any connection or on any session of the server.
    pub fn next_ready<S: Storage>(&mut self, server: &mut Server<S>) -> Option<ConnectionId> {
        self.check_ended_fences(server);
        if core::mem::take(&mut server.has_new_names) {
            self.answer_lookups(server);
        }
        self.ready.pop(&mut self.connections, ready_link::<P>).map(ConnectionId)
    }

    /// The next event for the owner.
    ///
    /// Changes after: any call on any connection.
    pub fn poll_event(&mut self) -> Option<PmixEvent> {
        while let Some(id) = self.events_queue.pop(&mut self.connections, event_link::<P>) {
            let connection = self.connections.get_mut(id as usize);
            if let Some(event) = connection.and_then(|connection| connection.state.event.take()) {
                // The connection has paused its input until now.
                self.ready.push(&mut self.connections, id, ready_link::<P>);
                return Some(event);
            }
        }
        None
    }

    /// Time of the next call of [`handle_timeout`](Self::handle_timeout), if any.
    ///
    /// Changes after: every other call.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let all = (0..self.connections.end()).filter_map(|at| self.connections.get(at));
        all.filter_map(|connection| connection.state.deadline()).min()
    }

    /// Fails the connections that have not been identified in time, and times out requests.
    pub fn handle_timeout<S: Storage>(&mut self, now: Instant, server: &mut Server<S>) {
        server.now = now;
        for at in 0..self.connections.end() {
            let Some(Connection { state, .. }) = self.connections.get_mut(at) else { continue };
            let id = u32::try_from(at).unwrap_or(u32::MAX);
            if state.deadline.is_some_and(|deadline| deadline <= now) {
                state.fail(PeerError::TimedOut);
                self.ready.push(&mut self.connections, id, ready_link::<P>);
            }
            self.expire(ConnectionId(id), now, server);
            self.check_heartbeats(ConnectionId(id), now);
        }
    }

    /// Times out the requests of a connection.
    fn expire<S: Storage>(&mut self, id: ConnectionId, now: Instant, server: &mut Server<S>) {
        let mut left = None;
        while let Some((place, job, response)) =
            self.connections.get(id.0 as usize).and_then(|Connection { state, .. }| {
                let (place, pending) =
                    state.pending_requests().find(|(_, pending)| pending.is_late(now))?;
                Some((place, state.peer?.job, pending.response.clone()))
            })
        {
            match response {
                PmixResponse::Fence { .. } => {
                    self.expire_fence(job, server);
                    left = Some(job);
                }
                PmixResponse::QueuedFence { .. } => left = Some(job),
                PmixResponse::Collective { at, .. } => {
                    self.end_collective(at, Status::TIMEOUT, server)
                }
                _ => {}
            }
            // This includes requests whose collective is gone.
            self.resolve(id, place, PmixResponse::Status(Status::TIMEOUT));
        }
        // A fence queued behind one that has timed out is entered now.
        if let Some(job) = left {
            self.enter_queued(job, server);
        }
    }

    /// Makes a response due.
    fn resolve(&mut self, id: ConnectionId, pending: usize, response: PmixResponse<P::Bytes>) {
        if let Some(Connection { state, .. }) = self.connections.get_mut(id.0 as usize) {
            state.resolve(pending, response);
            self.ready.push(&mut self.connections, id.0, ready_link::<P>);
        }
    }
}

fn ready_link<P: PmixStorage>(
    connections: &mut ConnectionsOf<P>,
    id: u32,
) -> Option<&mut QueueLink> {
    Some(&mut connections.get_mut(id as usize)?.state.ready_link)
}

fn event_link<P: PmixStorage>(
    connections: &mut ConnectionsOf<P>,
    id: u32,
) -> Option<&mut QueueLink> {
    Some(&mut connections.get_mut(id as usize)?.state.event_link)
}
