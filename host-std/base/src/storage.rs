//! Storage of the server on a host: vectors that grow with the job and are bounded only against
//! misbehaving peers.

use crate::map_kvs::MapKvs;
use crate::signals;
use core::marker::PhantomData;
use pmi_core::server::pmix::PmixStorage;
use pmi_core::server::{Member, Storage};
pub use pmi_link::heap::{Slab, UniqueSlots};
use pmi_std::BoundedBuf;

/// Storage types of a host's [`Server`](pmi_core::server::Server); `P` are those of the sessions of PMIx
/// clients.
#[derive(Debug)]
pub struct Heap<P = ()>(PhantomData<P>);

impl<P: PmixStorage> Storage for Heap<P> {
    type Inbox = BoundedBuf;
    type Pending<T: 'static> = Slab<T>;
    type Sessions<T: 'static> = Slab<T>;
    type Kvs = MapKvs;
    type Members = Vec<Member>;
    type Jobs<T: 'static> = UniqueSlots<T>;
    type Pmix = P;

    fn has_signal(name: &[u8]) -> bool {
        core::str::from_utf8(name).is_ok_and(signals::is_known)
    }
}
