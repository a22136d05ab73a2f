//! Groups of processes: their construction, invitations, members that leave, and destruction.
//!
//! # Construction
//!
//! A group is made of the processes that each participant lists or, for a bootstrap, of a
//! number of leaders and the members they add. Contributions of the participants are stored as
//! values qualified by the context id of the group.
//!
//! # Invitations
//!
//! The library sends invitations and acceptances (`PMIx_Group_invite`, `PMIx_Group_join`) as events from
//! client to client. The server delivers them as any other event, and reads in those of the inviter which
//! processes a fence means by the name of the group:
//!
//! | event of the inviter | infos | effect |
//! |---|---|---|
//! | INVITED | name; invited processes as custom range | an open invitation |
//! | CONSTRUCT_COMPLETE | name; members, before 6.0 as custom range | a group |
//! | CONSTRUCT_ABORT | name | the invitation is closed |
//!
//! An acceptance (INVITE_ACCEPTED) contains the inviter and no group name, so the server cannot assign it
//! to an invitation. `PMIx_Group_join` returns as soon as the acceptance is sent, and a member may enter a
//! fence of the group before CONSTRUCT_COMPLETE: the name of an open invitation stands for the inviter and
//! all invited processes.

use super::collectives::{CollectiveEnd, CollectiveRequest, Participants};
use super::context::{PmixEffect, PmixServer, PmixServerRef};
use super::directives::has_unknown_required;
use super::event_cache::{Notification, procs};
use super::group_participant::{
    GroupParticipant, TOLERANT, WANTS_CONTEXT, WATCHED, leaders, named, participants, write_info,
    write_participant,
};
use super::procs::{ListedProc, count_procs, pack_procs, pack_sorted, unpack_procs};
use super::rank_set::is_of_node;
use super::session::{PendingRequest, PmixPeerState, PmixResponse};
use super::shared_bytes::{SharedBytes, copy_bytes, pack};
use super::tables::{
    BytesOf, CollectiveKind, CollectiveUplink, OpenCollective, PmixSessionStateOf, PmixStorage,
    ProcessGroup,
};
use crate::ids::{JobId, ProcId, Rank};
use crate::server::Storage;
use crate::server::session::SessionState;
use crate::server::shared::Shared;
use crate::storage::Slots;
use crate::wire::pmix::names::{Status, keys, range};
use crate::wire::pmix::request::{self, Request};
use crate::wire::pmix::{Format, Info, List, Packer, Proc, Release, Type, Unpacker, WILDCARD};

/// A group whose participants have all joined.
pub(super) struct ConstructedGroup<B> {
    members: B,
    /// Context id, if a participant requests one.
    context: Option<u32>,
    /// Contributions of the members: one pack operation of an INFO for each, in [`Format::PLAIN`].
    contributed: B,
    contributed_count: u32,
}

/// Layout of the answer, which differs by the release of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConstructLayout {
    /// SIZE number.
    Number,
    /// SIZE, PROCs, SIZE number.
    MembersAndNumber,
    /// SIZE, PROCs, BOOL whether there is a number, and then SIZE number.
    MembersAndAnyNumber,
    /// Like `MembersAndAnyNumber`, then SIZE, and as many pack operations of one INFO: the
    /// contributions.
    All,
}

impl<S: Storage> Shared<S> {
    /// Handles a request to construct a group.
    pub(super) fn construct(
        &mut self,
        state: &mut PmixSessionStateOf<S::Pmix>,
        tag: u32,
        body: &[u8],
        name: &[u8],
        group: &request::Collective<'_>,
    ) -> PmixEffect {
        let Some(peer) = state.protocol.peer else { return PmixEffect::Nothing };
        let refused = match copy_bytes(body) {
            _ if self.group_of(peer, name).is_some() => Status::EXISTS,
            // The answer to those that no leader has named, which would wait for leaders otherwise.
            _ if is_unled(group) && self.has_been_constructed(name) => Status::BAD_PARAM,
            _ if name.len() > NAME_BYTES => Status::BAD_PARAM,
            _ if contributed_bytes(state) + body.len() > REQUESTS_BYTES => Status::OUT_OF_RESOURCE,
            None => Status::NOMEM,
            Some(contributed) => {
                let is_listed = leaders(group).is_none() && !group.procs.is_empty();
                let of_node = self.by_groups(peer, &group.procs);
                let (kind, participants) = match (is_listed, &of_node) {
                    (true, None) => (CollectiveKind::Construct, Participants::Listed(&group.procs)),
                    (true, Some(procs)) => {
                        (CollectiveKind::Construct, Participants::Members(procs.as_ref()))
                    }
                    (false, _) => (CollectiveKind::Bootstrap, Participants::Any),
                };
                let deadline = self.deadline(&group.infos, None);
                let request = CollectiveRequest {
                    kind,
                    name: Some(name),
                    participants,
                    deadline,
                    contributed: Some(contributed),
                };
                return self.join(state, tag, peer, request);
            }
        };
        state.push_response(tag, PmixResponse::Status(refused));
        PmixEffect::Nothing
    }

