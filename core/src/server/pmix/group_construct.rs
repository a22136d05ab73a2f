//! Group construction: of the processes that each participant lists or, for a bootstrap, of a
//! number of leaders and the members they add. Contributions of the participants are stored as
//! values qualified by the context id of the group.

use super::collective::{
    CollectiveKind, ListedProc, OpenCollective, count_procs, pack_sorted, unpack_procs,
};
use super::context::PmixView;
use super::group::ProcessGroup;
use super::response::PmixResponse;
use super::server::{PmixServer, PmixServerRef};
use super::shared_bytes::pack;
use super::storage::{PmixSessionStateOf, PmixStorage};
use crate::ids::ProcId;
use crate::server::Storage;
use crate::storage::Slots;
use crate::wire::pmix::names::{Status, flags, keys};
use crate::wire::pmix::request::{self, Request};
use crate::wire::pmix::{Format, Info, List, Packer, Proc, Release, Type, Unpacker};

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

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Completes a bootstrap if all processes that its leaders name have joined or are gone.
    pub(super) fn check_bootstrap(&mut self, at: usize) {
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
            match (here.is_in(at, member), here.view.is_gone(member)) {
                (true, _) => {}
                (false, true) => is_partial = true,
                (false, false) => return,
            }
        }
        let status = if is_partial { Status::PARTIAL_SUCCESS } else { Status::SUCCESS };
        self.end_collective(at, status);
    }

    /// Constructs the group whose participants have all joined or are gone.
    ///
    /// # Errors
    ///
    /// Status for the answers to all participants.
    pub(super) fn make_group(
        &mut self,
        at: usize,
        ended: &OpenCollective<P::Bytes>,
        status: Status,
    ) -> Result<ConstructedGroup<P::Bytes>, Status> {
        let here = self.as_ref();
        let is_set = |key| here.construct_requests(at).any(|(_, group)| group.infos.is_set(key));
        let is_tolerant = is_set(keys::GROUP_OPTIONAL) || is_set(keys::GROUP_FT_COLLECTIVE);
        if status != Status::SUCCESS && !(status == Status::PARTIAL_SUCCESS && is_tolerant) {
            return Err(status);
        }
        let is_watched = is_set(keys::GROUP_NOTIFY_TERMINATION);
        let has_context = is_set(keys::GROUP_ASSIGN_CONTEXT_ID);
        let members: Option<P::Bytes> = match ended.kind {
            CollectiveKind::Bootstrap => here.named_by_leaders(at),
            _ => pack_sorted(|| here.members(ended).map(ListedProc::from)),
        };
        let members = members.ok_or(Status::NOMEM)?;
        // A process that exited without joining is no member.
        let is_here = |member: &ListedProc| here.is_in(at, member.one());
        let members = pack_sorted(|| unpack_procs(members.as_ref()).filter(is_here));
        let members: P::Bytes = members.ok_or(Status::NOMEM)?;
        let contributed = pack(Format::PLAIN, |to| here.write_contributions(at, to));
        let contributed: P::Bytes = contributed.ok_or(Status::NOMEM)?;
        let contributed_count =
            here.construct_requests(at).filter(|(_, group)| contribution(group).is_some()).count();
        let contributed_count = u32::try_from(contributed_count).unwrap_or(u32::MAX);

        let name = ended.name.clone().ok_or(Status::BAD_PARAM)?;
        let group = ProcessGroup { name, members: members.clone(), is_watched, inviter: None };
        let shared = &mut *self.context.pmix;
        shared.groups.insert(group).ok_or(Status::OUT_OF_RESOURCE)?;
        let context = has_context.then(|| {
            shared.contexts = shared.contexts.wrapping_add(1);
            shared.contexts
        });
        if let Some(context) = context {
            self.store_contributions(at, context);
        }
        Ok(ConstructedGroup { members, context, contributed, contributed_count })
    }

    /// Stores the contributions with the committed data of their ranks, qualified by the context id
    /// of the group.
    fn store_contributions(&mut self, at: usize, context: u32) {
        for state in self.sessions.states() {
            let Some((peer, group)) = construct_request::<P>(state, at) else { continue };
            let (Some(list), Some(rank_data)) =
                (contribution(&group), self.context.pmix.rank_data_mut(peer))
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
        let view = self.view;
        let named = || {
            let leading = self.construct_requests(at).filter(|(_, group)| leaders(group).is_some());
            leading.flat_map(move |(leader, group)| {
                let added = group.infos.find(keys::GROUP_ADD_MEMBERS);
                let added = added.and_then(|added| added.array()).map(|added| added.procs());
                let procs = group.procs.procs().chain(added.into_iter().flatten());
                let procs = procs.map(move |proc| view.listed_proc(proc));
                core::iter::once(Some(leader.into())).chain(procs)
            })
        };
        if named().any(|proc| proc.is_none()) {
            return None;
        }
        pack_sorted(|| {
            named().flatten().flat_map(|listed| view.expand(listed)).map(ListedProc::from)
        })
    }

    /// Writes the contributions, each with the name of its process in front.
    fn write_contributions(self, at: usize, to: &mut Packer<'_>) {
        for (ProcId { job, rank }, group) in self.construct_requests(at) {
            let Some(list) = contribution(&group) else { continue };
            let own = || list.infos().filter(|info| info.key != keys::PROC_ID);
            to.one(Type::INFO).text(Some(keys::GROUP_INFO)).u32(0);
            to.of(Type::DATA_ARRAY).of(Type::INFO).size(own().count() as u64 + 1);
            to.text(Some(keys::PROC_ID)).u32(0).of(Type::PROC);
            Proc { nspace: self.view.nspace(job), rank: rank.0 }.write(to);
            own().for_each(|info| write_info(&info, info.flags, to));
        }
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixView<'_, P, S> {
    /// Answer to a participant that requested the group.
    pub(super) fn construct_response(
        self,
        constructed: &ConstructedGroup<P::Bytes>,
        state: &PmixSessionStateOf<P>,
    ) -> PmixResponse<P::Bytes> {
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
        self,
        constructed: &ConstructedGroup<P::Bytes>,
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
