//! The memory of PMIx sessions on a host.

use crate::server::storage::Slab;
use pmi_core::server::pmix::{PmixStorage, SharedBytes};
use pmi_std::BoundedBuf;
use std::rc::Rc;

/// What a host's [`Pmix`](pmi_core::server::pmix::Pmix) is made of.
#[derive(Debug)]
pub struct Heap;

/// Bytes with a counter of those that have them.
#[derive(Clone, Debug)]
pub struct Shared(Rc<Box<[u8]>>);

impl PmixStorage for Heap {
    type Bytes = Shared;
    type Inbox = BoundedBuf;
    type Pending<T: 'static> = Slab<T>;
    type Connections<T: 'static> = Slab<T>;
    type Ranks<T: 'static> = Vec<T>;
    type Namespaces<T: 'static> = Slab<T>;
    type Collectives<T: 'static> = Slab<T>;
    type Names<T: 'static> = Slab<T>;
    type Events<T: 'static> = Slab<T>;
    type Groups<T: 'static> = Slab<T>;
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