    /// True if there is a group of this name, and no other one is being constructed by leaders.
    fn has_been_constructed(&self, name: &[u8]) -> bool {
        let groups = &self.pmix.groups;
        let mut groups = (0..groups.end()).filter_map(|at| groups.get(at));
        let open = &self.pmix.collectives;
        let mut open = (0..open.end()).filter_map(|at| open.get(at));
        groups.any(|group| group.is_complete() && group.name.as_ref() == name)
            && !open.any(|open| {
                open.kind() == CollectiveKind::Bootstrap
                    && open.name.as_ref().is_some_and(|of| of.as_ref() == name)
            })
    }

    /// Handles a request of a member to destruct its group.
    pub(super) fn destruct(
        &mut self,
        state: &mut PmixSessionStateOf<S::Pmix>,
        tag: u32,
        peer: ProcId,
        name: &[u8],
        rest: Unpacker<'_>,
    ) -> PmixEffect {
        let found = self.group_of(peer, name);
        let members = found.and_then(|at| Some(self.pmix.groups.get(at)?.members.clone()));
        let (Some(members), Some(infos)) = (&members, directives(state.protocol.release, rest))
        else {
            let status = if members.is_none() { Status::NOT_FOUND } else { Status::BAD_PARAM };
            state.push_response(tag, PmixResponse::Status(status));
            return PmixEffect::Nothing;
        };
        if has_unknown_required(&infos, &[keys::TIMEOUT]) {
            state.push_response(tag, PmixResponse::Status(Status::NOT_SUPPORTED));
            return PmixEffect::Nothing;
        }
        let request = CollectiveRequest {
            kind: CollectiveKind::Destruct,
            name: Some(name),
            participants: Participants::Members(members.as_ref()),
            deadline: self.deadline(&infos, None),
            contributed: None,
        };
        self.join(state, tag, peer, request)
    }

    /// Removes a process from a group at its request, and notifies the remaining members.
    pub(super) fn leave_group(&mut self, peer: ProcId, name: &[u8]) -> (Status, PmixEffect) {
        let found = self.group_of(peer, name);
        let Some((at, group)) = found.and_then(|at| Some((at, self.pmix.groups.get(at)?))) else {
            return (Status::NOT_FOUND, PmixEffect::Nothing);
        };
        let (old, rest) = (group.members.clone(), group.without(|member| member == peer));
        let Some(rest) = rest else { return (Status::NOMEM, PmixEffect::Nothing) };
        // A pending destruct of the group does not wait for the process that has left.
        self.shrink_collectives(name, &old, &rest);
        let is_forwarded = unpack_procs(old.as_ref()).any(|member| self.has_remote(member));
        let happened = self.cache_departure(peer, name, &rest, Status::GROUP_LEFT);
        self.replace_members(at, rest);
        (Status::SUCCESS, PmixEffect::LeftGroup { at: happened, is_forwarded })
    }

    /// Removes a group whose destruct is complete.
    pub(super) fn remove_group(&mut self, ended: &OpenCollective<BytesOf<S>>) {
        let name = ended.name.as_ref().map(AsRef::as_ref);
        let member = ended.listed().next().map(ListedProc::one);
        if let Some((name, member)) = name.zip(member)
            && let Some(at) = self.group_of(member, name)
        {
            self.pmix.groups.remove(at);
        }
    }

