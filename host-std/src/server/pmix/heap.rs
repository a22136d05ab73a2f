//! The memory of PMIx sessions on a host.

use crate::server::storage::Slab;
use pmi_core::server::pmix::{
    CachedEvent, Connection, Namespace, OpenCollective, PendingRequest, PmixStorage, ProcessGroup,
    PublishedValue, RankData, SharedBytes,
};
use pmi_std::BoundedBuf;
use std::rc::Rc;

/// What a host's [`Pmix`](pmi_core::server::pmix::Pmix) is made of.
#[derive(Debug)]
pub struct Heap;

/// Bytes with a counter of those that have them.
#[derive(Clone, Debug)]
pub struct Shared(Rc<Box<[u8]>>);

impl PmixStorage for Heap {
    type Block = Shared;
    type Inbox = BoundedBuf;
    type Pendings = Slab<PendingRequest<Shared>>;
    type Connections = Slab<Connection<Shared, BoundedBuf, Slab<PendingRequest<Shared>>>>;
    type Posts = Vec<RankData<Shared>>;
    type Jobs = Slab<Namespace<Shared, Vec<RankData<Shared>>>>;
    type Collectives = Slab<OpenCollective<Shared>>;
    type Names = Slab<PublishedValue<Shared>>;
    type Events = Slab<CachedEvent<Shared>>;
    type Groups = Slab<ProcessGroup<Shared>>;
}

impl SharedBytes for Shared {
    fn make(len: usize, fill: impl FnOnce(&mut [u8])) -> Option<Self> {
        let mut bytes = vec![0; len].into_boxed_slice();
        fill(&mut bytes);
        Some(Self(Rc::new(bytes)))
    }
}

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
