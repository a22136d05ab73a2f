//! The lent context: the state that all clients share, with all sessions for the owner, without them for the
//! handler of a request.
//!
//! A handler gets its session and [`Shared`]; what it does to other sessions is the returned [`PmixEffect`].

use super::procs::ListedProc;
use super::session::{PmixResponse, UnfinishedLimits};
use super::tables::{NamespaceOf, PmixSessionStateOf, PmixStorage};
use crate::error::PeerError;
use crate::ids::{Excerpt, JobId, ProcId, Rank, SessionId};
use crate::server::member::Member;
use crate::server::session::Session;
use crate::server::session_table::{READY, SessionTable};
use crate::server::shared::Shared;
use crate::server::{Job, JobOf, Storage};
use crate::storage::{Buffer, Slots};
use crate::time::{Duration, Instant};
use crate::wire::pmix::names::{Status, keys};
use crate::wire::pmix::{List, WILDCARD};
use core::ops::Range;

/// The PMIx part of a server ([`Server::pmix`](crate::server::Server::pmix)): the calls that only PMIx has.
/// Input, output, events and deadlines of its sessions are those of the [`Server`](crate::server::Server).
pub struct PmixServer<'a, P: PmixStorage + 'a, S: Storage<Pmix = P>> {
    pub(super) sessions: &'a mut SessionTable<S>,
    pub(super) shared: &'a mut Shared<S>,
}

/// The same, read-only ([`Server::pmix_ref`](crate::server::Server::pmix_ref)).
pub struct PmixServerRef<'a, P: PmixStorage + 'a, S: Storage<Pmix = P>> {
    pub(super) sessions: &'a SessionTable<S>,
    pub(super) shared: &'a Shared<S>,
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

impl<S: Storage> Shared<S> {
    /// A job, and its namespace to modify.
    pub(super) fn job_and_namespace(
        &mut self,
        id: JobId,
    ) -> Option<(&JobOf<S>, &mut NamespaceOf<S::Pmix>)> {
        self.jobs.get(id.0 as usize).zip(self.pmix.namespace_mut(id))
    }

    pub(super) fn ranks(&self, job: JobId) -> Range<u32> {
        self.job(job).map_or(0..0, Job::ranks)
    }

    /// Name of a job; empty if there is no such job.
    pub(super) fn nspace(&self, job: JobId) -> &[u8] {
        self.job(job).map_or(b"", |job| job.name().as_bytes())
    }

    pub(super) fn member(&self, proc: ProcId) -> Option<&Member> {
        self.job(proc.job)?.member(proc.rank)
    }

    pub(super) fn node(&self, proc: ProcId) -> Option<u32> {
        Some(self.member(proc)?.node)
    }

    /// True if a process is gone, or never was. A process on another node counts as present.
    pub(super) fn is_gone(&self, proc: ProcId) -> bool {
        let is_remote = self.job(proc.job).is_some_and(|job| job.is_remote(proc.rank));
        !is_remote && self.member(proc).is_none_or(Member::is_gone)
    }

    /// True if a process is on this node.
    pub(super) fn is_local(&self, proc: ProcId) -> bool {
        self.job(proc.job).is_some_and(|job| !job.is_remote(proc.rank))
    }

    /// True if an entry of a list stands for a process on another node.
    pub(super) fn has_remote(&self, listed: ListedProc) -> bool {
        self.job(listed.job).is_some_and(|job| match listed.rank {
            WILDCARD => job.has_remote(),
            rank => job.is_remote(Rank(rank)),
        })
    }

    /// True for a job whose run has other nodes or clients of its own, even if all ranks of the job are on
    /// this node.
    pub(super) fn is_served_by_head(&self, job: JobId) -> bool {
        self.job(job).is_some_and(Job::is_served_by_head)
    }

    /// True if the owner serves the published names of a job.
    pub(super) fn hands_names_up(&self, job: JobId) -> bool {
        self.job(job).is_some_and(Job::hands_names_up)
    }

    /// The jobs that PMIx clients know, without those of other runs.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &NamespaceOf<S::Pmix>> + Clone {
        let namespaces = &self.pmix.namespaces;
        (0..namespaces.end())
            .filter_map(|at| namespaces.get(at))
            .filter(|namespace| namespace.foreign.is_none())
    }

    /// The job with this name.
    pub(super) fn named(&self, nspace: &[u8]) -> Option<JobId> {
        let is = |id: &JobId| self.job(*id).is_some_and(|job| job.name().as_bytes() == nspace);
        self.namespaces().map(|namespace| namespace.job).find(is)
    }

    /// Deadline of a request: after the seconds of its timeout directive, of which 0 means none, or
    /// after `usual`.
    pub(super) fn deadline(&self, infos: &List<'_>, usual: Option<Duration>) -> Option<Instant> {
        let now = self.now;
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

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    pub(super) fn as_ref(&self) -> PmixServerRef<'_, P, S> {
        PmixServerRef { sessions: self.sessions, shared: self.shared }
    }