    /// Removes the processes of this job from all groups.
    pub(super) fn remove_members(&mut self, job: JobId) {
        for at in 0..self.pmix.groups.end() {
            let Some(group) = self.pmix.groups.get(at) else { continue };
            if group.inviter.is_some_and(|of| of.job == job) {
                self.pmix.groups.remove(at);
            } else if group.members().any(|of| of.job == job) {
                match group.without(|of| of.job == job) {
                    Some(rest) => self.replace_members(at, rest),
                    None => drop(self.pmix.groups.remove(at)),
                }
            }
        }
    }

    /// Replaces the members of a group, and removes a group without members.
    fn replace_members(&mut self, at: usize, members: BytesOf<S>) {
        match self.pmix.groups.get_mut(at) {
            Some(group) if !members.as_ref().is_empty() => group.members = members,
            _ => drop(self.pmix.groups.remove(at)),
        }
    }

    /// Caches an event about a departed member for the remaining ones, and returns its place.
    fn cache_departure(
        &mut self,
        gone: ProcId,
        name: &[u8],
        rest: &BytesOf<S>,
        code: Status,
    ) -> Option<usize> {
        let nspace = self.job(gone.job)?.name().clone();
        let source = Proc { nspace: nspace.as_bytes(), rank: gone.rank.0 };
        let range = range::CUSTOM;
        let notification = Notification { code, source, range, later: Some(range), infos: 3 };
        let event = self.cached(&notification, |to| {
            to.text(Some(keys::EVENT_CUSTOM_RANGE)).u32(0).of(Type::DATA_ARRAY).of(Type::PROC);
            to.size(count_procs(rest.as_ref()) as u64);
            self.write_procs(rest.as_ref(), to);
            to.text(Some(keys::GROUP_NAME)).u32(0).of(Type::STRING).text(Some(name));
            source.write(to.text(Some(keys::EVENT_AFFECTED_PROC)).u32(0).of(Type::PROC));
        })?;
        self.pmix.cache(event)
    }
}

