//! Group construction: of the processes that each participant lists or, for a bootstrap, of a
//! number of leaders and the members they add. Contributions of the participants are stored as
//! values qualified by the context id of the group.

use super::collective_uplink::CollectiveEnd;
use super::context::{PmixContext, PmixView};
use super::group_participant::{
    GroupParticipant, TOLERANT, WANTS_CONTEXT, WATCHED, leaders, named, participants, write_info,
    write_participant,
};
use super::procs::{ListedProc, count_procs, pack_sorted, unpack_procs};
use super::server::{PmixServer, PmixServerRef};
use super::session::PmixResponse;
use super::shared_bytes::pack;
use super::tables::{
    CollectiveKind, CollectiveUplink, OpenCollective, PmixSessionStateOf, PmixStorage, ProcessGroup,
};
use crate::ids::{ProcId, Rank};
use crate::server::Storage;
use crate::storage::Slots;
use crate::wire::pmix::names::Status;
use crate::wire::pmix::request::{self, Request};
use crate::wire::pmix::{Format, Info, Packer, Proc, Release, Type, Unpacker};

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
    /// Completes a bootstrap if all processes that its leaders name have joined or are gone. On several nodes
    /// each of them hands up its participants, whenever there are others, and the owner decides.
    pub(super) fn check_bootstrap(&mut self, at: usize) {
        let open = self.context.pmix.collectives.get_mut(at);
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
            match (here.is_in(at, member), here.view.is_gone(member)) {
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
        let view = here.view;
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
        let joined = || participants(data).filter_map(|one| view.listed_proc(one.proc));
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
        let shared = &mut *self.context.pmix;
        shared.groups.insert(group).ok_or(Status::OUT_OF_RESOURCE)?;
        let context = (flags & WANTS_CONTEXT != 0).then(|| match result {
            Some(end) => end.serial,
            None => {
                shared.contexts = shared.contexts.wrapping_add(1);
                shared.contexts
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
            let proc = self.context.view().listed_proc(one.proc).map(ListedProc::one);
            let Some(proc) = proc.filter(|_| one.has_contribution()) else { continue };
            match self.context.pmix.rank_data_mut(proc) {
                Some(rank_data) => rank_data.contribute(|to| {
                    one.qualified(context).for_each(|write| write(to));
                }),
                None => remote = remote.or(Some(proc.job)),
            }
        }
        // Those of other nodes are stored at once, since each addition copies all of them.
        let Some(id) = remote else { return };
        let PmixContext { pmix, common } = &mut self.context;
        let Some((job, namespace)) = common.job(id).zip(pmix.namespace_mut(id)) else { return };
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
                let procs = named(&group).map(move |proc| view.listed_proc(proc));
                core::iter::once(Some(leader.into())).chain(procs)
            })
        };
        view.pack_named(named)
    }

    /// The same of the participants of all nodes.
    fn named_in(self, data: &[u8]) -> Option<P::Bytes> {
        let leading = || participants(data).filter(|one| one.leaders > 0);
        let named = || leading().flat_map(|one| core::iter::once(one.proc).chain(one.named()));
        self.view.pack_named(|| named().map(|proc| self.view.listed_proc(proc)))
    }

    /// Records of the participants that have joined.
    pub(super) fn construct_data(self, at: usize) -> Option<P::Bytes> {
        pack(Format::PLAIN, |to| {
            for (ProcId { job, rank }, group) in self.construct_requests(at) {
                let proc = Proc { nspace: self.view.nspace(job), rank: rank.0 };
                write_participant(proc, &group, to);
            }
        })
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixView<'_, P, S> {
    /// Packs all processes that entries of lists stand for; `None` if one does not exist.
    fn pack_named<I: Iterator<Item = Option<ListedProc>>>(
        self,
        named: impl Fn() -> I,
    ) -> Option<P::Bytes> {
        if named().any(|proc| proc.is_none()) {
            return None;
        }
        pack_sorted(|| {
            named().flatten().flat_map(|listed| self.expand(listed)).map(ListedProc::from)
        })
    }

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