    /// Ends the fence of a job, and wakes its sessions.
    pub(super) fn end_fence(&mut self, job: JobId) {
        self.sessions.end_fence(self.shared, job);
    }

    /// Links a session, which was admitted, to the other ones of its process.
    pub(super) fn link(&mut self, id: SessionId, peer: ProcId) {
        let last = self.as_ref().of_peer(peer).last().map(|(last, _)| last);
        self.relink(peer, last, Some(id));
    }

    /// Removes a session from those of its process.
    pub(super) fn unlink(&mut self, id: SessionId, peer: ProcId) {
        let here = self.as_ref();
        let next = here.sessions.state(id).and_then(|state| state.protocol.next_of_peer);
        let before = here.of_peer(peer).find(|(_, state)| state.protocol.next_of_peer == Some(id));
        let before = before.map(|(before, _)| before);
        let is_first = here.of_peer(peer).next().is_some_and(|(first, _)| first == id);
        if is_first || before.is_some() {
            self.relink(peer, before, next);
        }
    }

    fn relink(&mut self, peer: ProcId, before: Option<SessionId>, next: Option<SessionId>) {
        match before {
            Some(before) => {
                if let Some(state) = self.sessions.state_mut(before) {
                    state.protocol.next_of_peer = next;
                }
            }
            None => {
                if let Some(data) = self.shared.pmix.rank_data_mut(peer) {
                    data.first_session = next;
                }
            }
        }
    }
}

impl<'a, P: PmixStorage, S: Storage<Pmix = P>> PmixServerRef<'a, P, S> {
    /// The sessions of a rank, from its admission until they are closed, in the order of admission.
    pub fn sessions(
        self,
        job: JobId,
        rank: Rank,
    ) -> impl Iterator<Item = SessionId> + use<'a, P, S> {
        self.of_peer(ProcId { job, rank }).map(|(id, _)| id)
    }

    /// The sessions admitted as a process.
    pub(super) fn of_peer(
        self,
        proc: ProcId,
    ) -> impl Iterator<Item = (SessionId, &'a PmixSessionStateOf<P>)> {
        let first = self.shared.pmix.rank_data(proc).and_then(|data| data.first_session);
        let state = move |id: &SessionId| self.sessions.state(*id)?.protocol.next_of_peer;
        let ids = core::iter::successors(first, state);
        ids.filter_map(move |id| Some((id, self.sessions.state(id)?)))
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> Clone for PmixServerRef<'_, P, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> Copy for PmixServerRef<'_, P, S> {}

impl<P: PmixStorage, S: Storage<Pmix = P>> core::fmt::Debug for PmixServer<'_, P, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PmixServer").finish_non_exhaustive()
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> core::fmt::Debug for PmixServerRef<'_, P, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PmixServerRef").finish_non_exhaustive()
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> SessionTable<S> {
    pub(in crate::server) fn state(&self, id: SessionId) -> Option<&PmixSessionStateOf<P>> {
        self.pmix(id).map(|session| &session.state)
    }

    pub(super) fn state_mut(&mut self, id: SessionId) -> Option<&mut PmixSessionStateOf<P>> {
        self.pmix_mut(id).map(|session| &mut session.state)
    }

    pub(super) fn states(&self) -> impl Iterator<Item = &PmixSessionStateOf<P>> {
        self.pmix_ids().filter_map(|id| self.state(id))
    }

    /// Makes a response due.
    pub(super) fn resolve(
        &mut self,
        id: SessionId,
        place: usize,
        response: PmixResponse<P::Bytes>,
    ) {
        if let Some(state) = self.state_mut(id) {
            state.resolve(place, response);
            self.push(READY, id);
        }
    }

    /// The limit that all unfinished messages together exceed, if this session has a share in that.
    pub(super) fn exceeded(&self, id: SessionId) -> Option<usize> {
        let UnfinishedLimits { rank_bytes, all_bytes } = self.unfinished;
        let own = self.pmix(id)?;
        // Looking at all takes time, and short messages are no share worth it.
        if own.inbox.as_slice().len() <= UNCOUNTED_BYTES.min(rank_bytes / 2) {
            return None;
        }
        let (mut of_rank, mut of_all) = (0_usize, 0_usize);
        for Session { inbox, state } in self.pmix_ids().filter_map(|id| self.pmix(id)) {
            let held = inbox.as_slice().len();
            of_all = of_all.saturating_add(held);
            if state.protocol.peer.is_some() && state.protocol.peer == own.state.protocol.peer {
                of_rank = of_rank.saturating_add(held);
            }
        }
        match (of_rank > rank_bytes, of_all > all_bytes) {
            (true, _) => Some(rank_bytes),
            (_, true) => Some(all_bytes),
            _ => None,
        }
    }
}

/// A session that holds less does not exceed a limit alone.
const UNCOUNTED_BYTES: usize = 64 << 10;