impl<S: Storage> Shared<S> {
    /// Updates the groups after an event of a client, if the event is one of an inviter.
    ///
    /// An event that names no group, or a process that does not exist, changes nothing.
    ///
    /// # Errors
    ///
    /// [`Status::NOMEM`] or [`Status::OUT_OF_RESOURCE`] without room for the group.
    pub(super) fn handle_group_event(
        &mut self,
        source: ProcId,
        code: i32,
        infos: &List<'_>,
    ) -> Result<(), Status> {
        let inviter = match Status(code) {
            Status::GROUP_INVITED => Some(source),
            Status::GROUP_CONSTRUCT_COMPLETE | Status::GROUP_CONSTRUCT_ABORT => None,
            _ => return Ok(()),
        };
        let name = infos.find(keys::GROUP_NAME).and_then(|name| name.text());
        let Some(name) = name.filter(|name| name.len() <= NAME_BYTES) else { return Ok(()) };

        let open = self.invitation_by(source, Some(name));
        if code == Status::GROUP_CONSTRUCT_ABORT.0 {
            if let Some(at) = open {
                self.pmix.groups.remove(at);
            }
            return Ok(());
        }
        let former = match inviter {
            Some(_) if self.invitations_by(source).count() < INVITATIONS_MAX => open,
            // The first one, since an invitation that a process has declined may never be closed.
            Some(_) => open.or_else(|| self.invitation_by(source, None)),
            None => open.or_else(|| self.group_of(source, name)),
        };
        let key = match infos.find(keys::GROUP_MEMBERSHIP) {
            Some(_) => keys::GROUP_MEMBERSHIP,
            None => keys::EVENT_CUSTOM_RANGE,
        };
        let all = || procs(infos, key).map(|proc| self.listed_proc(proc));
        if all().any(|listed| listed.is_none()) {
            return Ok(());
        }
        // Without duplicates before wildcards are expanded, so that the list stays short.
        let listed: BytesOf<S> =
            pack_sorted(|| all().flatten().chain([source.into()])).ok_or(Status::NOMEM)?;
        let each = || unpack_procs(listed.as_ref()).flat_map(|listed| self.expand(listed));
        let members = pack_sorted(|| each().map(ListedProc::from)).ok_or(Status::NOMEM)?;
        let name = copy_bytes(name).ok_or(Status::NOMEM)?;
        let group = ProcessGroup { name, members, is_watched: false, inviter };
        if let Some(at) = former {
            self.pmix.groups.remove(at);
        }
        self.pmix.groups.insert(group).map(drop).ok_or(Status::OUT_OF_RESOURCE)
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Removes a member that has exited: notifies the members of groups with notification, and
    /// removes a group without live members and an open invitation of this process.
    pub(super) fn remove_exited_member(&mut self, gone: ProcId) {
        for at in 0..self.shared.pmix.groups.end() {
            let group = self.shared.pmix.groups.get(at);
            let Some(group) = group.filter(|group| group.has(gone)) else { continue };
            let shared = &*self.shared;
            let is_over = group.inviter == Some(gone);
            if is_over || group.members().all(|member| shared.is_gone(member)) {
                self.shared.pmix.groups.remove(at);
                continue;
            }
            if !group.is_watched {
                continue;
            }
            let Some(rest) = group.without(|member| member == gone) else { continue };
            let name = group.name.clone();
            let code = Status::GROUP_MEMBER_FAILED;
            let happened = self.shared.cache_departure(gone, name.as_ref(), &rest, code);
            self.shared.replace_members(at, rest);
            if let Some(happened) = happened {
                self.deliver(happened, None);
            }
        }
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Completes a bootstrap if all processes that its leaders name have joined or are gone. On several nodes
    /// each of them hands up its participants, whenever there are others, and the owner decides.
    pub(super) fn check_bootstrap(&mut self, at: usize) {
        let open = self.shared.pmix.collectives.get_mut(at);
        if let Some(open) = open.filter(|open| open.uplink != CollectiveUplink::None) {
            if core::mem::replace(&mut open.local_count, open.inside) != open.inside {
                self.hand_up_collective(at, false);
            }
            return;
        }
        let here = self.as_ref();
        let needed = here.construct_requests(at).filter_map(|(_, group)| leaders(&group)).max();
        let have =
            here.construct_requests(at).filter(|(_, group)| leaders(group).is_some()).count();
        if needed.is_none_or(|needed| (have as u64) < needed) {
            return;
        }
        let Some(members) = here.named_by_leaders(at) else {
            return self.end_collective(at, Status::NOT_FOUND);
        };
        let mut is_partial = false;
        for member in unpack_procs(members.as_ref()).map(ListedProc::one) {
            match (here.is_in(at, member), here.shared.is_gone(member)) {
                (true, _) => {}
                (false, true) => is_partial = true,
                (false, false) => return,
            }
        }
        let status = if is_partial { Status::PARTIAL_SUCCESS } else { Status::SUCCESS };
        self.end_collective(at, status);
    }

    /// Constructs the group whose participants have all joined or are gone. `result` has the participants of
    /// all nodes, if others have taken part.
    ///
    /// # Errors
    ///
    /// Status for the answers to all participants.
    pub(super) fn make_group(
        &mut self,
        at: usize,
        ended: &OpenCollective<P::Bytes>,
        status: Status,
        result: Option<&CollectiveEnd<'_>>,
    ) -> Result<ConstructedGroup<P::Bytes>, Status> {
        let here = self.as_ref();
        let own: Option<P::Bytes> = match result {
            Some(_) => None,
            None => Some(here.construct_data(at).ok_or(Status::NOMEM)?),
        };
        let data =
            result.map_or_else(|| own.as_ref().map_or(&b""[..], AsRef::as_ref), |end| end.data);
        let flags = participants(data).fold(0, |flags, one| flags | one.flags);
        let is_tolerant = flags & TOLERANT != 0;
        if status != Status::SUCCESS && !(status == Status::PARTIAL_SUCCESS && is_tolerant) {
            return Err(status);
        }
        let shared = here.shared;
        let named: P::Bytes = match ended.kind {
            CollectiveKind::Bootstrap => match result {
                Some(end) => here.named_in(end.data).ok_or(Status::NOT_FOUND)?,
                None => here.named_by_leaders(at).ok_or(Status::NOMEM)?,
            },
            _ => ended.participants.clone(),
        };
        // A process that exited without joining is no member.
        let is_named = |proc: &ListedProc| {
            unpack_procs(named.as_ref()).any(|listed| listed.matches_digest(*proc))
        };
        let joined = || participants(data).filter_map(|one| shared.listed_proc(one.proc));
        let members = pack_sorted(|| joined().filter(is_named));
        let members: P::Bytes = members.ok_or(Status::NOMEM)?;
        let contributing = || participants(data).filter(GroupParticipant::has_contribution);
        let contributed = pack(Format::PLAIN, |to| {
            contributing().for_each(|one| one.write_contribution(to));
        });
        let contributed: P::Bytes = contributed.ok_or(Status::NOMEM)?;
        let contributed_count = u32::try_from(contributing().count()).unwrap_or(u32::MAX);

        let name = ended.name.clone().ok_or(Status::BAD_PARAM)?;
        let is_watched = flags & WATCHED != 0;
        let group = ProcessGroup { name, members: members.clone(), is_watched, inviter: None };
        let pmix = &mut self.shared.pmix;
        pmix.groups.insert(group).ok_or(Status::OUT_OF_RESOURCE)?;
        let context = (flags & WANTS_CONTEXT != 0).then(|| match result {
            Some(end) => end.serial,
            None => {
                pmix.contexts = pmix.contexts.wrapping_add(1);
                pmix.contexts
            }
        });
        if let Some(context) = context {
            self.store_contributions(data, context);
        }
        Ok(ConstructedGroup { members, context, contributed, contributed_count })
    }

    /// Stores the contributions with the committed data of their ranks, qualified by the context id
    /// of the group.
    fn store_contributions(&mut self, data: &[u8], context: u32) {
        let mut remote = None;
        for one in participants(data) {
            let proc = self.shared.listed_proc(one.proc).map(ListedProc::one);
            let Some(proc) = proc.filter(|_| one.has_contribution()) else { continue };
            match self.shared.pmix.rank_data_mut(proc) {
                Some(rank_data) => rank_data.contribute(|to| {
                    one.qualified(context).for_each(|write| write(to));
                }),
                None => remote = remote.or(Some(proc.job)),
            }
        }
        // Those of other nodes are stored at once, since each addition copies all of them.
        let Some(id) = remote else { return };
        let Some((job, namespace)) = self.shared.job_and_namespace(id) else { return };
        let is_remote = |one: &GroupParticipant<'_>| {
            one.proc.nspace == job.name().as_bytes() && job.is_remote(Rank(one.proc.rank))
        };
        namespace.remote.contribute(|to| {
            for one in participants(data).filter(is_remote) {
                for write in one.qualified(context) {
                    to.u32(one.proc.rank).nested(write);
                }
            }
        });
    }
}

impl<S: Storage> Shared<S> {
    /// Resolves a list in which some processes are named as members of a group, or of an open
    /// invitation, by the group name and their place in it, or by the group name and a wildcard, and those
    /// of the node by their rank; `None` if neither is, or a group without the requester. Newer libraries
    /// name the members of a group themselves.
    pub(super) fn by_groups(&self, requester: ProcId, procs: &List<'_>) -> Option<BytesOf<S>> {
        let is_plain = |proc: Proc<'_>| !is_of_node(proc.rank) && self.named(proc.nspace).is_some();
        if procs.count > NAMED_MAX || procs.procs().all(is_plain) {
            return None;
        }
        let each = |proc: Proc<'_>| {
            let rank = proc.rank;
            let job = self.named(proc.nspace);
            let at = match job {
                _ if is_of_node(rank) => None,
                Some(_) => None,
                None => {
                    let complete = self.group_of(requester, proc.nspace);
                    complete.or_else(|| self.invitation_of(requester, proc.nspace))
                }
            };
            let group = at.and_then(|at| self.pmix.groups.get(at));
            let members = unpack_procs(group.map_or(b"", |group| group.members.as_ref()));
            let target =
                (0_u32..).zip(members).filter(move |(place, _)| rank == WILDCARD || rank == *place);
            let own = job.filter(|_| !is_of_node(rank)).map(|job| ListedProc { job, rank });
            let of_node = self.of_node(job, rank, requester);
            own.into_iter().chain(target.map(|(_, member)| member)).chain(of_node)
        };
        if procs.procs().any(|proc| each(proc).next().is_none()) {
            return None;
        }
        pack_procs(|| procs.procs().flat_map(each))
    }

