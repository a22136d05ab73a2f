//! Collectives: operations of several processes, of one job or of several.
//!
//! Two requests belong to the same collective if kind, group name and processes match, regardless
//! of the order of the processes and of wildcards for whole jobs. The processes are stored as the
//! first participant listed them, and as a digest that lists are compared by. A collective completes when
//! all participants have joined or are gone.
//!
//! # Several nodes
//!
//! A collective whose participants of this node have joined, or are gone, is handed up. The owner gathers
//! the parts of all nodes that have participants: parts with the same kind, group and participants belong
//! together. The part of a bootstrap, which has no list, is handed up anew with each participant; the owner
//! ends it when all processes that leaders name have joined ([`GroupParticipant`](super::GroupParticipant)).
//! The result has the data of all parts, one after the other:
//!
//! | kind | data of a part |
//! |---|---|
//! | fence, connect, disconnect | for each job, its number, the length, and [`BlockRecord::Modex`] of the participants |
//! | construct, bootstrap | for each participant, its name, flags, the infos that it contributes, and the processes that it names as a leader |
//! | destruct | none |

use super::context::{PmixEffect, PmixServer, PmixServerRef};
use super::foreign::{ForeignProcs, ForeignRanks};
use super::group_participant::check_participants;
use super::procs::{ListedProc, MembershipDigest, pack_procs, unpack_procs};
use super::rank_data::record_of;
use super::session::PmixResponse;
use super::shared_bytes::{SharedBytes, copy_bytes, pack};
use super::tables::{
    BytesOf, CollectiveKind, CollectiveUplink, HandedUp, OpenCollective, PmixSessionStateOf,
    PmixShared, PmixStorage,
};
use crate::error::Malformed;
use crate::ids::{Excerpt, JobId, ProcId};
use crate::server::member::Member;
use crate::server::shared::Shared;
use crate::server::{Event, RemoteError, Storage, connected_jobs};
use crate::storage::Slots;
use crate::store::{BlockError, BlockRecord};
use crate::time::Instant;
use crate::wire::pmix::names::Status;
use crate::wire::pmix::request::Collective;
use crate::wire::pmix::{List, Proc, Type, WILDCARD};

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

/// Part of this node in a collective that was handed up.
#[derive(Clone, Debug)]
pub struct CollectivePart<'a, B> {
    /// Kind of the collective.
    pub kind: CollectiveKind,
    /// The group that it is about; of a fence, a connect or a disconnect, its processes of other runs
    /// ([`ForeignProcs`]).
    pub name: Option<&'a [u8]>,
    /// True if participants of this node are gone without having joined.
    pub is_partial: bool,
    /// Data for the other nodes.
    pub data: B,
}

/// Result of a collective of several nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveEnd<'a> {
    /// Context id of a constructed group, which no other group of the jobs has.
    pub serial: u32,
    /// True if participants of any node are gone without having joined.
    pub is_partial: bool,
    /// Data of the parts of all nodes, that of this node among them.
    pub data: &'a [u8],
}

impl<S: Storage> Shared<S> {
    /// Joins a fence, connect or disconnect of these processes.
    pub(super) fn join_listed(
        &mut self,
        state: &mut PmixSessionStateOf<S::Pmix>,
        tag: u32,
        peer: ProcId,
        kind: CollectiveKind,
        collective: &Collective<'_>,
    ) -> PmixEffect {
        let deadline = self.deadline(&collective.infos, None);
        let request = CollectiveRequest::of(kind, &collective.procs, deadline);
        match self.pack_foreign(&collective.procs) {
            None => {
                let mut names = collective.procs.procs().map(|proc| proc.nspace);
                let unknown = names.find(|nspace| self.named(nspace).is_none());
                match unknown.filter(|_| kind == CollectiveKind::Connect) {
                    Some(nspace) => {
                        state.push_response(tag, PmixResponse::Status(Status::NOT_FOUND));
                        PmixEffect::UnknownJob { nspace: Excerpt::new(nspace.iter().copied()) }
                    }
                    None => self.join(state, tag, peer, request),
                }
            }
            Some(Ok(others)) => {
                let participants = Participants::Known(&collective.procs);
                let name = Some(others.as_ref());
                self.join(state, tag, peer, CollectiveRequest { name, participants, ..request })
            }
            Some(Err(status)) => {
                state.push_response(tag, PmixResponse::Status(status));
                PmixEffect::Nothing
            }
        }
    }
}

