//! The memory of PMIx sessions on a host.

use crate::server::storage::Slab;
use pmi_core::server::pmix::{
    Block, Collective, Connection, Group, Happening, JobView, Memory, Pending, Post, Published,
};
use pmi_std::BoundedBuf;
use std::rc::Rc;

/// What a host's [`Pmix`](pmi_core::server::pmix::Pmix) is made of.
#[derive(Debug)]
pub struct Heap;

/// Bytes with a counter of those that have them.
#[derive(Clone, Debug)]
pub struct Shared(Rc<Box<[u8]>>);

impl Memory for Heap {
    type Block = Shared;
    type Inbox = BoundedBuf;
    type Pendings = Slab<Pending<Shared>>;
    type Connections = Slab<Connection<Shared, BoundedBuf, Slab<Pending<Shared>>>>;
    type Posts = Vec<Post<Shared>>;
    type Jobs = Slab<JobView<Shared, Vec<Post<Shared>>>>;
    type Collectives = Slab<Collective<Shared>>;
    type Names = Slab<Published<Shared>>;
    type Events = Slab<Happening<Shared>>;
    type Groups = Slab<Group<Shared>>;
}

impl Block for Shared {
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