    /// Place of the complete group with this name that a process is a member of.
    pub(super) fn group_of(&self, member: ProcId, name: &[u8]) -> Option<usize> {
        let groups = &self.pmix.groups;
        (0..groups.end()).find(|at| {
            groups.get(*at).is_some_and(|group| {
                group.is_complete() && group.name.as_ref() == name && group.has(member)
            })
        })
    }

    /// Writes a packed list of processes, as they stand inside other values.
    pub(super) fn write_procs(&self, procs: &[u8], to: &mut Packer<'_>) {
        for ListedProc { job, rank } in unpack_procs(procs) {
            Proc { nspace: self.nspace(job), rank }.write(to);
        }
    }
}

impl<S: Storage> Shared<S> {
    /// Place of an open invitation with this name that a process has sent or received.
    pub(super) fn invitation_of(&self, member: ProcId, name: &[u8]) -> Option<usize> {
        let groups = &self.pmix.groups;
        (0..groups.end()).find(|at| {
            groups.get(*at).is_some_and(|group| {
                !group.is_complete() && group.name.as_ref() == name && group.has(member)
            })
        })
    }

    /// Place of an open invitation of this inviter, with this name if one is given.
    fn invitation_by(&self, inviter: ProcId, name: Option<&[u8]>) -> Option<usize> {
        let mut all = self.invitations_by(inviter);
        all.find(|(_, group)| name.is_none_or(|name| group.name.as_ref() == name)).map(|(at, _)| at)
    }

