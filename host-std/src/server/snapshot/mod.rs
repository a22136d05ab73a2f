//! Snapshots of the values of jobs, in memory that is shared with ranks of this node (`docs/snapshot.md`).
//!
//! A client that offers a segment is a [peer](peer). Its [session](session) reads puts from the segment
//! before
//! it handles a message, and publishes a generation of the [job](job) before it answers one; the [link](link)
//! sends the descriptors.

mod job;
pub(super) mod link;
pub(super) mod peer;
mod session;

use super::flush::Connection;
use super::pmix::heap::PmixHeap;
use crate::trace::Tap;
use job::JobSnapshot;
use peer::SnapshotPeer;
use pmi_core::ids::JobId;
use pmi_core::server::{Event, SessionMut};
use pmi_host_base::storage::Heap;
use session::SnapshotSession;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Snapshots of all jobs with a peer.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    jobs: BTreeMap<u32, JobSnapshot>,
    /// Copy of the batch that is being handled.
    batch: Vec<u8>,
    /// Number of peers at most, each with a descriptor.
    pub(super) peers_max: usize,
    /// Shared by all peers, which are counted so.
    peers: Rc<()>,
}

/// A session of the server, recorded.
type ServerSession<'a> = Tap<'a, SessionMut<'a, Heap<PmixHeap>>>;

impl Snapshots {
    /// Has `connection` take the segment that its client offers with its first bytes, if there is a
    /// descriptor to
    /// spare.
    pub(super) fn accept(&self, connection: &mut Connection) {
        if Rc::strong_count(&self.peers) <= self.peers_max {
            connection.accept_segment(&self.peers);
        }
    }

    /// Forgets a job.
    pub(super) fn remove(&mut self, job: JobId) {
        self.jobs.remove(&job.0);
    }

    /// Wraps the session of `peer`, a rank of `job`. `events` takes those of its puts.
    pub(super) fn session<'a>(
        &'a mut self,
        inner: ServerSession<'a>,
        peer: SnapshotPeer,
        job: JobId,
        events: &'a mut VecDeque<(Event, Option<Vec<u8>>)>,
    ) -> SnapshotSession<'a> {
        SnapshotSession::new(inner, self, (peer, job), events)
    }
}
