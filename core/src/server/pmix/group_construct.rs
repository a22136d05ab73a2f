//! Group construction: of the processes that each participant lists or, for a bootstrap, of a
//! number of leaders and the members they add. Contributions of the participants are stored as
//! values qualified by the context id of the group.

use super::collective::{CollectiveKind, OpenCollective, PROC_BYTES, pairs, write_pair};
use super::connection::{Connection, PmixResponse};
use super::groups::{ProcessGroup, write_members};
use super::shared_bytes::{SharedBytes, pack};
use super::storage::ConnStateOf;
use super::{Pmix, PmixStorage, namespace};
use crate::ids::{JobId, ProcId, Rank};
use crate::server::member::Member;
use crate::server::{Job, Server, Storage};
use crate::storage::Slots;
use crate::wire::pmix::names::{Status, flags, keys};
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

impl<P: PmixStorage> Pmix<P> {
    /// Completes a bootstrap if all processes that its leaders name have joined or are gone.
    pub(super) fn check_bootstrap<S: Storage>(&mut self, at: usize, server: &Server<S>) {
        let needed = self.construct_requests(at).filter_map(|(_, group)| leaders(&group)).max();
        let have =
            self.construct_requests(at).filter(|(_, group)| leaders(group).is_some()).count();
        if needed.is_none_or(|needed| (have as u64) < needed) {
            return;
        }
        let Some(members) = self.named_by_leaders(at, server) else {
            return self.end_collective(at, Status::NOT_FOUND, server);
        };
        let mut is_partial = false;
        for ProcId { job, rank } in
            pairs(members.as_ref()).map(|(job, rank)| ProcId { job, rank: Rank(rank) })
        {
            let member = server.job(job).and_then(|job| job.member(rank));
            match (self.is_in(at, ProcId { job, rank }), member.is_none_or(Member::is_gone)) {
                (true, _) => {}
                (false, true) => is_partial = true,
                (false, false) => return,
            }
        }
        let status = if is_partial { Status::PARTIAL_SUCCESS } else { Status::SUCCESS };
        self.end_collective(at, status, server);
    }

    /// Constructs the group whose participants have all joined or are gone.
    ///
    /// # Errors
    ///
    /// Status for the answers to all participants.
    pub(super) fn make_group<S: Storage>(
        &mut self,
        at: usize,
        ended: &OpenCollective<P::Bytes>,
        status: Status,
        server: &Server<S>,
    ) -> Result<ConstructedGroup<P::Bytes>, Status> {
        let is_set = |key| self.construct_requests(at).any(|(_, group)| group.infos.is_set(key));
        let is_tolerant = is_set(keys::GROUP_OPTIONAL) || is_set(keys::GROUP_FT_COLLECTIVE);
        if status != Status::SUCCESS && !(status == Status::PARTIAL_SUCCESS && is_tolerant) {
            return Err(status);
        }
        let is_watched = is_set(keys::GROUP_NOTIFY_TERMINATION);
        let has_context = is_set(keys::GROUP_ASSIGN_CONTEXT_ID);
        let members = match ended.kind {
            CollectiveKind::Bootstrap => self.named_by_leaders(at, server),
            _ => sorted(|| ended.members(server).map(|member| (member.job, member.rank.0))),
        };
        let members = members.ok_or(Status::NOMEM)?;
        // A process that exited without joining is no member.
        let is_here =
            |(job, rank): &(JobId, u32)| self.is_in(at, ProcId { job: *job, rank: Rank(*rank) });
        let members = sorted::<P::Bytes, _>(|| pairs(members.as_ref()).filter(is_here));
        let members = members.ok_or(Status::NOMEM)?;
        let contributed = pack(Format::PLAIN, |to| self.write_contributions(at, server, to));
        let contributed: P::Bytes = contributed.ok_or(Status::NOMEM)?;
        let brought_count =
            self.construct_requests(at).filter(|(_, group)| contribution(group).is_some()).count();
        let brought_count = u32::try_from(brought_count).unwrap_or(u32::MAX);

        let name = ended.name.clone().ok_or(Status::BAD_PARAM)?;
        let group = ProcessGroup { name, members: members.clone(), is_watched };
        self.groups.insert(group).ok_or(Status::OUT_OF_RESOURCE)?;
        let context = has_context.then(|| {
            self.contexts = self.contexts.wrapping_add(1);
            self.contexts
        });
        if let Some(context) = context {
            self.store_contributions(at, context);
        }
        Ok(ConstructedGroup { members, context, contributed, contributed_count: brought_count })
    }

