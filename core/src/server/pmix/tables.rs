//! Tables of the PMIx part of a server: the memory that the owner lends ([`PmixStorage`]), the state that
//! clients share ([`PmixShared`]), and the elements that have no file of their own: collectives, groups and
//! published values.

use super::event_cache::CachedEvent;
use super::namespace::{ForeignName, Namespace};
use super::procs::{ListedProc, MembershipDigest, pack_procs, unpack_procs};
use super::rank_data::RankData;
use super::session::{PendingRequest, PmixPeerState};
use super::shared_bytes::SharedBytes;
use crate::ids::{JobId, ProcId};
use crate::server::Storage;
use crate::server::session::{Session, SessionState};
use crate::storage::{ArrayBuffer, Buffer, Slots};
use crate::wire::pmix::{Format, Type};

/// Storage of PMIx sessions. The owner chooses the kinds of slots; their contents are internal.
pub trait PmixStorage {
    /// False in a build whose server serves no PMIx client: code for them is left out.
    const ENABLED: bool = true;
    /// True in a build whose server admits tools; code for them is left out of the others.
    const ADMITS_TOOLS: bool = false;

    /// Bytes of responses and of committed values.
    type Bytes: SharedBytes;
    /// Holds a message of one session that has not ended. Its size bounds what a peer can make the
    /// server hold: a commit or a spawn must fit.
    type Inbox: Buffer + 'static;
    /// Slots for the requests of one session that have not been answered.
    type Pending<T: 'static>: Slots<T> + 'static;
    /// Slots for the sessions.
    type Sessions<T: 'static>: Slots<T>;
    /// Slots for the ranks of a job.
    type Ranks<T: 'static>: AsRef<[T]> + AsMut<[T]> + 'static;
    /// Slots for the jobs as PMIx clients see them.
    type Namespaces<T: 'static>: Slots<T>;
    /// Slots for the collectives that some participants have joined.
    type Collectives<T: 'static>: Slots<T>;
    /// Slots for published data.
    type Names<T: 'static>: Slots<T>;
    /// Slots for cached events.
    type Events<T: 'static>: Slots<T>;
    /// Slots for groups of processes.
    type Groups<T: 'static>: Slots<T>;
}

/// A server without PMIx clients.
impl PmixStorage for () {
    type Bytes = ArrayBuffer<0>;
    type Inbox = ArrayBuffer<0>;
    type Pending<T: 'static> = [Option<T>; 0];
    type Sessions<T: 'static> = [Option<T>; 0];
    type Ranks<T: 'static> = [T; 0];
    type Namespaces<T: 'static> = [Option<T>; 0];
    type Collectives<T: 'static> = [Option<T>; 0];
    type Names<T: 'static> = [Option<T>; 0];
    type Events<T: 'static> = [Option<T>; 0];
    type Groups<T: 'static> = [Option<T>; 0];

    const ENABLED: bool = false;
}

/// Bytes of responses and of committed values in the memory of `S`.
pub(super) type BytesOf<S> = Bytes<<S as Storage>::Pmix>;
type Bytes<P> = <P as PmixStorage>::Bytes;
pub(super) type PendingOf<P> = <P as PmixStorage>::Pending<PendingRequest<Bytes<P>>>;
/// State of the session of a PMIx client in the memory of `P`.
pub type PmixPeerStateOf<P> = PmixPeerState<Bytes<P>>;
/// The session of a PMIx client in the memory of `P`.
pub type PmixSessionOf<P> = Session<<P as PmixStorage>::Inbox, PendingOf<P>, PmixPeerStateOf<P>>;
pub(super) type PmixSessionStateOf<P> = SessionState<PendingOf<P>, PmixPeerStateOf<P>>;
pub(in crate::server) type PmixSessionsOf<P> = <P as PmixStorage>::Sessions<PmixSessionOf<P>>;
pub(super) type RanksOf<P> = <P as PmixStorage>::Ranks<RankData<Bytes<P>>>;
pub(super) type NamespaceOf<P> = Namespace<Bytes<P>, RanksOf<P>>;
pub(super) type NamespacesOf<P> = <P as PmixStorage>::Namespaces<NamespaceOf<P>>;
pub(super) type CollectivesOf<P> = <P as PmixStorage>::Collectives<OpenCollective<Bytes<P>>>;
pub(super) type NamesOf<P> = <P as PmixStorage>::Names<PublishedValue<Bytes<P>>>;
pub(super) type EventsOf<P> = <P as PmixStorage>::Events<CachedEvent<Bytes<P>>>;
pub(super) type GroupsOf<P> = <P as PmixStorage>::Groups<ProcessGroup<Bytes<P>>>;

