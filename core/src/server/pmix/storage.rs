//! What the memory of PMIx sessions is made of.

use super::{
    CachedEvent, Connection, Namespace, OpenCollective, PendingRequest, ProcessGroup,
    PublishedValue, RankData, SharedBytes,
};
use crate::storage::{Buffer, Slots};

/// What the memory of PMIx sessions is made of. An owner names its kinds once.
pub trait PmixStorage {
    /// Bytes that answers and posted values are made of.
    type Block: SharedBytes;
    /// Holds a message of one connection that has not ended yet. Its size bounds what a peer can
    /// make the server hold: a commit or a spawn must fit.
    type Inbox: Buffer + 'static;
    /// Holds what one connection is owed.
    type Pendings: Slots<PendingRequest<Self::Block>> + 'static;
    /// Holds the connections.
    type Connections: Slots<Connection<Self::Block, Self::Inbox, Self::Pendings>>;
    /// Holds what the ranks of a job have posted.
    type Posts: AsRef<[RankData<Self::Block>]> + AsMut<[RankData<Self::Block>]>;
    /// Holds the jobs as PMIx clients see them.
    type Jobs: Slots<Namespace<Self::Block, Self::Posts>>;
    /// Holds what several processes do together.
    type Collectives: Slots<OpenCollective<Self::Block>>;
    /// Holds what is published.
    type Names: Slots<PublishedValue<Self::Block>>;
    /// Holds what has happened, for those that want to know of it later.
    type Events: Slots<CachedEvent<Self::Block>>;
    /// Holds groups of processes.
    type Groups: Slots<ProcessGroup<Self::Block>>;
}

/// The memory of a [`Pmix`](super::Pmix), all of it empty at first.
#[derive(Debug)]
pub struct PmixTables<P: PmixStorage> {
    /// See [`PmixStorage::Connections`].
    pub connections: P::Connections,
    /// See [`PmixStorage::Jobs`].
    pub jobs: P::Jobs,
    /// See [`PmixStorage::Collectives`].
    pub collectives: P::Collectives,
    /// See [`PmixStorage::Names`].
    pub names: P::Names,
    /// See [`PmixStorage::Events`].
    pub events: P::Events,
    /// See [`PmixStorage::Groups`].
    pub groups: P::Groups,
}
