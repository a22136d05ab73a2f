//! The memory of PMIx sessions on a host.

use crate::server::storage::Table;
use pmi_core::server::pmix::{
    Block, Collective, Connection, Group, Happening, JobView, Memory, Pending, Post, Published,
};
use pmi_std::Bounded;
use std::rc::Rc;

/// What a host's [`Pmix`](pmi_core::server::pmix::Pmix) is made of.
#[derive(Debug)]
pub struct Heap;

/// Bytes with a counter of those that have them.
#[derive(Clone, Debug)]
pub struct Shared(Rc<Box<[u8]>>);

impl Memory for Heap {
    type Block = Shared;
    type Inbox = Bounded;
    type Pendings = Table<Pending<Shared>>;
    type Connections = Table<Connection<Shared, Bounded, Table<Pending<Shared>>>>;
    type Posts = Vec<Post<Shared>>;
    type Jobs = Table<JobView<Shared, Vec<Post<Shared>>>>;
    type Collectives = Table<Collective<Shared>>;
    type Names = Table<Published<Shared>>;
    type Events = Table<Happening<Shared>>;
    type Groups = Table<Group<Shared>>;
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
