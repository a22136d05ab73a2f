//! The server's side: snapshots of the values of jobs, for owners of a [`Server`](pmi_core::server::Server).
//!
//! A client that offers a segment is a [peer](SnapshotPeer). Its [session](SnapshotSession) reads puts from
//! the segment before it handles a message, and publishes a generation of the job before it answers one; its
//! [link](SnapshotLink) sends the descriptors. [`PmiServer`](crate::server::PmiServer) has all of them.

mod changed_keys;
mod job;
mod link;
mod peer;
mod session;

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::Arc;

use pmi_core::ids::JobId;
use pmi_core::server::Event;

pub use self::changed_keys::{ChangedKeys, TrackedKvs};
use self::job::JobSnapshot;
pub use self::link::{DescriptorStream, SnapshotLink};
pub use self::peer::SnapshotPeer;
pub use self::session::{ServerSession, SnapshotSession};

/// Snapshots of all jobs with a peer.
#[derive(Debug, Default)]
pub struct Snapshots {
    jobs: BTreeMap<u32, JobSnapshot>,
    /// Copy of the batch that is being handled.
    batch: Vec<u8>,
    peers_max: usize,
    /// Shared by all peers, which are counted so.
    peers: Arc<()>,
}

impl Snapshots {
    /// Sets the number of peers at most, each with a descriptor; 0 at first.
    pub fn set_peers_max(&mut self, count: usize) {
        self.peers_max = count;
    }

    /// Takes the segment that a rank may offer with its first bytes, if there is a descriptor to spare.
    pub fn accept(&self, peer: &mut SnapshotPeer, socket: impl AsFd) {
        if peer.may_offer() && Arc::strong_count(&self.peers) <= self.peers_max {
            peer.accept(socket, &self.peers);
        }
    }

    /// Forgets a job.
    pub fn remove(&mut self, job: JobId) {
        self.jobs.remove(&job.0);
    }

    /// Wraps the session of `peer`, a rank of `job`. `on_event` takes the events of its puts.
    pub fn session<'a, M: ServerSession>(
        &'a mut self,
        inner: M,
        peer: SnapshotPeer,
        job: JobId,
        on_event: &'a mut dyn FnMut(Event),
    ) -> SnapshotSession<'a, M> {
        SnapshotSession::new(inner, self, (peer, job), on_event)
    }
}
