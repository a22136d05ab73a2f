//! The session of a PMIx client: a machine that publishes what its rank has committed before it responds.

use super::super::heap::PmixHeap;
use super::JobStore;
use pmi_core::error::{Full, PeerError};
use pmi_core::ids::ProcId;
use pmi_core::machine::Machine;
use pmi_core::server::Event;
use pmi_core::time::Instant;
use pmi_host_base::storage::Heap;
use pmi_std::snapshot::server::ServerSession;

/// A session of the server with the store of its job, if that has one.
#[derive(Debug)]
pub(in crate::server) struct PublishingSession<'a, M> {
    inner: M,
    store: Option<(&'a mut JobStore, ProcId)>,
}

impl<'a, M: ServerSession<Storage = Heap<PmixHeap>>> PublishingSession<'a, M> {
    /// Wraps a session of a process of the job of the store.
    pub(in crate::server) const fn new(
        inner: M,
        store: Option<(&'a mut JobStore, ProcId)>,
    ) -> Self {
        Self { inner, store }
    }

    fn publish(&mut self) {
        let Some((store, proc)) = &mut self.store else { return };
        let server = self.inner.server().pmix_ref();
        let Some(version) = server.commit_version(*proc) else { return };
        if store.lacks(proc.rank.0, version)
            && let Some(committed) = server.committed_data(*proc)
        {
            store.publish(proc.rank.0, version, committed);
        }
    }
}

impl<M: ServerSession<Storage = Heap<PmixHeap>>> Machine for PublishingSession<'_, M> {
    type Event<'b>
        = Event
    where
        Self: 'b;

    fn handle_input(&mut self, now: Instant, bytes: &[u8]) -> Result<usize, PeerError> {
        self.inner.handle_input(now, bytes)
    }

    fn handle_timeout(&mut self, now: Instant) -> Result<(), PeerError> {
        self.inner.handle_timeout(now)
    }

    fn handle_end(&mut self, now: Instant) -> Result<(), PeerError> {
        self.inner.handle_end(now)
    }

    fn poll_transmit(&mut self, out: &mut [u8]) -> Result<Option<usize>, Full> {
        // After a response to the commit no process may find a value that it replaces.
        self.publish();
        self.inner.poll_transmit(out)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.inner.take_event()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }

    fn is_finished(&self) -> bool {
        self.inner.is_finished()
    }
}
