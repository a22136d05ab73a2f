//! Joining a collective: matching a request to an open one by kind, name and members.
//!
//! Two requests belong to the same collective if kind, group name and processes match, regardless
//! of the order of the processes and of wildcards for whole jobs. The processes are stored as the
//! first participant listed them, and as a digest that lists are compared by.

use super::context::{PmixContext, PmixEffect, PmixView};
use super::procs::{ListedProc, MembershipDigest, pack_procs, unpack_procs};
use super::session::PmixResponse;
use super::shared_bytes::copy_bytes;
use super::tables::{
    CollectiveKind, CollectiveUplink, OpenCollective, PmixSessionStateOf, PmixStorage,
};
use crate::ids::{JobId, ProcId};
use crate::server::Storage;
use crate::storage::Slots;
use crate::time::Instant;
use crate::wire::pmix::names::Status;
use crate::wire::pmix::{List, Proc, WILDCARD};

/// Request of a process to join a collective.
pub(super) struct CollectiveRequest<'a, B> {
    pub(super) kind: CollectiveKind,
    /// The group that it is about, or its processes of other runs.
    pub(super) name: Option<&'a [u8]>,
    pub(super) participants: Participants<'a>,
    /// Deadline of the request.
    pub(super) deadline: Option<Instant>,
    /// Body of the request, if the other participants need it.
    pub(super) contributed: Option<B>,
}

