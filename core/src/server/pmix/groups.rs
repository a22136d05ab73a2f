//! Groups of processes: requests for one, members that leave, and destruction.
//!
//! A group is made when all of its members have requested it ([`group_construct`](super::group_construct)).
//! Invitations are events between clients and make no group in the server.

use super::cached_event::{Notification, cache_notification};
use super::collective::{CollectiveKind, OpenCollective, PROC_BYTES, pairs, write_pair};
use super::collective_request::{CollectiveRequest, Participants};
use super::connection::{ConnState, PendingRequest, PmixResponse};
use super::get::deadline;
use super::group_construct::leaders;
use super::query::QueryItem;
use super::shared_bytes::{SharedBytes, copy_bytes};
use super::state::{PmixContext, PmixEffect};
use super::storage::{ConnStateOf, EventsOf, NamespacesOf};
use super::{Pmix, PmixStorage, namespace};
use crate::ids::{JobId, ProcId, Rank};
use crate::server::member::Member;
use crate::server::{Server, Storage};
use crate::storage::Slots;
use crate::wire::pmix::names::{Status, keys, range};
use crate::wire::pmix::request;
use crate::wire::pmix::{List, Packer, Proc, Release, Type, Unpacker, WILDCARD};

/// A named group of processes.
#[derive(Clone, Debug)]
pub struct ProcessGroup<B> {
    pub(super) name: B,
    /// Job and rank of each member, as packed pairs.
    pub(super) members: B,
    /// True if members are notified when one of them exits.
    pub(super) is_watched: bool,
}

impl<P: PmixStorage, S: Storage> PmixContext<'_, P, S> {
    /// Handles a request to construct a group.
    pub(super) fn construct(
        &mut self,
        state: &mut ConnStateOf<P>,
        (tag, body): (u32, &[u8]),
        ProcId { job, rank }: ProcId,
        (name, group): (&[u8], &request::Collective<'_>),
    ) -> PmixEffect {
        let refused = match copy_bytes(body) {
            _ if group_of(self.groups, ProcId { job, rank }, name).is_some() => Status::EXISTS,
            _ if name.len() > NAME_BYTES => Status::BAD_PARAM,
            _ if contributed_bytes(state) + body.len() > REQUESTS_BYTES => Status::OUT_OF_RESOURCE,
            None => Status::NOMEM,
            Some(contributed) => {
                let is_listed = leaders(group).is_none() && !group.procs.is_empty();
                let (purpose, participants) = match is_listed {
                    true => (CollectiveKind::Construct, Participants::Listed(&group.procs)),
                    false => (CollectiveKind::Bootstrap, Participants::Anybody),
                };
                let deadline = deadline(&group.infos, self.now, None);
                let request = CollectiveRequest {
                    kind: purpose,
                    name: Some(name),
                    participants,
                    deadline,
                    contributed: Some(contributed),
                };
                return self.join(state, tag, ProcId { job, rank }, request);
            }
        };
        state.push_response(tag, PmixResponse::Status(refused));
        PmixEffect::Nothing
    }

    /// Handles a request of a member to destruct its group.
    pub(super) fn destruct(
        &mut self,
        state: &mut ConnStateOf<P>,
        tag: u32,
        ProcId { job, rank }: ProcId,
        (name, rest): (&[u8], Unpacker<'_>),
    ) -> PmixEffect {
        let found = group_of(self.groups, ProcId { job, rank }, name);
        let members = found.and_then(|at| Some(self.groups.get(at)?.members.clone()));
        let (Some(members), Some(infos)) = (&members, directives(state.release, rest)) else {
            let status = if members.is_none() { Status::NOT_FOUND } else { Status::BAD_PARAM };
            state.push_response(tag, PmixResponse::Status(status));
            return PmixEffect::Nothing;
        };
        let request = CollectiveRequest {
            kind: CollectiveKind::Destruct,
            name: Some(name),
            participants: Participants::Members(members.as_ref()),
            deadline: deadline(&infos, self.now, None),
            contributed: None,
        };
        self.join(state, tag, ProcId { job, rank }, request)
    }

    /// Resolves a list in which some processes are named as members of a group, by the group name
    /// and their place in it, or by the group name and a wildcard; `None` if no group is named, or
    /// one without the requester. Newer libraries name the processes themselves.
    pub(super) fn by_groups(&self, requester: ProcId, procs: &List<'_>) -> Option<P::Bytes> {
        let job_of = |proc: &Proc<'_>| namespace::named(self.jobs, self.server, proc.nspace);
        if procs.count > NAMED_MAX || procs.procs().all(|proc| job_of(&proc).is_some()) {
            return None;
        }
        let each = |proc: Proc<'_>| {
            let job = job_of(&proc);
            let at = match job {
                Some(_) => None,
                None => group_of(self.groups, requester, proc.nspace),
            };
            let group = at.and_then(|at| self.groups.get(at));
            let members = pairs(group.map_or(b"", |group| group.members.as_ref()));
            let target = (0_u32..)
                .zip(members)
                .filter(move |(place, _)| proc.rank == WILDCARD || proc.rank == *place);
            job.map(|job| (job, proc.rank)).into_iter().chain(target.map(|(_, member)| member))
        };
        if procs.procs().any(|proc| each(proc).next().is_none()) {
            return None;
        }
        P::Bytes::make(procs.procs().flat_map(each).count() * PROC_BYTES, |bytes| {
            let (places, _) = bytes.as_chunks_mut::<PROC_BYTES>();
            let members = procs.procs().flat_map(each);
            places.iter_mut().zip(members).for_each(|(place, member)| write_pair(place, member));
        })
    }

    /// Removes a process from a group at its request, and notifies the remaining members.
    pub(super) fn leave_group(
        &mut self,
        ProcId { job, rank }: ProcId,
        name: &[u8],
    ) -> (Status, PmixEffect) {
        let found = group_of(self.groups, ProcId { job, rank }, name);
        let Some((at, group)) = found.and_then(|at| Some((at, self.groups.get(at)?))) else {
            return (Status::NOT_FOUND, PmixEffect::Nothing);
        };
        let (old, rest) =
            (group.members.clone(), without(&group.members, |pair| pair == ProcId { job, rank }));
        let Some(rest) = rest else { return (Status::NOMEM, PmixEffect::Nothing) };
        // A pending destruct of the group does not wait for the process that has left.
        self.shrink_collectives(name, &old, &rest);
        let happened = cache_departure::<P, S>(
            self.events,
            self.jobs,
            self.server,
            ProcId { job, rank },
            (name, &rest),
            Status::GROUP_LEFT,
        );
        replace(self.groups, at, rest);
        (Status::SUCCESS, PmixEffect::LeftGroup(happened))
    }
}

