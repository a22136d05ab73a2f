//! What the memory of PMIx sessions is made of.

use super::{Block, Collective, Connection, Group, Happening, JobView, Pending, Post, Published};
use crate::storage::{Buffer, Slots};

/// What the memory of PMIx sessions is made of. An owner names its kinds once.
pub trait Memory {
    /// Bytes that answers and posted values are made of.
    type Block: Block;
    /// Holds a message of one connection that has not ended yet. Its size bounds what a peer can
    /// make the server hold: a commit or a spawn must fit.
    type Inbox: Buffer + 'static;
    /// Holds what one connection is owed.
    type Pendings: Slots<Pending<Self::Block>> + 'static;
    /// Holds the connections.
    type Connections: Slots<Connection<Self::Block, Self::Inbox, Self::Pendings>>;
    /// Holds what the ranks of a job have posted.
    type Posts: AsRef<[Post<Self::Block>]> + AsMut<[Post<Self::Block>]>;
    /// Holds the jobs as PMIx clients see them.
    type Jobs: Slots<JobView<Self::Block, Self::Posts>>;
    /// Holds what several processes do together.
    type Collectives: Slots<Collective<Self::Block>>;
    /// Holds what is published.
    type Names: Slots<Published<Self::Block>>;
    /// Holds what has happened, for those that want to know of it later.
    type Events: Slots<Happening<Self::Block>>;
    /// Holds groups of processes.
    type Groups: Slots<Group<Self::Block>>;
}

/// The memory of a [`Pmix`](super::Pmix), all of it empty at first.
#[derive(Debug)]
pub struct Tables<P: Memory> {
    /// See [`Memory::Connections`].
    pub connections: P::Connections,
    /// See [`Memory::Jobs`].
    pub jobs: P::Jobs,
    /// See [`Memory::Collectives`].
    pub collectives: P::Collectives,
    /// See [`Memory::Names`].
    pub names: P::Names,
    /// See [`Memory::Events`].
    pub events: P::Events,
    /// See [`Memory::Groups`].
    pub groups: P::Groups,
}
