//! State that requests of PMIx clients share, and its loans to their handlers.

use super::procs::ListedProc;
use super::tables::{NamespaceOf, PmixShared, PmixStorage};
use crate::error::PeerError;
use crate::ids::{Excerpt, JobId, ProcId, Rank};
use crate::server::member::Member;
use crate::server::shared::Shared;
use crate::server::{Job, JobOf, Storage};
use crate::storage::Slots;
use crate::time::{Duration, Instant};
use crate::wire::pmix::names::{Status, keys};
use crate::wire::pmix::{List, WILDCARD};
use core::ops::Range;

/// State that the handler of a request may modify besides its session.
pub(super) struct PmixContext<'a, P: PmixStorage, S: Storage<Pmix = P>> {
    pub(super) pmix: &'a mut PmixShared<P>,
    pub(super) common: &'a mut Shared<S>,
}

/// The same state, read-only.
pub(super) struct PmixView<'a, P: PmixStorage, S: Storage<Pmix = P>> {
    pub(super) pmix: &'a PmixShared<P>,
    pub(super) common: &'a Shared<S>,
}

/// Effect of a message outside its session.
pub(in crate::server) enum PmixEffect {
    Nothing,
    /// The peer has claimed a rank.
    Claimed {
        user: Option<u32>,
    },
    /// The peer is a tool, whose greeting is held.
    ToolClaimed {
        user: Option<u32>,
    },
    /// The greeting is invalid, and the owner has to reject the peer.
    InvalidGreeting {
        status: Status,
        why: PeerError,
    },
    /// The rank has committed data.
    Committed,
    /// A get waits for data of another node; the message stays in the inbox until the owner has read it.
    Fetched,
    /// The rank has published data.
    Published,
    /// The registrations of the session were extended.
    Registered,
    /// The peer has published an event.
    Happened {
        /// Its place in the cache.
        at: usize,
        /// True if servers of other nodes have to handle the request as well.
        is_forwarded: bool,
        /// Name of the place where the peer waits for a debugger; empty without one.
        stopped_at: Option<Excerpt>,
    },
    /// The rank has left a group.
    LeftGroup {
        /// Place of the cached event, if any.
        at: Option<usize>,
        /// As above.
        is_forwarded: bool,
    },
    /// The rank has entered the fence of its job, or will.
    Fenced {
        is_complete: bool,
    },
    /// The rank has joined the collective at this place.
    Entered(usize),
    /// The peer has requested a connect with a job of this name, which is unknown.
    UnknownJob {
        nspace: Excerpt,
    },
    /// The peer has finalized.
    Left,
    /// The owner has to answer; the message stays in the inbox until the owner has read it.
    HostRequest(usize),
    /// The rank aborts its job.
    Aborted {
        code: i32,
        message: Excerpt,
    },
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixContext<'_, P, S> {
    pub(super) fn view(&self) -> PmixView<'_, P, S> {
        PmixView { pmix: self.pmix, common: self.common }
    }
}

impl<'a, P: PmixStorage, S: Storage<Pmix = P>> PmixView<'a, P, S> {
    pub(super) fn job(self, job: JobId) -> Option<&'a JobOf<S>> {
        self.common.job(job)
    }

    pub(super) fn ranks(self, job: JobId) -> Range<u32> {
        self.job(job).map_or(0..0, Job::ranks)
    }

    /// Name of a job; empty if there is no such job.
    pub(super) fn nspace(self, job: JobId) -> &'a [u8] {
        self.job(job).map_or(b"", |job| job.name().as_bytes())
    }

    pub(super) fn member(self, proc: ProcId) -> Option<&'a Member> {
        self.job(proc.job)?.member(proc.rank)
    }

    pub(super) fn node(self, proc: ProcId) -> Option<u32> {
        Some(self.member(proc)?.node)
    }

    /// True if a process is gone, or never was. A process on another node counts as present.
    pub(super) fn is_gone(self, proc: ProcId) -> bool {
        let is_remote = self.job(proc.job).is_some_and(|job| job.is_remote(proc.rank));
        !is_remote && self.member(proc).is_none_or(Member::is_gone)
    }

    /// True if a process is on this node.
    pub(super) fn is_local(self, proc: ProcId) -> bool {
        self.job(proc.job).is_some_and(|job| !job.is_remote(proc.rank))
    }

    /// True if an entry of a list stands for a process on another node.
    pub(super) fn has_remote(self, listed: ListedProc) -> bool {
        self.job(listed.job).is_some_and(|job| match listed.rank {
            WILDCARD => job.has_remote(),
            rank => job.is_remote(Rank(rank)),
        })
    }

    /// True for a job of a run on several nodes, even if all of its ranks are on this one.
    pub(super) fn is_served_by_head(self, job: JobId) -> bool {
        self.job(job).is_some_and(Job::is_over_nodes)
    }

    /// True if the owner serves the published names of a job.
    pub(super) fn hands_names_up(self, job: JobId) -> bool {
        self.job(job).is_some_and(Job::hands_names_up)
    }

    /// The jobs that PMIx clients know, without those of other runs.
    pub(super) fn namespaces(self) -> impl Iterator<Item = &'a NamespaceOf<P>> + Clone {
        let namespaces = &self.pmix.namespaces;
        (0..namespaces.end())
            .filter_map(|at| namespaces.get(at))
            .filter(|namespace| namespace.foreign.is_none())
    }

    /// The job with this name.
    pub(super) fn named(self, nspace: &[u8]) -> Option<JobId> {
        let is = |id: &JobId| self.job(*id).is_some_and(|job| job.name().as_bytes() == nspace);
        self.namespaces().map(|namespace| namespace.job).find(is)
    }

    /// Deadline of a request: after the seconds of its timeout directive, of which 0 means none, or
    /// after `usual`.
    pub(super) fn deadline(self, infos: &List<'_>, usual: Option<Duration>) -> Option<Instant> {
        let now = self.common.now;
        let seconds = infos.find(keys::TIMEOUT).and_then(|value| value.number());
        match seconds {
            Some(seconds) if seconds > 0 => {
                Some(now.plus(Duration::from_secs(seconds.unsigned_abs())))
            }
            Some(_) => None,
            None => usual.map(|usual| now.plus(usual)),
        }
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> Clone for PmixView<'_, P, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> Copy for PmixView<'_, P, S> {}