/// Tables of the PMIx part of a server, initially empty.
pub struct PmixTables<P: PmixStorage> {
    /// See [`PmixStorage::Sessions`].
    pub sessions: PmixSessionsOf<P>,
    /// See [`PmixStorage::Namespaces`].
    pub jobs: NamespacesOf<P>,
    /// See [`PmixStorage::Collectives`].
    pub collectives: CollectivesOf<P>,
    /// See [`PmixStorage::Names`].
    pub names: NamesOf<P>,
    /// See [`PmixStorage::Events`].
    pub events: EventsOf<P>,
    /// See [`PmixStorage::Groups`].
    pub groups: GroupsOf<P>,
}

impl<P: PmixStorage> core::fmt::Debug for PmixTables<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PmixTables").finish_non_exhaustive()
    }
}

/// State of all PMIx clients, besides their sessions.
pub(in crate::server) struct PmixShared<P: PmixStorage> {
    pub(super) namespaces: NamespacesOf<P>,
    pub(super) collectives: CollectivesOf<P>,
    pub(super) names: NamesOf<P>,
    pub(super) events: EventsOf<P>,
    pub(super) groups: GroupsOf<P>,
    /// True if a lookup may wait for published data.
    pub(super) has_waiting_lookup: bool,
    /// Last context id given to a group.
    pub(super) contexts: u32,
    /// Number of requests handed to the owner.
    pub(super) asked: u32,
    /// Number of the last collective whose part on this node is complete.
    pub(super) handed_up: u32,
    /// True if the owner has to hand up or to withdraw a collective.
    pub(super) has_collective_event: bool,
    /// True if requests of other nodes for committed data may have an answer.
    pub(super) has_modex_event: bool,
    /// True if the owner reaches processes of other runs.
    pub(super) allows_foreign: bool,
}

impl PmixShared<()> {
    /// The state of a server without PMIx clients.
    pub(in crate::server) const EMPTY: Self = Self::of([], [], [], [], []);
}

impl<P: PmixStorage> PmixShared<P> {
    /// The state of a server without jobs, and the table of its sessions.
    pub(super) fn new(tables: PmixTables<P>) -> (Self, PmixSessionsOf<P>) {
        let PmixTables { sessions, jobs, collectives, names, events, groups } = tables;
        (Self::of(jobs, collectives, names, events, groups), sessions)
    }

    const fn of(
        namespaces: NamespacesOf<P>,
        collectives: CollectivesOf<P>,
        names: NamesOf<P>,
        events: EventsOf<P>,
        groups: GroupsOf<P>,
    ) -> Self {
        Self {
            namespaces,
            collectives,
            names,
            events,
            groups,
            has_waiting_lookup: false,
            contexts: 0,
            asked: 0,
            handed_up: 0,
            has_collective_event: false,
            has_modex_event: false,
            allows_foreign: false,
        }
    }

    pub(super) fn namespace_mut(&mut self, job: JobId) -> Option<&mut NamespaceOf<P>> {
        let at = self.place(job)?;
        self.namespaces.get_mut(at)
    }

    pub(super) fn namespace(&self, job: JobId) -> Option<&NamespaceOf<P>> {
        self.namespaces.get(self.place(job)?)
    }

    pub(super) fn rank_data(&self, proc: ProcId) -> Option<&RankData<P::Bytes>> {
        self.namespace(proc.job)?.rank_data(proc.rank)
    }

    pub(super) fn rank_data_mut(&mut self, proc: ProcId) -> Option<&mut RankData<P::Bytes>> {
        self.namespace_mut(proc.job)?.rank_data_mut(proc.rank)
    }

    /// Place of the namespace of another run.
    pub(super) fn foreign_place(&self, nspace: &[u8]) -> Option<usize> {
        let is_its = |foreign: &ForeignName<P::Bytes>| foreign.name() == nspace;
        (0..self.namespaces.end()).find(|at| {
            let namespace = self.namespaces.get(*at);
            namespace.is_some_and(|of| of.foreign.as_ref().is_some_and(is_its))
        })
    }

    /// Place of the namespace of a job. Most jobs and their namespaces are added together and have
    /// the same number.
    pub(super) fn place(&self, job: JobId) -> Option<usize> {
        let is_its = |found: &NamespaceOf<P>| found.foreign.is_none() && found.job == job;
        let is_its = |at: &usize| self.namespaces.get(*at).is_some_and(is_its);
        let same = Some(job.0 as usize).filter(is_its);
        same.or_else(|| (0..self.namespaces.end()).find(is_its))
    }
}

/// An open collective, and the number of its participants that have joined.
#[derive(Clone, Debug)]
pub struct OpenCollective<B> {
    pub(super) kind: CollectiveKind,
    /// The group that it is about; of a fence, a connect or a disconnect, the processes of other runs.
    pub(super) name: Option<B>,
    /// Participants, packed by [`pack_procs`].
    pub(super) participants: B,
    pub(super) digest: MembershipDigest,
    /// The number of participants that have joined, by connections.
    pub(super) inside: u32,
    /// Number of participants on this node; of a bootstrap, those that were handed up.
    pub(super) local_count: u32,
    pub(super) uplink: CollectiveUplink,
}