    /// Answer to a participant that requested the group.
    pub(super) fn construct_response<S: Storage>(
        constructed: &ConstructedGroup<P::Bytes>,
        state: &ConnStateOf<P>,
        server: &Server<S>,
    ) -> PmixResponse<P::Bytes> {
        let is_member = state.peer.is_some_and(|ProcId { job, rank }| {
            pairs(constructed.members.as_ref()).any(|member| member == (job, rank.0))
        });
        if !is_member {
            return PmixResponse::Status(Status::BAD_PARAM);
        }
        let layout = ConstructLayout::of(state.release);
        let answer = pack(state.format, |to| constructed.write(layout, server, to));
        answer.map_or(PmixResponse::Status(Status::NOMEM), PmixResponse::Body)
    }

    /// Participants that have joined, with their requests.
    fn construct_requests(
        &self,
        at: usize,
    ) -> impl Iterator<Item = (ProcId, request::Collective<'_>)> {
        let all = (0..self.connections.end()).filter_map(|number| self.connections.get(number));
        all.filter_map(move |Connection { state, .. }| {
            let pending = state.pending.get(state.in_collective(at)?)?;
            let PmixResponse::Collective { contributed: Some(body), .. } = &pending.response else {
                return None;
            };
            match Request::read(Unpacker::new(body.as_ref(), state.format)).ok()? {
                Request::GroupConstruct { group, .. } => Some((state.peer?, group)),
                _ => None,
            }
        })
    }

    /// Processes that leaders name: themselves, those they list, and those they add; `None` if one
    /// does not exist.
    pub(super) fn named_by_leaders<S: Storage>(
        &self,
        at: usize,
        server: &Server<S>,
    ) -> Option<P::Bytes> {
        let named = || {
            let leading = self.construct_requests(at).filter(|(_, group)| leaders(group).is_some());
            leading.flat_map(|(ProcId { job, rank }, group)| {
                let added = group.infos.find(keys::GROUP_ADD_MEMBERS);
                let added = added.and_then(|added| added.array()).map(|added| added.procs());
                let procs = group.procs.procs().chain(added.into_iter().flatten());
                let procs = procs.map(|proc| {
                    Some((namespace::named(&self.jobs, server, proc.nspace)?, proc.rank))
                });
                core::iter::once(Some((job, rank.0))).chain(procs)
            })
        };
        let is_there = |proc: Option<(JobId, u32)>| {
            let (job, rank) = proc?;
            let size = server.job(job).map_or(0, Job::size);
            (rank == WILDCARD || rank < size).then_some(())
        };
        if named().any(|proc| is_there(proc).is_none()) {
            return None;
        }
        sorted(|| expanded(named().flatten(), server))
    }

    /// Writes the contributions, each with the name of its process in front.
    fn write_contributions<S: Storage>(&self, at: usize, server: &Server<S>, to: &mut Packer<'_>) {
        for (ProcId { job, rank }, group) in self.construct_requests(at) {
            let Some(list) = contribution(&group) else { continue };
            let name = server.job(job).map_or(&b""[..], |job| job.name().as_bytes());
            let own = || list.infos().filter(|info| info.key != keys::PROC_ID);
            to.one(Type::INFO).text(Some(keys::GROUP_INFO)).u32(0);
            to.of(Type::DATA_ARRAY).of(Type::INFO).size(own().count() as u64 + 1);
            to.text(Some(keys::PROC_ID)).u32(0).of(Type::PROC);
            Proc { nspace: name, rank: rank.0 }.write(to);
            own().for_each(|info| write_info(&info, info.flags, to));
        }
    }

