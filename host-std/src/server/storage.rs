//! The memory of the server on a host: vectors that grow with the job and are bounded only against
//! peers that misbehave.

use super::map_kvs::MapKvs;
use pmi_core::server::{Job, Member, PendingReply, Session, Storage};
pub use pmi_link::heap::Slab;
use pmi_std::BoundedBuf;

/// What a host's [`Server`](pmi_core::server::Server) is made of.
#[derive(Debug)]
pub struct Heap;

impl Storage for Heap {
    type Inbox = BoundedBuf;
    type Exchanges = Slab<PendingReply>;
    type Sessions = Slab<Session<BoundedBuf, Slab<PendingReply>>>;
    type Kvs = MapKvs;
    type Members = Vec<Member>;
    type Jobs = Slab<Job<MapKvs, Vec<Member>>>;
}