impl<S: Storage> Shared<S> {
    /// Joins an open collective that matches, or opens one.
    pub(super) fn join(
        &mut self,
        state: &mut PmixSessionStateOf<S::Pmix>,
        tag: u32,
        peer: ProcId,
        request: CollectiveRequest<'_, BytesOf<S>>,
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
        state: &PmixSessionStateOf<S::Pmix>,
        peer: ProcId,
        kind: CollectiveKind,
        name: Option<&[u8]>,
        participants: Participants<'_>,
    ) -> Result<usize, Status> {
        let digest = self.digest(participants).ok_or(Status::NOT_FOUND)?;
        let is_over_nodes = self.is_over_nodes(peer, kind, participants);
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
                let participants = self.listed(participants).ok_or(Status::NOMEM)?;
                let uplink = match is_over_nodes {
                    true => CollectiveUplink::Open,
                    false => CollectiveUplink::None,
                };
                let local_count = match kind {
                    // Nothing is handed up yet.
                    CollectiveKind::Bootstrap => 0,
                    _ => self.count_local(digest, participants.as_ref()),
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
    pub(super) fn shrink_collectives(
        &mut self,
        name: &[u8],
        members: &BytesOf<S>,
        rest: &BytesOf<S>,
    ) {
        let digest = self.digest(Participants::Members(rest.as_ref())).unwrap_or_default();
        let local_count = self.count_local(digest, rest.as_ref());
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

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Completes a collective if all participants have joined or are gone.
    pub(super) fn check_collective(&mut self, at: usize) {
        let Some(open) = self.shared.pmix.collectives.get(at) else { return };
        if open.kind == CollectiveKind::Bootstrap {
            return self.check_bootstrap(at);
        }
        if !matches!(open.uplink, CollectiveUplink::None | CollectiveUplink::Open) {
            return;
        }
        let here = self.as_ref();
        let mut missing = open.local_count.saturating_sub(open.inside);
        let mut gone = 0;
        if missing > 0 {
            gone = here.gone_from(open, at);
            missing = missing.saturating_sub(gone);
        }
        if missing > 0 {
            return;
        }
        if here.has_multiple_sessions(at) {
            let local = here.members(open).filter(|member| here.shared.is_local(*member));
            let absent = local.filter(|member| !here.is_in(at, *member)).count();
            gone = here.gone_from(open, at);
            if u32::try_from(absent).unwrap_or(u32::MAX) > gone {
                return;
            }
        }
        if open.uplink == CollectiveUplink::Open {
            return self.hand_up_collective(at, gone > 0);
        }
        let status = if gone > 0 { Status::PARTIAL_SUCCESS } else { Status::SUCCESS };
        self.end_collective(at, status);
    }

    /// Checks all collectives, because a process is gone.
    pub(super) fn check_collectives(&mut self) {
        for at in 0..self.shared.pmix.collectives.end() {
            self.check_collective(at);
        }
    }

    /// Aborts the collectives with participants of a removed job, whose number may be reused.
    pub(super) fn abort_collectives_of(&mut self, job: JobId) {
        for at in 0..self.shared.pmix.collectives.end() {
            let open = self.shared.pmix.collectives.get(at);
            if open.is_some_and(|open| open.listed().any(|of| of.job == job)) {
                self.end_collective(at, Status::NOT_FOUND);
            }
        }
    }

    /// Answers the participants that have joined, and removes the collective.
    pub(super) fn end_collective(&mut self, at: usize, status: Status) {
        self.finish_collective(at, status, None);
    }

    /// The same, with the result of the nodes if others have taken part.
    pub(super) fn finish_collective(
        &mut self,
        at: usize,
        status: Status,
        result: Option<&CollectiveEnd<'_>>,
    ) {
        let Some(ended) = self.shared.pmix.collectives.remove(at) else { return };
        let constructed = match ended.kind {
            CollectiveKind::Construct | CollectiveKind::Bootstrap => {
                Some(self.make_group(at, &ended, status, result))
            }
            _ => None,
        };
        if ended.kind == CollectiveKind::Destruct && status != Status::TIMEOUT {
            self.shared.remove_group(&ended);
        }
        for id in self.sessions.pmix_ids() {
            let Some(state) = self.sessions.state(id) else { continue };
            let Some(place) = state.in_collective(at) else { continue };
            let shared = &*self.shared;
            let response = match (ended.kind, state.protocol.peer, &constructed) {
                (CollectiveKind::Connect, Some(peer), _) if status == Status::SUCCESS => {
                    shared.connect_response(&ended, peer.job, state)
                }
                (_, _, Some(Ok(constructed))) => shared.construct_response(constructed, state),
                (_, _, Some(Err(status))) => PmixResponse::Status(*status),
                _ => PmixResponse::Status(status),
            };
            self.sessions.resolve(id, place, response);
        }
        if status == Status::SUCCESS {
            self.note_connection(&ended);
        }
        if let Some(others) = ended.others() {
            let kind = if status == Status::SUCCESS { ended.kind } else { CollectiveKind::Fence };
            self.count_connects(kind, others);
        }
        if result.is_none() {
            self.withdraw_collective(&ended);
        }
    }

    /// Connects the jobs of a connect with each other, and ends the connections of those of a disconnect in
    /// which all processes of one of two jobs have taken part.
    fn note_connection(&mut self, ended: &OpenCollective<P::Bytes>) {
        let is_connect = ended.kind == CollectiveKind::Connect;
        if !is_connect && ended.kind != CollectiveKind::Disconnect {
            return;
        }
        let count = u32::try_from(self.shared.jobs.end()).unwrap_or(u32::MAX);
        let takes_part = |job: &JobId| ended.listed().any(|listed| listed.job == *job);
        for one in (0..count).map(JobId).filter(takes_part) {
            for other in (one.0.saturating_add(1)..count).map(JobId).filter(takes_part) {
                if is_connect {
                    // A job without room stays unconnected; its processes know each other all the same.
                    connected_jobs::connect(&mut self.shared.jobs, one, other);
                } else if self.is_whole(ended, one) || self.is_whole(ended, other) {
                    connected_jobs::disconnect(&mut self.shared.jobs, one, other);
                }
            }
        }
    }

    /// True if all processes of a job take part.
    fn is_whole(&self, ended: &OpenCollective<P::Bytes>, job: JobId) -> bool {
        let shared = self.as_ref().shared;
        let members = ended.listed().filter(|listed| listed.job == job);
        members.flat_map(|listed| shared.expand(listed)).count()
            >= shared.job(job).map_or(0, |job| job.size()) as usize
    }

    /// Removes a participant that has joined.
    pub(super) fn leave_collective(&mut self, at: usize) {
        let collectives = &mut self.shared.pmix.collectives;
        let Some(open) = collectives.get_mut(at) else { return };
        open.inside = open.inside.saturating_sub(1);
        if open.inside == 0 {
            collectives.remove(at);
        }
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Ends a collective that was handed up. Nothing happens if it has ended here, because all of its
    /// participants have gone or have timed out.
    ///
    /// # Errors
    ///
    /// [`RemoteError::Block`] for malformed data, or without room for it; the collective has not ended then.
    pub fn end_remote_collective(
        &mut self,
        number: u32,
        end: &CollectiveEnd<'_>,
    ) -> Result<(), RemoteError> {
        let Some((at, open)) = self.as_ref().find_handed_up(number) else { return Ok(()) };
        match open.kind {
            CollectiveKind::Fence | CollectiveKind::Connect | CollectiveKind::Disconnect => {
                self.add_fence_data(end.data)?;
            }
            CollectiveKind::Construct | CollectiveKind::Bootstrap => {
                check_participants(end.data).map_err(malformed)?;
            }
            CollectiveKind::Destruct => {}
        }
        let status = if end.is_partial { Status::PARTIAL_SUCCESS } else { Status::SUCCESS };
        self.finish_collective(at, status, Some(end));
        Ok(())
    }

    /// Ends a collective with other runs, which was handed up, with this status: they take no part.
    pub fn fail_remote_collective(&mut self, number: u32, status: Status) {
        let found = self.as_ref().find_handed_up(number);
        if let Some((at, _)) = found.filter(|(_, open)| open.others().is_some()) {
            let end = CollectiveEnd { serial: 0, is_partial: true, data: &[] };
            self.finish_collective(at, status, Some(&end));
        }
    }

    fn add_fence_data(&mut self, data: &[u8]) -> Result<(), RemoteError> {
        for block in collective_blocks(data) {
            let (job, block) = block.map_err(malformed)?;
            self.add_modex(job, block)?;
        }
        Ok(())
    }

    /// Marks a collective whose part on this node is complete, or has changed: it keeps its number then.
    pub(super) fn hand_up_collective(&mut self, at: usize, is_partial: bool) {
        let pmix = &mut self.shared.pmix;
        let former = pmix.collectives.get(at).and_then(OpenCollective::handed_up);
        let number = match former {
            Some(part) => part.number,
            None => {
                pmix.handed_up = pmix.handed_up.wrapping_add(1);
                pmix.handed_up
            }
        };
        pmix.mark_elsewhere(at);
        if let Some(open) = pmix.collectives.get_mut(at) {
            let part = HandedUp { number, is_partial };
            open.uplink = CollectiveUplink::Due(part);
            pmix.has_collective_event = true;
        }
    }

    /// Reports that a collective has ended here without its result.
    pub(super) fn withdraw_collective(&mut self, ended: &OpenCollective<P::Bytes>) {
        let Some(part) = ended.handed_up() else { return };
        let withdrawn = OpenCollective {
            uplink: CollectiveUplink::Withdrawn(part),
            inside: 0,
            ..ended.clone()
        };
        self.shared.pmix.collectives.insert(withdrawn);
        self.shared.pmix.has_collective_event = true;
    }

    /// The next collective that the owner has to hand up or to withdraw.
    pub(in crate::server) fn take_collective_event(&mut self) -> Option<Event> {
        let pmix = &mut self.shared.pmix;
        if !pmix.has_collective_event {
            return None;
        }
        for at in 0..pmix.collectives.end() {
            let Some(open) = pmix.collectives.get_mut(at) else { continue };
            match open.uplink {
                CollectiveUplink::Due(part) => {
                    open.uplink = CollectiveUplink::Sent(part);
                    return Some(Event::CollectiveHandedUp { number: part.number });
                }
                CollectiveUplink::Withdrawn(HandedUp { number, .. }) => {
                    pmix.collectives.remove(at);
                    return Some(Event::CollectiveWithdrawn { number });
                }
                _ => {}
            }
        }
        pmix.has_collective_event = false;
        None
    }
}

impl<S: Storage> Shared<S> {
    /// True if these are all processes of one job.
    pub(super) fn is_world(&self, job: JobId, participants: Participants<'_>) -> bool {
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
        &self,
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
    fn count_local(&self, all: MembershipDigest, procs: &[u8]) -> u32 {
        if unpack_procs(procs).all(|listed| !self.has_remote(listed)) {
            return all.count;
        }
        let here = unpack_procs(procs).flat_map(|listed| self.expand(listed));
        u32::try_from(here.filter(|proc| self.is_local(*proc)).count()).unwrap_or(u32::MAX)
    }

    /// The processes that an entry of a list stands for.
    pub(super) fn expand(&self, listed: ListedProc) -> impl Iterator<Item = ProcId> {
        listed.expand(self.ranks(listed.job))
    }

    /// The entry of a list that a client sent; `None` if there is no such process.
    pub(super) fn listed_proc(&self, proc: Proc<'_>) -> Option<ListedProc> {
        let job = self.named(proc.nspace)?;
        let is_there = proc.rank == WILDCARD || self.ranks(job).contains(&proc.rank);
        is_there.then_some(ListedProc { job, rank: proc.rank })
    }

    /// Digest of the participants; `None` if one does not exist.
    fn digest(&self, participants: Participants<'_>) -> Option<MembershipDigest> {
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

    fn listed(&self, participants: Participants<'_>) -> Option<BytesOf<S>> {
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

impl<S: Storage> Shared<S> {
    /// The response to a process of job `own`: descriptions of the jobs that it is connected with.
    fn connect_response(
        &self,
        ended: &OpenCollective<BytesOf<S>>,
        own: JobId,
        state: &PmixSessionStateOf<S::Pmix>,
    ) -> PmixResponse<BytesOf<S>> {
        PmixResponse::body(pack(state.protocol.format, |to| {
            to.one(Type::STATUS).i32(Status::SUCCESS.0);
            for (at, listed) in ended.listed().enumerate() {
                let job = listed.job;
                let is_new = ended.listed().take(at).all(|before| before.job != job);
                let namespace = self.pmix.namespace(job).zip(self.job(job));
                if let Some((namespace, job)) = namespace.filter(|_| is_new && listed.job != own) {
                    to.one(Type::BYTE_OBJECT).nested(|to| {
                        namespace.write_description(
                            job.name().as_bytes(),
                            state.protocol.release,
                            to,
                        );
                    });
                }
            }
            let others = ForeignProcs::new(ended.others().unwrap_or_default());
            for ForeignRanks { nspace, .. } in others.map_while(Result::ok) {
                if let Some((namespace, _)) = self.foreign(nspace) {
                    to.one(Type::BYTE_OBJECT).nested(|to| {
                        namespace.write_description(nspace, state.protocol.release, to);
                    });
                }
            }
        }))
    }
}

impl<'a, P: PmixStorage, S: Storage<Pmix = P>> PmixServerRef<'a, P, S> {
    /// The participants one by one.
    pub(super) fn members(
        self,
        open: &'a OpenCollective<P::Bytes>,
    ) -> impl Iterator<Item = ProcId> + use<'a, P, S> {
        open.listed().flat_map(move |listed| self.shared.expand(listed))
    }

    /// The number of participants that are gone without having joined.
    fn gone_from(self, open: &'a OpenCollective<P::Bytes>, at: usize) -> u32 {
        // Checked at each join, when nearly always no process is gone.
        let has_gone = |job: JobId| self.shared.job(job).is_some_and(|job| job.gone > 0);
        if !open.listed().any(|listed| has_gone(listed.job)) {
            return 0;
        }
        let is_gone = |member: &ProcId| self.shared.member(*member).is_some_and(Member::is_gone);
        let gone = self.members(open).filter(is_gone);
        let count = gone.filter(|member| !self.is_in(at, *member)).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// True if a rank with several sessions has joined, which may be counted more than once.
    fn has_multiple_sessions(self, at: usize) -> bool {
        let inside = self.sessions.states().filter(|state| state.in_collective(at).is_some());
        inside
            .filter_map(|state| self.shared.pmix.rank_data(state.protocol.peer?))
            .any(|data| data.sessions > 1)
    }

    /// True if a process has joined.
    pub(super) fn is_in(self, at: usize, member: ProcId) -> bool {
        self.of_peer(member).any(|(_, state)| state.in_collective(at).is_some())
    }
}

impl<'a, P: PmixStorage, S: Storage<Pmix = P>> PmixServerRef<'a, P, S> {
    /// The part of this node in a collective that was handed up; `None` if it has ended since, or without
    /// memory for its data.
    pub fn collective_part(self, number: u32) -> Option<CollectivePart<'a, P::Bytes>> {
        let (at, open) = self.find_handed_up(number)?;
        let data = match open.kind {
            CollectiveKind::Fence | CollectiveKind::Connect | CollectiveKind::Disconnect => {
                self.fence_data(open)
            }
            CollectiveKind::Construct | CollectiveKind::Bootstrap => self.construct_data(at),
            CollectiveKind::Destruct => copy_bytes(b""),
        };
        let is_partial = open.handed_up()?.is_partial;
        let name = open.name.as_ref().map(AsRef::as_ref);
        Some(CollectivePart { kind: open.kind, name, is_partial, data: data? })
    }

    /// Participants of a collective that was handed up, as they were listed. A process may be listed by
    /// itself and with its job.
    pub fn collective_procs(self, number: u32) -> impl Iterator<Item = ProcId> + use<'a, P, S> {
        let found = self.find_handed_up(number);
        found.into_iter().flat_map(move |(_, open)| self.members(open))
    }

    fn find_handed_up(self, number: u32) -> Option<(usize, &'a OpenCollective<P::Bytes>)> {
        let collectives = &self.shared.pmix.collectives;
        let mut all = (0..collectives.end()).filter_map(|at| Some((at, collectives.get(at)?)));
        all.find(|(_, open)| open.handed_up().is_some_and(|part| part.number == number))
    }

    /// Data that participants of this node have committed, and that the others have not received.
    fn fence_data(self, open: &OpenCollective<P::Bytes>) -> Option<P::Bytes> {
        let is_first = |at: usize, job: JobId| open.listed().take(at).all(|of| of.job != job);
        let jobs = || open.listed().enumerate().filter(|(at, of)| is_first(*at, of.job));
        let len = |job| self.records(open, job).map(|record| record.len_bytes()).sum::<usize>();
        let all = jobs().map(|(_, of)| HEAD_BYTES + len(of.job)).sum();
        P::Bytes::make(all, |bytes| {
            let mut rest = bytes;
            let mut write = |part: &dyn Fn(&mut [u8]), len: usize| {
                if let Some((to, behind)) = core::mem::take(&mut rest).split_at_mut_checked(len) {
                    part(to);
                    rest = behind;
                }
            };
            for (_, of) in jobs() {
                let len = u32::try_from(len(of.job)).unwrap_or(u32::MAX);
                let head = u64::from(of.job.0) << 32 | u64::from(len);
                write(&|to| to.copy_from_slice(&head.to_be_bytes()), HEAD_BYTES);
                for record in self.records(open, of.job) {
                    // The room is as long as the record.
                    let fill = |to: &mut [u8]| {
                        let _ = record.write(to);
                    };
                    write(&fill, record.len_bytes());
                }
            }
        })
    }

    fn records(
        self,
        open: &'a OpenCollective<P::Bytes>,
        job: JobId,
    ) -> impl Iterator<Item = BlockRecord<'a>> {
        let of = self.shared.job(job);
        let local = self.members(open).filter(move |proc| proc.job == job);
        local.filter_map(move |proc| {
            let data = self.shared.pmix.rank_data(proc)?;
            let is_due = || of.is_some_and(|of| of.is_due(data.fence));
            // No fence has carried anything to other runs.
            let blob = data.remote.as_ref().filter(|_| open.others().is_some() || is_due());
            Some(record_of(proc.rank, data.version, blob?))
        })
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

impl<P: PmixStorage> PmixShared<P> {
    /// Notes that the part of this node in a collective has committed data.
    fn mark_elsewhere(&mut self, at: usize) {
        for listed in 0.. {
            let of = self.collectives.get(at).and_then(|open| open.listed().nth(listed));
            let Some(of) = of else { return };
            let Some(namespace) = self.namespace_mut(of.job) else { continue };
            namespace.mark_elsewhere();
        }
    }
}

/// Committed data in the parts of a fence, a connect or a disconnect: records by job, of which each part has
/// its own.
pub fn collective_blocks(data: &[u8]) -> impl Iterator<Item = Result<(JobId, &[u8]), Malformed>> {
    let mut rest = data;
    core::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let at = data.len().saturating_sub(rest.len());
        let cut = (|| {
            let (head, behind) = rest.split_first_chunk::<HEAD_BYTES>()?;
            let head = u64::from_be_bytes(*head);
            let len = usize::try_from(head & u64::from(u32::MAX)).ok()?;
            let (block, behind) = behind.split_at_checked(len)?;
            Some((JobId((head >> 32) as u32), block, behind))
        })();
        rest = cut.map_or(&[][..], |(_, _, behind)| behind);
        let block = cut.map(|(job, block, _)| (job, block));
        Some(block.ok_or(Malformed::new(at, "the data of a job")))
    })
}

const fn malformed(error: Malformed) -> RemoteError {
    RemoteError::Block(BlockError::Malformed(error))
}

/// Number of a job and length of its data.
const HEAD_BYTES: usize = 8;