    /// Stores the contributions with the committed data of their ranks, qualified by the context id
    /// of the group.
    fn store_contributions(&mut self, at: usize, context: u32) {
        for number in 0..self.connections.end() {
            let Some(Connection { state, .. }) = self.connections.get(number) else { continue };
            let (Some(place), Some(ProcId { job, rank })) = (state.in_collective(at), state.peer)
            else {
                continue;
            };
            let pending = state.pending.get(place).map(|pending| &pending.response);
            let Some(PmixResponse::Collective { contributed: Some(body), .. }) = pending else {
                continue;
            };
            let read = Request::read(Unpacker::new(body.as_ref(), state.format));
            let Ok(Request::GroupConstruct { group, .. }) = read else { continue };
            let (Some(list), Some(rank_data)) =
                (contribution(&group), namespace::rank_data_mut(&mut self.jobs, job, rank))
            else {
                continue;
            };
            rank_data.contribute(|to| {
                for info in list.infos().filter(|info| info.key != keys::PROC_ID) {
                    to.one(Type::KVAL).text(Some(keys::QUALIFIED_VALUE)).of(Type::DATA_ARRAY);
                    to.of(Type::INFO).size(2);
                    write_info(&info, 0, to);
                    to.text(Some(keys::GROUP_CONTEXT_ID)).u32(flags::QUALIFIER);
                    to.of(Type::SIZE).size(context.into());
                }
            });
        }
    }
}

impl<B: SharedBytes> ConstructedGroup<B> {
    fn write<S: Storage>(&self, layout: ConstructLayout, server: &Server<S>, to: &mut Packer<'_>) {
        to.one(Type::STATUS).i32(Status::SUCCESS.0);
        if layout != ConstructLayout::Number {
            let members = self.members.as_ref();
            let count = u32::try_from(members.len() / PROC_BYTES).unwrap_or(u32::MAX);
            to.one(Type::SIZE).size(count.into()).op(Type::PROC, count);
            write_members(members, server, to);
        }
        match (layout, self.context) {
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
            to.one(Type::SIZE).size(self.contributed_count.into());
            let mut from = Unpacker::new(self.contributed.as_ref(), Format::PLAIN);
            for _ in 0..self.contributed_count {
                // The server packed them itself, of types that were read before.
                let Ok(info) = from.one(Type::INFO).and_then(Info::read) else { return };
                write_info(&info, info.flags, to.one(Type::INFO));
            }
        }
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

/// Number of leaders, if the request is of a leader.
pub(super) fn leaders(group: &request::Collective<'_>) -> Option<u64> {
    let number = group.infos.find(keys::GROUP_BOOTSTRAP)?.number()?;
    u64::try_from(number).ok().filter(|number| *number > 0)
}

/// Contribution of a process, if any.
fn contribution<'a>(group: &request::Collective<'a>) -> Option<List<'a>> {
    group.infos.find(keys::GROUP_INFO)?.array().filter(|list| list.of == Type::INFO)
}

/// Writes an info as it stands inside other values.
fn write_info(info: &Info<'_>, flags: u32, to: &mut Packer<'_>) {
    to.text(Some(info.key)).u32(flags).of(info.value.of);
    // It was read as a value of this type, so writing succeeds.
    let _ = info.value.write(to);
}

/// Processes of a list one by one, with wildcards for whole jobs resolved.
fn expanded<S: Storage>(
    listed: impl Iterator<Item = (JobId, u32)>,
    server: &Server<S>,
) -> impl Iterator<Item = (JobId, u32)> {
    listed.flat_map(|(job, rank)| {
        let size = server.job(job).map_or(0, Job::size);
        let ranks = if rank == WILDCARD { 0..size } else { rank..rank.saturating_add(1) };
        ranks.map(move |rank| (job, rank))
    })
}

/// Packs processes in ascending order, without duplicates.
fn sorted<B: SharedBytes, I: Iterator<Item = (JobId, u32)>>(procs: impl Fn() -> I) -> Option<B> {
    let all = B::make(procs().count() * PROC_BYTES, |bytes| {
        let (places, _) = bytes.as_chunks_mut::<PROC_BYTES>();
        places.iter_mut().zip(procs()).for_each(|(place, pair)| write_pair(place, pair));
        places.sort_unstable();
    })?;
    let once = || {
        let before = core::iter::once(None).chain(pairs(all.as_ref()).map(Some));
        let pairs = pairs(all.as_ref()).zip(before);
        pairs.filter(|(pair, before)| Some(*pair) != *before).map(|(pair, _)| pair)
    };
    B::make(once().count() * PROC_BYTES, |bytes| {
        let (places, _) = bytes.as_chunks_mut::<PROC_BYTES>();
        places.iter_mut().zip(once()).for_each(|(place, pair)| write_pair(place, pair));
    })
}
