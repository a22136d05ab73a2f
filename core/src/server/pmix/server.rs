//! PMIx sessions, lent together with the server whose jobs they serve.

use super::connections::ConnectionTable;
use super::context::{PmixContext, PmixView};
use super::event::ConnectionId;
use super::storage::{ConnStateOf, PmixStorage};
use crate::ids::{JobId, ProcId, Rank};
use crate::server::Storage;
use crate::server::shared::{SessionTable, Shared};

/// PMIx sessions, lent together with the server whose jobs they serve
/// ([`Server::pmix`](crate::server::Server::pmix)).
pub struct PmixServer<'a, P: PmixStorage, S: Storage> {
    pub(super) connections: &'a mut ConnectionTable<P>,
    pub(super) context: PmixContext<'a, P, S>,
    /// Sessions of the other protocols, which the end of a fence wakes.
    pub(super) sessions: &'a mut SessionTable<S>,
}

/// The same, read-only ([`Server::pmix_ref`](crate::server::Server::pmix_ref)).
pub struct PmixServerRef<'a, P: PmixStorage, S: Storage> {
    pub(super) connections: &'a ConnectionTable<P>,
    pub(super) view: PmixView<'a, P, S>,
}

impl<P: PmixStorage, S: Storage> PmixServer<'_, P, S> {
    pub(super) fn as_ref(&self) -> PmixServerRef<'_, P, S> {
        PmixServerRef { connections: self.connections, view: self.context.view() }
    }

    pub(super) fn common(&mut self) -> &mut Shared<S> {
        self.context.common
    }

    /// Ends the fence of a job, and wakes its sessions.
    pub(super) fn end_fence(&mut self, job: JobId) {
        self.sessions.end_fence(self.context.common, job);
    }
}

impl<P: PmixStorage, S: Storage> PmixServer<'_, P, S> {
    /// Links a connection, which was admitted, to the other ones of its process.
    pub(super) fn link(&mut self, id: ConnectionId, peer: ProcId) {
        let last = self.as_ref().of_peer(peer).last().map(|(last, _)| last);
        self.relink(peer, last, Some(id));
    }

    /// Removes a connection from those of its process.
    pub(super) fn unlink(&mut self, id: ConnectionId, peer: ProcId) {
        let here = self.as_ref();
        let next = here.connections.state(id).and_then(|state| state.next_of_peer);
        let before = here.of_peer(peer).find(|(_, state)| state.next_of_peer == Some(id));
        let before = before.map(|(before, _)| before);
        let is_first = here.of_peer(peer).next().is_some_and(|(first, _)| first == id);
        if is_first || before.is_some() {
            self.relink(peer, before, next);
        }
    }

    fn relink(&mut self, peer: ProcId, before: Option<ConnectionId>, next: Option<ConnectionId>) {
        match before {
            Some(before) => {
                if let Some(state) = self.connections.state_mut(before) {
                    state.next_of_peer = next;
                }
            }
            None => {
                if let Some(data) = self.context.pmix.rank_data_mut(peer) {
                    data.first_connection = next;
                }
            }
        }
    }
}

impl<'a, P: PmixStorage, S: Storage> PmixServerRef<'a, P, S> {
    /// The connections of a rank, from its admission until they are closed, in the order of admission.
    pub fn connections(
        self,
        job: JobId,
        rank: Rank,
    ) -> impl Iterator<Item = ConnectionId> + use<'a, P, S> {
        self.of_peer(ProcId { job, rank }).map(|(id, _)| id)
    }

    /// The connections admitted as a process.
    pub(super) fn of_peer(
        self,
        proc: ProcId,
    ) -> impl Iterator<Item = (ConnectionId, &'a ConnStateOf<P>)> {
        let first = self.view.pmix.rank_data(proc).and_then(|data| data.first_connection);
        let state = move |id: &ConnectionId| self.connections.state(*id)?.next_of_peer;
        let ids = core::iter::successors(first, state);
        ids.filter_map(move |id| Some((id, self.connections.state(id)?)))
    }
}

impl<P: PmixStorage, S: Storage> Clone for PmixServerRef<'_, P, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: PmixStorage, S: Storage> Copy for PmixServerRef<'_, P, S> {}

impl<P: PmixStorage, S: Storage> core::fmt::Debug for PmixServer<'_, P, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PmixServer").finish_non_exhaustive()
    }
}

impl<P: PmixStorage, S: Storage> core::fmt::Debug for PmixServerRef<'_, P, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PmixServerRef").finish_non_exhaustive()
    }
}