    fn invitations_by(
        &self,
        inviter: ProcId,
    ) -> impl Iterator<Item = (usize, &ProcessGroup<BytesOf<S>>)> {
        let groups = &self.pmix.groups;
        let all = (0..groups.end()).filter_map(|at| Some((at, groups.get(at)?)));
        all.filter(move |(_, group)| group.inviter == Some(inviter))
    }
}

impl<S: Storage> Shared<S> {
    /// Packs all processes that entries of lists stand for; `None` if one does not exist.
    fn pack_named<I: Iterator<Item = Option<ListedProc>>>(
        &self,
        named: impl Fn() -> I,
    ) -> Option<BytesOf<S>> {
        if named().any(|proc| proc.is_none()) {
            return None;
        }
        pack_sorted(|| {
            named().flatten().flat_map(|listed| self.expand(listed)).map(ListedProc::from)
        })
    }

    /// Answer to a participant that requested the group.
    pub(super) fn construct_response(
        &self,
        constructed: &ConstructedGroup<BytesOf<S>>,
        state: &PmixSessionStateOf<S::Pmix>,
    ) -> PmixResponse<BytesOf<S>> {
        let is_member = state.protocol.peer.is_some_and(|peer| {
            unpack_procs(constructed.members.as_ref()).any(|member| member.one() == peer)
        });
        if !is_member {
            return PmixResponse::Status(Status::BAD_PARAM);
        }
        let layout = ConstructLayout::of(state.protocol.release);
        PmixResponse::body(pack(state.protocol.format, |to| {
            self.write_group(constructed, layout, to)
        }))
    }

    fn write_group(
        &self,
        constructed: &ConstructedGroup<BytesOf<S>>,
        layout: ConstructLayout,
        to: &mut Packer<'_>,
    ) {
        to.one(Type::STATUS).i32(Status::SUCCESS.0);
        if layout != ConstructLayout::Number {
            let members = constructed.members.as_ref();
            let count = u32::try_from(count_procs(members)).unwrap_or(u32::MAX);
            to.one(Type::SIZE).size(count.into()).op(Type::PROC, count);
            self.write_procs(members, to);
        }
        match (layout, constructed.context) {
            (ConstructLayout::Number | ConstructLayout::MembersAndNumber, context) => {
                to.one(Type::SIZE).size(context.map_or(u64::MAX, u64::from));
            }
            (_, Some(context)) => {
                to.one(Type::BOOL).u8(1).one(Type::SIZE).size(context.into());
            }
            (_, None) => {
                to.one(Type::BOOL).u8(0);
            }
        }
        if layout == ConstructLayout::All {
            to.one(Type::SIZE).size(constructed.contributed_count.into());
            let mut from = Unpacker::new(constructed.contributed.as_ref(), Format::PLAIN);
            for _ in 0..constructed.contributed_count {
                // The server packed them itself, of types that were read before.
                let Ok(info) = from.one(Type::INFO).and_then(Info::read) else { return };
                write_info(&info, info.flags, to.one(Type::INFO));
            }
        }
    }
}