impl<P: PmixStorage> Pmix<P> {
    /// Removes a member that has exited: notifies the members of groups with notification, and
    /// removes a group without live members.
    pub(super) fn remove_exited_member<S: Storage>(&mut self, gone: ProcId, server: &Server<S>) {
        for at in 0..self.groups.end() {
            let Some(group) = self.groups.get(at).filter(|group| group.has(gone)) else { continue };
            let is_gone = |ProcId { job, rank }: ProcId| {
                let member = server.job(job).and_then(|job| job.member(rank));
                member.is_none_or(Member::is_gone)
            };
            if group.members().all(is_gone) {
                self.groups.remove(at);
                continue;
            }
            if !group.is_watched {
                continue;
            }
            let Some(rest) = without(&group.members, |pair| pair == gone) else { continue };
            let left = (group.name.as_ref(), &rest);
            let (events, jobs) = (&mut self.events, &self.jobs);
            let happened = cache_departure::<P, S>(
                events,
                jobs,
                server,
                gone,
                left,
                Status::GROUP_MEMBER_FAILED,
            );
            replace(&mut self.groups, at, rest);
            if let Some(happened) = happened {
                self.deliver(happened, None, server);
            }
        }
    }

    /// Removes a group whose destruct is complete.
    pub(super) fn remove_group(&mut self, ended: &OpenCollective<P::Bytes>) {
        let name = ended.name.as_ref().map(AsRef::as_ref);
        let member = ended.listed().next().map(|(job, rank)| ProcId { job, rank: Rank(rank) });
        if let Some((name, member)) = name.zip(member)
            && let Some(at) = group_of(&self.groups, member, name)
        {
            self.groups.remove(at);
        }
    }

    /// Removes the processes of this job from all groups.
    pub(super) fn remove_members(&mut self, job: JobId) {
        for at in 0..self.groups.end() {
            let Some(group) = self.groups.get(at) else { continue };
            if group.members().any(|of| of.job == job) {
                match without(&group.members, |of| of.job == job) {
                    Some(rest) => replace(&mut self.groups, at, rest),
                    None => drop(self.groups.remove(at)),
                }
            }
        }
    }
}

impl<B: SharedBytes> ProcessGroup<B> {
    fn has(&self, member: ProcId) -> bool {
        self.members().any(|other| other == member)
    }

    fn members(&self) -> impl Iterator<Item = ProcId> {
        pairs(self.members.as_ref()).map(|(job, rank)| ProcId { job, rank: Rank(rank) })
    }
}

