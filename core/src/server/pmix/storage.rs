//! Memory of PMIx sessions, lent by the owner.

use super::cached_event::CachedEvent;
use super::collective::OpenCollective;
use super::group::ProcessGroup;
use super::modex::RankData;
use super::namespace::Namespace;
use super::published_value::PublishedValue;
use super::response::PendingRequest;
use super::session::PmixPeerState;
use super::shared_bytes::SharedBytes;
use crate::server::session::{Session, SessionState};
use crate::storage::{ArrayBuffer, Buffer, Slots};

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