/// Progress of a collective beyond this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CollectiveUplink {
    /// Other nodes take no part.
    None,
    /// Participants of this node are missing.
    Open,
    /// Its part on this node is complete, and the owner has to hand it up.
    Due(HandedUp),
    /// The owner has handed it up.
    Sent(HandedUp),
    /// It has timed out here, and the owner has to withdraw it. There are no participants any more.
    Withdrawn(HandedUp),
}

/// A collective whose part on this node is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HandedUp {
    /// Its number among those of this node.
    pub(super) number: u32,
    /// True if participants of this node are gone without having joined.
    pub(super) is_partial: bool,
}

/// Kind of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectiveKind {
    /// A fence of some processes.
    Fence,
    /// A fence, after which the processes know each other's jobs.
    Connect,
    /// A fence, after which they do not.
    Disconnect,
    /// Construction of a group that all its processes list.
    Construct,
    /// Construction of a group from leaders and the members they add.
    Bootstrap,
    /// Destruction of a group.
    Destruct,
}

impl CollectiveKind {
    /// True if it carries committed data.
    pub const fn has_data(self) -> bool {
        matches!(self, Self::Fence | Self::Connect | Self::Disconnect)
    }
}

impl<B: SharedBytes> OpenCollective<B> {
    pub(super) fn is(&self, purpose: CollectiveKind, name: Option<&[u8]>) -> bool {
        self.kind == purpose && self.name.as_ref().map(AsRef::as_ref) == name
    }

    /// Its part on this node, if that is complete and the collective goes on beyond the node.
    pub(super) const fn handed_up(&self) -> Option<HandedUp> {
        match self.uplink {
            CollectiveUplink::Due(part) | CollectiveUplink::Sent(part) => Some(part),
            _ => None,
        }
    }

    /// Processes of other runs that take part, packed; `None` without any.
    pub(super) fn others(&self) -> Option<&[u8]> {
        let name = self.name.as_ref().map(AsRef::as_ref);
        name.filter(|_| self.kind.has_data())
    }

    /// Kind of the collective.
    pub(super) const fn kind(&self) -> CollectiveKind {
        self.kind
    }

    /// True if a process participates.
    pub(super) fn has(&self, proc: ProcId) -> bool {
        self.listed().any(|listed| listed.matches_digest(proc.into()))
    }

    /// True if a process is listed twice, so that the collective could never complete. All
    /// participants list the same.
    pub(super) fn names_twice(&self) -> bool {
        // The list is mostly in order, where duplicates are neighbours.
        let next = || self.listed().zip(self.listed().skip(1));
        if next().all(|(one, other)| one < other) {
            return next().any(|(one, other)| one.matches_digest(other));
        }
        let mut all = self.listed().enumerate();
        all.any(|(at, one)| self.listed().take(at).any(|before| before.matches_digest(one)))
    }

    /// The participants, as they were listed.
    pub(super) fn listed(&self) -> impl Iterator<Item = ListedProc> {
        unpack_procs(self.participants.as_ref())
    }
}

/// A named group of processes.
#[derive(Clone, Debug)]
pub struct ProcessGroup<B> {
    pub(super) name: B,
    /// Members, packed by [`pack_procs`].
    pub(super) members: B,
    /// True if members are notified when one of them exits.
    pub(super) is_watched: bool,
    /// The process whose invitation is open; `None` for a complete group.
    pub(super) inviter: Option<ProcId>,
}

impl<B: SharedBytes> ProcessGroup<B> {
    pub(super) const fn is_complete(&self) -> bool {
        self.inviter.is_none()
    }

    pub(super) fn has(&self, member: ProcId) -> bool {
        self.members().any(|other| other == member)
    }

    pub(super) fn members(&self) -> impl Iterator<Item = ProcId> {
        unpack_procs(self.members.as_ref()).map(|member| member.one())
    }

    /// Members without those that `is_out`.
    pub(super) fn without(&self, is_out: impl Fn(ProcId) -> bool) -> Option<B> {
        pack_procs(|| {
            let members = unpack_procs(self.members.as_ref());
            members.filter(|member| !is_out(member.one()))
        })
    }
}

/// A published value.
#[derive(Clone, Debug)]
pub struct PublishedValue<B> {
    pub(super) key: B,
    pub(super) of: Type,
    /// The value without its type, as its publisher writes.
    pub(super) value: B,
    pub(super) format: Format,
    /// The name space of its publisher, which may be gone when the data is not.
    pub(super) nspace: B,
    pub(super) owner: ProcId,
    /// Number of the node of its publisher.
    pub(super) node: Option<u32>,
    pub(super) range: u8,
    pub(super) persistence: u8,
    /// True if it is a name of the server as well.
    pub(super) is_name: bool,
}
