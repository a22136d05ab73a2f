//! Sessions of PMIx clients, beside those of PMI-1 and PMI-2.
//!
//! ```text
//!   bytes ── Connection (bytes, identity, responses) ── state ── a request
//!                                                         │
//!       PmixContext: jobs as PMIx clients see them, and members, fences, names of the server
//! ```
//!
//! A PMIx client asks for much more than a PMI client: committed data is kept by process and scope,
//! fences are of any processes, and values have types. This module holds all of that. The
//! [`Server`] holds the state common to the clients of all generations: the members of a job and
//! their phases, the fence of a whole job, and the names. [`Server::pmix`] lends both together, so
//! that one job may have ranks of every generation.
//!
//! A handler gets the connection that it serves and a `PmixContext`, which is the shared state
//! without connections and sessions. Its effect on those is a returned value (`PmixEffect`), which
//! [`PmixServer`] applies.
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
mod commit;
mod completion;
mod connection;
mod connections;
mod context;
mod directives;
mod event;
mod events;
mod fence;
mod get;
mod group;
mod group_construct;
mod group_invite;
mod groups;
mod heartbeat;
mod host;
mod input;
mod machine;
mod modex;
mod namespace;
mod publish;
mod published_value;
mod query;
mod realm;
mod registrations;
mod remote_modex;
mod resolve;
mod response;
mod server;
mod shared_bytes;
mod state;
mod storage;
mod waits;

pub use cached_event::{CachedEvent, Notification};
pub use collective::{CollectiveKind, OpenCollective};
pub use connection::Connection;
pub use connections::UnfinishedLimits;
pub use event::{ConnectionId, PmixEvent};
pub use group::ProcessGroup;
pub use machine::ConnectionMut;
pub use modex::{ModexBlob, RankData};
pub use namespace::Namespace;
pub use published_value::PublishedValue;
pub use query::QueryItem;
pub use response::PendingRequest;
pub use server::{PmixServer, PmixServerRef};
pub use shared_bytes::SharedBytes;
pub use storage::{PmixStorage, PmixTables};
pub use waits::PmixWait;

use self::connections::ConnectionTable;
use self::context::{PmixContext, PmixShared, PmixView};
use self::storage::{PendingOf, RanksOf};
use super::{Server, Storage};
use crate::error::Misuse;
use crate::ids::{JobId, ProcId, Rank};
use crate::storage::Slots;
use crate::time::Instant;

/// PMIx sessions of a [`Server`], without I/O.
pub struct Pmix<P: PmixStorage> {
    connections: ConnectionTable<P>,
    shared: PmixShared<P>,
}

impl<P: PmixStorage> core::fmt::Debug for Pmix<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pmix").finish_non_exhaustive()
    }
}

impl<S: Storage> Server<S> {
    /// Lends the PMIx sessions of the server's jobs together with these.
    pub const fn pmix<'a, P: PmixStorage>(
        &'a mut self,
        pmix: &'a mut Pmix<P>,
    ) -> PmixServer<'a, P, S> {
        PmixServer {
            connections: &mut pmix.connections,
            context: PmixContext { pmix: &mut pmix.shared, common: &mut self.shared },
            sessions: &mut self.sessions,
        }
    }

    /// Lends them read-only.
    pub const fn pmix_ref<'a, P: PmixStorage>(
        &'a self,
        pmix: &'a Pmix<P>,
    ) -> PmixServerRef<'a, P, S> {
        let view = PmixView { pmix: &pmix.shared, common: &self.shared };
        PmixServerRef { connections: &pmix.connections, view }
    }
}

impl<P: PmixStorage> Pmix<P> {
    /// Creates the sessions without connections and jobs.
    pub fn new(tables: PmixTables<P>) -> Self {
        let PmixTables { connections, jobs: namespaces, collectives, names, events, groups } =
            tables;
        Self {
            connections: ConnectionTable::new(connections),
            shared: PmixShared {
                namespaces,
                collectives,
                names,
                events,
                groups,
                has_waiting_lookup: false,
                contexts: 0,
            },
        }
    }

    /// Limits what inboxes hold together from now on. A connection that exceeds a limit ends with
    /// [`PeerError::UnfinishedTooLong`](crate::error::PeerError::UnfinishedTooLong).
    pub const fn limit_unfinished(&mut self, limits: UnfinishedLimits) {
        self.connections.limit_unfinished(limits);
    }

    /// Lets PMIx clients into a job of the server. `info` is the job description: KVALs as they
    /// stand behind the namespace in the answer to REQ, in
    /// [`Format::PLAIN`](crate::wire::pmix::Format::PLAIN). `posts` has an element for each
    /// member of the job, with the same ranks.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoRoom`] if there is no slot for the job.
    pub fn add_job(&mut self, job: JobId, info: P::Bytes, posts: RanksOf<P>) -> Result<(), Misuse> {
        let namespace = Namespace::new(job, info, posts);
        let added = self.shared.namespaces.insert(namespace);
        added.map(drop).ok_or(Misuse::NoRoom { what: "job" })
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
        let connection = Connection::new(inbox, pendings, deadline);
        self.connections.insert(connection).ok_or(Misuse::NoRoom { what: "connection" })
    }

    /// The process of a connection that was admitted.
    pub fn peer(&self, id: ConnectionId) -> Option<ProcId> {
        let state = self.connections.state(id)?;
        state.peer.filter(|_| state.is_admitted)
    }

    /// True if a connection was ever admitted as this rank.
    pub fn was_admitted(&self, job: JobId, rank: Rank) -> bool {
        self.shared.rank_data(ProcId { job, rank }).is_some_and(|data| data.was_admitted)
    }

    /// The next event for the owner.
    ///
    /// Changes after: any call on any connection.
    pub fn poll_event(&mut self) -> Option<PmixEvent> {
        self.connections.next_event()
    }

    /// Time of the next call of [`PmixServer::handle_timeout`], if any.
    ///
    /// Changes after: every other call.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.connections.states().filter_map(|state| state.deadline()).min()
    }
}