impl<'a, P: PmixStorage, S: Storage<Pmix = P>> PmixServerRef<'a, P, S> {
    /// Participants that have joined, with their requests.
    fn construct_requests(
        self,
        at: usize,
    ) -> impl Iterator<Item = (ProcId, request::Collective<'a>)> {
        self.sessions.states().filter_map(move |state| construct_request::<P>(state, at))
    }

    /// Processes that leaders name: themselves, those they list, and those they add; `None` if one
    /// does not exist.
    pub(super) fn named_by_leaders(self, at: usize) -> Option<P::Bytes> {
        let shared = self.shared;
        let named = || {
            let leading = self.construct_requests(at).filter(|(_, group)| leaders(group).is_some());
            leading.flat_map(move |(leader, group)| {
                let procs = named(&group).map(move |proc| shared.listed_proc(proc));
                core::iter::once(Some(leader.into())).chain(procs)
            })
        };
        shared.pack_named(named)
    }

    /// The same of the participants of all nodes.
    fn named_in(self, data: &[u8]) -> Option<P::Bytes> {
        let leading = || participants(data).filter(|one| one.leaders > 0);
        let named = || leading().flat_map(|one| core::iter::once(one.proc).chain(one.named()));
        self.shared.pack_named(|| named().map(|proc| self.shared.listed_proc(proc)))
    }

    /// Records of the participants that have joined.
    pub(super) fn construct_data(self, at: usize) -> Option<P::Bytes> {
        pack(Format::PLAIN, |to| {
            for (ProcId { job, rank }, group) in self.construct_requests(at) {
                let proc = Proc { nspace: self.shared.nspace(job), rank: rank.0 };
                write_participant(proc, &group, to);
            }
        })
    }
}

impl ConstructLayout {
    fn of(release: Release) -> Self {
        if release < Release::new(4, 2, 4) {
            Self::Number
        } else if release < Release::new(6, 0, 0) {
            Self::MembersAndNumber
        } else if release < Release::new(6, 1, 0) {
            Self::MembersAndAnyNumber
        } else {
            Self::All
        }
    }
}

/// The process of a connection that has joined a collective, and its request to construct a group.
fn construct_request<P: PmixStorage>(
    state: &PmixSessionStateOf<P>,
    at: usize,
) -> Option<(ProcId, request::Collective<'_>)> {
    let pending = state.pending.get(state.in_collective(at)?)?;
    let PmixResponse::Collective { contributed: Some(body), .. } = &pending.response else {
        return None;
    };
    match Request::read(Unpacker::new(body.as_ref(), state.protocol.format)).ok()? {
        Request::GroupConstruct { group, .. } => Some((state.protocol.peer?, group)),
        _ => None,
    }
}

/// Number of bytes of pending group requests of a connection.
fn contributed_bytes<B: SharedBytes, X: Slots<PendingRequest<B>>>(
    state: &SessionState<X, PmixPeerState<B>>,
) -> usize {
    let contributed = state.pending_requests().filter_map(|(_, pending)| match &pending.response {
        PmixResponse::Collective { contributed, .. } => contributed.as_ref(),
        _ => None,
    });
    contributed.map(|contributed| contributed.as_ref().len()).sum()
}

/// Directives of a destruct request. Clients before 4.2.4 do not list the members before them.
fn directives(release: Release, mut rest: Unpacker<'_>) -> Option<List<'_>> {
    if release >= LISTS_MEMBERS {
        List::read(&mut rest, Type::PROC).ok()?;
    }
    List::read(&mut rest, Type::INFO).ok()
}

/// True for a participant that leaves the members to leaders.
fn is_unled(group: &request::Collective<'_>) -> bool {
    leaders(group).is_none() && group.procs.is_empty()
}

/// First release whose clients list the members of a group in destruct requests.
const LISTS_MEMBERS: Release = Release::new(4, 2, 4);

/// Upper bound of the length of group names, which is also that of job names.
pub(super) const NAME_BYTES: usize = 255;

/// Upper bound of the bytes of construct requests of one connection, which are stored until all
/// participants have joined.
const REQUESTS_BYTES: usize = 4 << 20;

/// Upper bound of the entries of a list that names groups. Each may stand for any number of
/// processes.
const NAMED_MAX: u32 = 64;

/// Upper bound of the open invitations of one process. A further one replaces the first.
const INVITATIONS_MAX: usize = 8;
