//! The PMIx part of a server: its calls for the owner, and the sessions of a process.

use super::context::{PmixContext, PmixView};
use super::tables::{PmixSessionStateOf, PmixStorage};
use crate::ids::{JobId, ProcId, Rank, SessionId};
use crate::server::Storage;
use crate::server::session_table::SessionTable;
use crate::server::shared::Shared;

/// The PMIx part of a server ([`Server::pmix`](crate::server::Server::pmix)): the calls that only PMIx has.
/// Input, output, events and deadlines of its sessions are those of the [`Server`](crate::server::Server).
pub struct PmixServer<'a, P: PmixStorage, S: Storage<Pmix = P>> {
    pub(super) sessions: &'a mut SessionTable<S>,
    pub(super) context: PmixContext<'a, P, S>,
}

/// The same, read-only ([`Server::pmix_ref`](crate::server::Server::pmix_ref)).
pub struct PmixServerRef<'a, P: PmixStorage, S: Storage<Pmix = P>> {
    pub(super) sessions: &'a SessionTable<S>,
    pub(super) view: PmixView<'a, P, S>,
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    pub(super) fn as_ref(&self) -> PmixServerRef<'_, P, S> {
        PmixServerRef { sessions: self.sessions, view: self.context.view() }
    }

    pub(super) fn common(&mut self) -> &mut Shared<S> {
        self.context.common
    }

    /// Ends the fence of a job, and wakes its sessions.
    pub(super) fn end_fence(&mut self, job: JobId) {
        self.sessions.end_fence(self.context.common, job);
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Links a session, which was admitted, to the other ones of its process.
    pub(super) fn link(&mut self, id: SessionId, peer: ProcId) {
        let last = self.as_ref().of_peer(peer).last().map(|(last, _)| last);
        self.relink(peer, last, Some(id));
    }

    /// Removes a session from those of its process.
    pub(super) fn unlink(&mut self, id: SessionId, peer: ProcId) {
        let here = self.as_ref();
        let next = here.sessions.state(id).and_then(|state| state.protocol.next_of_peer);
        let before = here.of_peer(peer).find(|(_, state)| state.protocol.next_of_peer == Some(id));
        let before = before.map(|(before, _)| before);
        let is_first = here.of_peer(peer).next().is_some_and(|(first, _)| first == id);
        if is_first || before.is_some() {
            self.relink(peer, before, next);
        }
    }

    fn relink(&mut self, peer: ProcId, before: Option<SessionId>, next: Option<SessionId>) {
        match before {
            Some(before) => {
                if let Some(state) = self.sessions.state_mut(before) {
                    state.protocol.next_of_peer = next;
                }
            }
            None => {
                if let Some(data) = self.context.pmix.rank_data_mut(peer) {
                    data.first_session = next;
                }
            }
        }
    }
}

impl<'a, P: PmixStorage, S: Storage<Pmix = P>> PmixServerRef<'a, P, S> {
    /// The sessions of a rank, from its admission until they are closed, in the order of admission.
    pub fn sessions(
        self,
        job: JobId,
        rank: Rank,
    ) -> impl Iterator<Item = SessionId> + use<'a, P, S> {
        self.of_peer(ProcId { job, rank }).map(|(id, _)| id)
    }

    /// The sessions admitted as a process.
    pub(super) fn of_peer(
        self,
        proc: ProcId,
    ) -> impl Iterator<Item = (SessionId, &'a PmixSessionStateOf<P>)> {
        let first = self.view.pmix.rank_data(proc).and_then(|data| data.first_session);
        let state = move |id: &SessionId| self.sessions.state(*id)?.protocol.next_of_peer;
        let ids = core::iter::successors(first, state);
        ids.filter_map(move |id| Some((id, self.sessions.state(id)?)))
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> Clone for PmixServerRef<'_, P, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> Copy for PmixServerRef<'_, P, S> {}

impl<P: PmixStorage, S: Storage<Pmix = P>> core::fmt::Debug for PmixServer<'_, P, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PmixServer").finish_non_exhaustive()
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> core::fmt::Debug for PmixServerRef<'_, P, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PmixServerRef").finish_non_exhaustive()
    }
}