/// Answers a query about groups: writes the type of a value and the value.
pub(super) fn answer<B: SharedBytes, S: Storage>(
    groups: &impl Slots<ProcessGroup<B>>,
    server: &Server<S>,
    question: &QueryItem<'_>,
    to: &mut Packer<'_>,
) -> Result<(), Status> {
    let all = || (0..groups.end()).filter_map(|at| groups.get(at));
    let count = all().count() as u64;
    match question.key {
        keys::QUERY_NUM_GROUPS => {
            to.of(Type::SIZE).size(count);
        }
        keys::QUERY_GROUP_NAMES => {
            to.of(Type::DATA_ARRAY).of(Type::STRING).size(count);
            for group in all() {
                to.text(Some(group.name.as_ref()));
            }
        }
        _ => {
            let name = question.qualifiers.find(keys::GROUP_NAME).and_then(|name| name.text());
            let name = name.ok_or(Status::BAD_PARAM)?;
            let group = all().find(|group| group.name.as_ref() == name);
            let members = group.ok_or(Status::NOT_FOUND)?.members.as_ref();
            to.of(Type::DATA_ARRAY).of(Type::PROC).size((members.len() / PROC_BYTES) as u64);
            write_members(members, server, to);
        }
    }
    Ok(())
}

/// Number of bytes of pending group requests of a connection.
fn contributed_bytes<B: SharedBytes, X: Slots<PendingRequest<B>>>(
    state: &ConnState<B, X>,
) -> usize {
    let contributed = state.pending_requests().filter_map(|(_, pending)| match &pending.response {
        PmixResponse::Collective { contributed, .. } => contributed.as_ref(),
        _ => None,
    });
    contributed.map(|contributed| contributed.as_ref().len()).sum()
}

/// Place of the group with this name that a process is a member of.
fn group_of<B: SharedBytes>(
    groups: &impl Slots<ProcessGroup<B>>,
    member: ProcId,
    name: &[u8],
) -> Option<usize> {
    (0..groups.end()).find(|at| {
        groups.get(*at).is_some_and(|group| group.name.as_ref() == name && group.has(member))
    })
}

/// Caches an event about a departed member for the remaining ones, and returns its place.
fn cache_departure<P: PmixStorage, S: Storage>(
    events: &mut EventsOf<P>,
    jobs: &NamespacesOf<P>,
    server: &Server<S>,
    ProcId { job, rank }: ProcId,
    (name, rest): (&[u8], &P::Bytes),
    code: Status,
) -> Option<usize> {
    let nspace = server.job(job)?.name().clone();
    let source = Proc { nspace: nspace.as_bytes(), rank: rank.0 };
    let range = range::CUSTOM;
    let notification = Notification { code, source, range, later: Some(range), infos: 3 };
    cache_notification::<P, S>(events, jobs, server, &notification, |to| {
        to.text(Some(keys::EVENT_CUSTOM_RANGE)).u32(0).of(Type::DATA_ARRAY).of(Type::PROC);
        to.size((rest.as_ref().len() / PROC_BYTES) as u64);
        write_members(rest.as_ref(), server, to);
        to.text(Some(keys::GROUP_NAME)).u32(0).of(Type::STRING).text(Some(name));
        source.write(to.text(Some(keys::EVENT_AFFECTED_PROC)).u32(0).of(Type::PROC));
    })
}

/// Writes members of a group, as they stand inside other values.
pub(super) fn write_members<S: Storage>(members: &[u8], server: &Server<S>, to: &mut Packer<'_>) {
    for (job, rank) in pairs(members) {
        let name = server.job(job).map_or(&b""[..], |job| job.name().as_bytes());
        Proc { nspace: name, rank }.write(to);
    }
}

/// Members without those that `is_out`.
fn without<B: SharedBytes>(members: &B, is_out: impl Fn(ProcId) -> bool) -> Option<B> {
    let rest = || {
        pairs(members.as_ref())
            .filter(|(job, rank)| !is_out(ProcId { job: *job, rank: Rank(*rank) }))
    };
    B::make(rest().count() * PROC_BYTES, |bytes| {
        let (places, _) = bytes.as_chunks_mut::<PROC_BYTES>();
        places.iter_mut().zip(rest()).for_each(|(place, pair)| write_pair(place, pair));
    })
}

/// Replaces the members of a group, and removes a group without members.
fn replace<B: SharedBytes>(groups: &mut impl Slots<ProcessGroup<B>>, at: usize, members: B) {
    match groups.get_mut(at) {
        Some(group) if !members.as_ref().is_empty() => group.members = members,
        _ => drop(groups.remove(at)),
    }
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
const NAME_BYTES: usize = 255;

/// Upper bound of the bytes of construct requests of one connection, which are stored until all
/// participants have joined.
const REQUESTS_BYTES: usize = 4 << 20;

/// Upper bound of the entries of a list that names groups. Each may stand for any number of
/// processes.
const NAMED_MAX: u32 = 64;
