//! Groups of processes: requests for one, members that leave, and destruction.
//!
//! A group is made when all of its members have requested it ([`group_construct`](super::group_construct)),
//! or by an invitation, whose events the server reads ([`group_invite`](super::group_invite)).

use super::collective_request::{CollectiveRequest, Participants};
use super::context::{PmixContext, PmixEffect, PmixView};
use super::directives::has_unknown_required;
use super::event_cache::Notification;
use super::group_participant::leaders;
use super::procs::{ListedProc, count_procs, pack_procs, unpack_procs};
use super::rank_set::is_of_node;
use super::server::PmixServer;
use super::session::{PendingRequest, PmixPeerState, PmixResponse};
use super::shared_bytes::{SharedBytes, copy_bytes};
use super::tables::{CollectiveKind, OpenCollective, PmixSessionStateOf, PmixStorage};
use crate::ids::{JobId, ProcId};
use crate::server::Storage;
use crate::server::session::SessionState;
use crate::storage::Slots;
use crate::wire::pmix::names::{Status, keys, range};
use crate::wire::pmix::{List, Packer, Proc, Release, Type, Unpacker, WILDCARD, request};

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixContext<'_, P, S> {
    /// Handles a request to construct a group.
    pub(super) fn construct(
        &mut self,
        state: &mut PmixSessionStateOf<P>,
        tag: u32,
        body: &[u8],
        name: &[u8],
        group: &request::Collective<'_>,
    ) -> PmixEffect {
        let Some(peer) = state.protocol.peer else { return PmixEffect::Nothing };
        let refused = match copy_bytes(body) {
            _ if self.view().group_of(peer, name).is_some() => Status::EXISTS,
            // The answer to those that no leader has named, which would wait for leaders otherwise.
            _ if is_unled(group) && self.has_been_constructed(name) => Status::BAD_PARAM,
            _ if name.len() > NAME_BYTES => Status::BAD_PARAM,
            _ if contributed_bytes(state) + body.len() > REQUESTS_BYTES => Status::OUT_OF_RESOURCE,
            None => Status::NOMEM,
            Some(contributed) => {
                let is_listed = leaders(group).is_none() && !group.procs.is_empty();
                let of_node = self.view().by_groups(peer, &group.procs);
                let (kind, participants) = match (is_listed, &of_node) {
                    (true, None) => (CollectiveKind::Construct, Participants::Listed(&group.procs)),
                    (true, Some(procs)) => {
                        (CollectiveKind::Construct, Participants::Members(procs.as_ref()))
                    }
                    (false, _) => (CollectiveKind::Bootstrap, Participants::Any),
                };
                let deadline = self.view().deadline(&group.infos, None);
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
        state: &mut PmixSessionStateOf<P>,
        tag: u32,
        peer: ProcId,
        name: &[u8],
        rest: Unpacker<'_>,
    ) -> PmixEffect {
        let found = self.view().group_of(peer, name);
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
            deadline: self.view().deadline(&infos, None),
            contributed: None,
        };
        self.join(state, tag, peer, request)
    }

    /// Removes a process from a group at its request, and notifies the remaining members.
    pub(super) fn leave_group(&mut self, peer: ProcId, name: &[u8]) -> (Status, PmixEffect) {
        let found = self.view().group_of(peer, name);
        let Some((at, group)) = found.and_then(|at| Some((at, self.pmix.groups.get(at)?))) else {
            return (Status::NOT_FOUND, PmixEffect::Nothing);
        };
        let (old, rest) = (group.members.clone(), group.without(|member| member == peer));
        let Some(rest) = rest else { return (Status::NOMEM, PmixEffect::Nothing) };
        // A pending destruct of the group does not wait for the process that has left.
        self.shrink_collectives(name, &old, &rest);
        let is_forwarded = unpack_procs(old.as_ref()).any(|member| self.view().has_remote(member));
        let happened = self.cache_departure(peer, name, &rest, Status::GROUP_LEFT);
        self.replace_members(at, rest);
        (Status::SUCCESS, PmixEffect::LeftGroup { at: happened, is_forwarded })
    }

    /// Removes a group whose destruct is complete.
    pub(super) fn remove_group(&mut self, ended: &OpenCollective<P::Bytes>) {
        let name = ended.name.as_ref().map(AsRef::as_ref);
        let member = ended.listed().next().map(ListedProc::one);
        if let Some((name, member)) = name.zip(member)
            && let Some(at) = self.view().group_of(member, name)
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
    fn replace_members(&mut self, at: usize, members: P::Bytes) {
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
        rest: &P::Bytes,
        code: Status,
    ) -> Option<usize> {
        let nspace = self.common.job(gone.job)?.name().clone();
        let source = Proc { nspace: nspace.as_bytes(), rank: gone.rank.0 };
        let range = range::CUSTOM;
        let notification = Notification { code, source, range, later: Some(range), infos: 3 };
        let event = self.view().cached(&notification, |view, to| {
            to.text(Some(keys::EVENT_CUSTOM_RANGE)).u32(0).of(Type::DATA_ARRAY).of(Type::PROC);
            to.size(count_procs(rest.as_ref()) as u64);
            view.write_procs(rest.as_ref(), to);
            to.text(Some(keys::GROUP_NAME)).u32(0).of(Type::STRING).text(Some(name));
            source.write(to.text(Some(keys::EVENT_AFFECTED_PROC)).u32(0).of(Type::PROC));
        })?;
        self.pmix.cache(event)
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Removes a member that has exited: notifies the members of groups with notification, and
    /// removes a group without live members and an open invitation of this process.
    pub(super) fn remove_exited_member(&mut self, gone: ProcId) {
        for at in 0..self.context.pmix.groups.end() {
            let group = self.context.pmix.groups.get(at);
            let Some(group) = group.filter(|group| group.has(gone)) else { continue };
            let view = self.context.view();
            let is_over = group.inviter == Some(gone);
            if is_over || group.members().all(|member| view.is_gone(member)) {
                self.context.pmix.groups.remove(at);
                continue;
            }
            if !group.is_watched {
                continue;
            }
            let Some(rest) = group.without(|member| member == gone) else { continue };
            let name = group.name.clone();
            let code = Status::GROUP_MEMBER_FAILED;
            let happened = self.context.cache_departure(gone, name.as_ref(), &rest, code);
            self.context.replace_members(at, rest);
            if let Some(happened) = happened {
                self.deliver(happened, None);
            }
        }
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixView<'_, P, S> {
    /// Resolves a list in which some processes are named as members of a group, or of an open
    /// invitation, by the group name and their place in it, or by the group name and a wildcard, and those
    /// of the node by their rank; `None` if neither is, or a group without the requester. Newer libraries
    /// name the members of a group themselves.
    pub(super) fn by_groups(self, requester: ProcId, procs: &List<'_>) -> Option<P::Bytes> {
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
            let of_node = self.of_node((job, rank), requester);
            own.into_iter().chain(target.map(|(_, member)| member)).chain(of_node)
        };
        if procs.procs().any(|proc| each(proc).next().is_none()) {
            return None;
        }
        pack_procs(|| procs.procs().flat_map(each))
    }

    /// Place of the complete group with this name that a process is a member of.
    pub(super) fn group_of(self, member: ProcId, name: &[u8]) -> Option<usize> {
        let groups = &self.pmix.groups;
        (0..groups.end()).find(|at| {
            groups.get(*at).is_some_and(|group| {
                group.is_complete() && group.name.as_ref() == name && group.has(member)
            })
        })
    }

    /// Writes a packed list of processes, as they stand inside other values.
    pub(super) fn write_procs(self, procs: &[u8], to: &mut Packer<'_>) {
        for ListedProc { job, rank } in unpack_procs(procs) {
            Proc { nspace: self.nspace(job), rank }.write(to);
        }
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

/// True for a participant that leaves the members to leaders.
fn is_unled(group: &request::Collective<'_>) -> bool {
    leaders(group).is_none() && group.procs.is_empty()
}