/// Participants of a collective.
#[derive(Clone, Copy)]
pub(super) enum Participants<'a> {
    Listed(&'a List<'a>),
    /// Those that are listed of jobs of this server; the others are of other runs.
    Known(&'a List<'a>),
    /// The members of a group.
    Members(&'a [u8]),
    /// Unknown until the leaders of a bootstrap have joined.
    Any,
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixContext<'_, P, S> {
    /// Joins an open collective that matches, or opens one.
    pub(super) fn join(
        &mut self,
        state: &mut PmixSessionStateOf<P>,
        tag: u32,
        peer: ProcId,
        request: CollectiveRequest<'_, P::Bytes>,
    ) -> PmixEffect {
        let CollectiveRequest { kind, name, participants, deadline, contributed } = request;
        match self.find_or_open(state, peer, kind, name, participants) {
            Ok(at) => {
                state.push_response(tag, PmixResponse::Collective { at, deadline, contributed });
                PmixEffect::Entered(at)
            }
            Err(status) => {
                state.push_response(tag, PmixResponse::Status(status));
                PmixEffect::Nothing
            }
        }
    }

    /// Place of the collective that a participant joins, which counts it.
    fn find_or_open(
        &mut self,
        state: &PmixSessionStateOf<P>,
        peer: ProcId,
        kind: CollectiveKind,
        name: Option<&[u8]>,
        participants: Participants<'_>,
    ) -> Result<usize, Status> {
        let digest = self.view().digest(participants).ok_or(Status::NOT_FOUND)?;
        let is_over_nodes = self.view().is_over_nodes(peer, kind, participants);
        // A participant that has already joined a matching collective starts, or joins, the next
        // one.
        let collectives = &self.pmix.collectives;
        let found = (0..collectives.end()).find(|at| {
            let open = collectives.get(*at);
            let is_it = |open: &OpenCollective<_>| {
                open.is(kind, name)
                    && open.digest == digest
                    && !matches!(open.uplink, CollectiveUplink::Withdrawn(_))
            };
            open.is_some_and(is_it) && state.in_collective(*at).is_none()
        });
        let at = match found {
            Some(at) => at,
            None => {
                let name = match name {
                    Some(name) => Some(copy_bytes(name).ok_or(Status::NOMEM)?),
                    None => None,
                };
                let participants = self.view().listed(participants).ok_or(Status::NOMEM)?;
                let uplink = match is_over_nodes {
                    true => CollectiveUplink::Open,
                    false => CollectiveUplink::None,
                };
                let local_count = match kind {
                    // Nothing is handed up yet.
                    CollectiveKind::Bootstrap => 0,
                    _ => self.view().count_local(digest, participants.as_ref()),
                };
                let open = OpenCollective {
                    kind,
                    name,
                    participants,
                    digest,
                    inside: 0,
                    local_count,
                    uplink,
                };
                self.pmix.collectives.insert(open).ok_or(Status::OUT_OF_RESOURCE)?
            }
        };
        // It was found or opened above.
        let open = self.pmix.collectives.get_mut(at).ok_or(Status::OUT_OF_RESOURCE)?;
        let is_wrong = !open.has(peer) || open.inside == 0 && open.names_twice();
        if kind != CollectiveKind::Bootstrap && is_wrong {
            if open.inside == 0 {
                self.pmix.collectives.remove(at);
            }
            return Err(Status::BAD_PARAM);
        }
        open.inside = open.inside.saturating_add(1);
        Ok(at)
    }

    /// Removes a departed process from pending destructs of a group of these `members`, which do
    /// not wait for it.
    pub(super) fn shrink_collectives(&mut self, name: &[u8], members: &P::Bytes, rest: &P::Bytes) {
        let digest = self.view().digest(Participants::Members(rest.as_ref())).unwrap_or_default();
        let local_count = self.view().count_local(digest, rest.as_ref());
        let collectives = &mut self.pmix.collectives;
        for at in 0..collectives.end() {
            let Some(open) = collectives.get_mut(at) else { continue };
            if open.is(CollectiveKind::Destruct, Some(name))
                && open.participants.as_ref() == members.as_ref()
            {
                (open.participants, open.digest) = (rest.clone(), digest);
                open.local_count = local_count;
                // Other nodes have to be asked anew, for fewer participants.
                if let CollectiveUplink::Sent(part) = open.uplink {
                    open.uplink = CollectiveUplink::Due(part);
                    self.pmix.has_collective_event = true;
                }
            }
        }
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixView<'_, P, S> {
    /// True if these are all processes of one job.
    pub(super) fn is_world(self, job: JobId, participants: Participants<'_>) -> bool {
        let Some(name) = self.job(job).map(|job| job.name().as_bytes()) else { return false };
        let world = || Some(self.expand(ListedProc { job, rank: WILDCARD }).collect());
        let Participants::Listed(procs) = participants else {
            return self.digest(participants) == world();
        };
        if procs.procs().any(|proc| proc.nspace != name) {
            return false;
        }
        let is_all = |proc: Proc<'_>| proc.rank == WILDCARD;
        procs.procs().any(is_all) || self.digest(participants) == world()
    }

    /// True if a participant is on another node, or may be, and for each group of a run on several nodes: its
    /// context id is unique in the run.
    fn is_over_nodes(
        self,
        peer: ProcId,
        kind: CollectiveKind,
        participants: Participants<'_>,
    ) -> bool {
        let own = ListedProc { job: peer.job, rank: WILDCARD };
        match participants {
            _ if kind == CollectiveKind::Construct && self.is_served_by_head(peer.job) => true,
            // Other runs have participants.
            Participants::Known(_) => true,
            Participants::Listed(procs) => procs
                .procs()
                .filter_map(|proc| self.listed_proc(proc))
                .any(|listed| self.has_remote(listed)),
            Participants::Members(members) => {
                unpack_procs(members).any(|listed| self.has_remote(listed))
            }
            Participants::Any => self.has_remote(own),
        }
    }

    /// Number of processes of a packed list that are on this node.
    fn count_local(self, all: MembershipDigest, procs: &[u8]) -> u32 {
        if unpack_procs(procs).all(|listed| !self.has_remote(listed)) {
            return all.count;
        }
        let here = unpack_procs(procs).flat_map(|listed| self.expand(listed));
        u32::try_from(here.filter(|proc| self.is_local(*proc)).count()).unwrap_or(u32::MAX)
    }

    /// The processes that an entry of a list stands for.
    pub(super) fn expand(self, listed: ListedProc) -> impl Iterator<Item = ProcId> {
        listed.expand(self.ranks(listed.job))
    }

    /// The entry of a list that a client sent; `None` if there is no such process.
    pub(super) fn listed_proc(self, proc: Proc<'_>) -> Option<ListedProc> {
        let job = self.named(proc.nspace)?;
        let is_there = proc.rank == WILDCARD || self.ranks(job).contains(&proc.rank);
        is_there.then_some(ListedProc { job, rank: proc.rank })
    }

    /// Digest of the participants; `None` if one does not exist.
    fn digest(self, participants: Participants<'_>) -> Option<MembershipDigest> {
        let of = |listed| self.expand(listed).collect::<MembershipDigest>();
        match participants {
            Participants::Listed(procs) => {
                procs.procs().try_fold(MembershipDigest::default(), |sum, proc| {
                    Some(sum.and(of(self.listed_proc(proc)?)))
                })
            }
            Participants::Known(procs) => {
                let known = procs.procs().filter(|proc| self.named(proc.nspace).is_some());
                { known }.try_fold(MembershipDigest::default(), |sum, proc| {
                    Some(sum.and(of(self.listed_proc(proc)?)))
                })
            }
            Participants::Members(members) => {
                let each = unpack_procs(members).map(of);
                Some(each.fold(MembershipDigest::default(), MembershipDigest::and))
            }
            Participants::Any => Some(MembershipDigest::default()),
        }
    }

    fn listed(self, participants: Participants<'_>) -> Option<P::Bytes> {
        match participants {
            // The digest has shown that each exists.
            Participants::Listed(procs) | Participants::Known(procs) => {
                pack_procs(|| procs.procs().filter_map(|proc| self.listed_proc(proc)))
            }
            Participants::Members(members) => copy_bytes(members),
            Participants::Any => copy_bytes(b""),
        }
    }
}

impl<'a, B> CollectiveRequest<'a, B> {
    /// Request for a collective without a group.
    pub(super) const fn of(
        kind: CollectiveKind,
        procs: &'a List<'a>,
        deadline: Option<Instant>,
    ) -> Self {
        Self {
            kind,
            name: None,
            participants: Participants::Listed(procs),
            deadline,
            contributed: None,
        }
    }
}
