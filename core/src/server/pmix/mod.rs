//! PMIx: what its clients ask for beyond the requests of PMI-1 and PMI-2.
//!
//! ```text
//!   bytes ── Session (input, lifecycle, pending requests) ── state ── a request
//!                                                              │
//!       Shared: members, fences, names of the server, and jobs as PMIx clients see them
//! ```
//!
//! A PMIx client asks for much more than a PMI client: committed data is kept by process and scope,
//! fences are of any processes, and values have types. This module holds all of that. The
//! [`Server`] holds the state common to the clients of all generations: the members of a job and
//! their phases, the fence of a whole job, and the names. So one job may have ranks of every
//! generation, whose sessions the owner serves alike.
//!
//! A handler gets the session that it serves and `Shared`, the state of the server without its
//! sessions. Its effect on other sessions is a returned value (`PmixEffect`), which
//! [`PmixServer`] applies.
//!
//! Answers may be long: the description of a job, or all committed data of a process. They are
//! packed once, into a [`SharedBytes`], and sent piece by piece as there is room. Later commits
//! never change an answer that is being sent.
//!
//! Requests that only the owner can fulfil (start processes, signal them, remove files) are
//! reported as an [`Event`](super::Event); the owner reads the request in place, and answers it.
//! Calls that only PMIx has are lent by [`Server::pmix`] and [`Server::pmix_ref`].
//!
//! # Files
//!
//! A file uses none of a row above its own, and no files use each other:
//!
//! ```text
//!   calls of the owner   host · lifecycle (effects, output, deadlines, end of a session)
//!   messages             state (requests by phase) · admission (greetings) · waits
//!   chapters of PMIx     groups · fence · collectives · foreign (jobs of other runs) · get · modex
//!                        job_info · events · publish · query · forward (for all nodes) · shared_store
//!   lent context         rank_set (ranks that stand for several) · context
//!   owned state          tables · namespace (a job, its description) · session · rank_data · event_cache
//!   values               procs · heartbeat · group_participant · directives · shared_bytes
//! ```

mod admission;
mod collectives;
pub(super) mod context;
mod directives;
mod event_cache;
mod events;
mod fence;
mod foreign;
mod forward;
mod get;
mod group_participant;
mod groups;
mod heartbeat;
mod host;
mod job_info;
mod lifecycle;
mod modex;
mod namespace;
mod procs;
mod publish;
mod query;
mod rank_data;
mod rank_set;
pub(super) mod session;
mod shared_bytes;
mod shared_store;
mod state;
pub(super) mod tables;
mod waits;

pub use collectives::{CollectiveEnd, CollectivePart, collective_blocks};
pub use context::{PmixServer, PmixServerRef};
pub use event_cache::{CachedEvent, Notification};
pub use foreign::{ForeignJob, ForeignProcs, ForeignRanks};
pub use forward::ForwardedRequest;
pub use group_participant::{GroupParticipant, participants as group_participants};
pub use host::ForwardedOutput;
pub use modex::{ModexAnswer, ModexRequest};
pub use namespace::Namespace;
pub use publish::{EndedPublisher, NamesReply};
pub use query::QueryItem;
pub use rank_data::{ModexBlob, RankData};
pub use session::{PendingRequest, PmixPeerState, UnfinishedLimits};
pub use shared_bytes::SharedBytes;
pub use shared_store::CommittedData;
pub use tables::{
    CollectiveKind, OpenCollective, PmixPeerStateOf, PmixSessionOf, PmixStorage, PmixTables,
    ProcessGroup, PublishedValue,
};
pub use waits::PmixWait;

use self::tables::PmixShared;
use super::session_table::SessionTable;
use super::shared::Shared;
use super::storage::{JobsOf, SessionsOf};
use super::{Server, Storage};

impl<P: PmixStorage, S: Storage<Pmix = P>> Server<S> {
    /// Creates a server that serves PMIx clients, too; otherwise as [`new`](Self::new).
    pub fn with_pmix(
        sessions: SessionsOf<S>,
        jobs: JobsOf<S>,
        names: S::Kvs,
        tables: PmixTables<P>,
    ) -> Self {
        let (pmix, of_pmix) = PmixShared::new(tables);
        let sessions = SessionTable::new(sessions, of_pmix);
        Self { sessions, shared: Shared::new(jobs, names, pmix), spawns: 0 }
    }

    /// Lends the calls that only PMIx has.
    pub const fn pmix(&mut self) -> PmixServer<'_, P, S> {
        PmixServer { sessions: &mut self.sessions, shared: &mut self.shared }
    }

    /// Lends those that change nothing.
    pub const fn pmix_ref(&self) -> PmixServerRef<'_, P, S> {
        PmixServerRef { sessions: &self.sessions, shared: &self.shared }
    }
}
