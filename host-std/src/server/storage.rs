//! The memory of the server on a host: vectors that grow with the job and are bounded only against
//! peers that misbehave.

use super::map_kvs::MapKvs;
use pmi_core::server::{Exchange, Job, Member, Session, Storage};
pub use pmi_link::heap::Table;
use pmi_std::Bounded;

/// What a host's [`Server`](pmi_core::server::Server) is made of.
#[derive(Debug)]
pub struct Heap;

impl Storage for Heap {
    type Inbox = Bounded;
    type Exchanges = Table<Exchange>;
    type Sessions = Table<Session<Bounded, Table<Exchange>>>;
    type Kvs = MapKvs;
    type Members = Vec<Member>;
    type Jobs = Table<Job<MapKvs, Vec<Member>>>;
}
