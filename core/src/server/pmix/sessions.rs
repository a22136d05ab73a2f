//! Sessions of PMIx clients in the table of the server.

use super::session::{PmixResponse, UnfinishedLimits};
use super::tables::{PmixSessionStateOf, PmixStorage};
use crate::ids::SessionId;
use crate::server::Storage;
use crate::server::session::Session;
use crate::server::session_table::{READY, SessionTable};
use crate::storage::Buffer;

impl<P: PmixStorage, S: Storage<Pmix = P>> SessionTable<S> {
    pub(in crate::server) fn state(&self, id: SessionId) -> Option<&PmixSessionStateOf<P>> {
        self.pmix(id).map(|session| &session.state)
    }

    pub(super) fn state_mut(&mut self, id: SessionId) -> Option<&mut PmixSessionStateOf<P>> {
        self.pmix_mut(id).map(|session| &mut session.state)
    }

    pub(super) fn states(&self) -> impl Iterator<Item = &PmixSessionStateOf<P>> {
        self.pmix_ids().filter_map(|id| self.state(id))
    }

    /// Makes a response due.
    pub(super) fn resolve(
        &mut self,
        id: SessionId,
        place: usize,
        response: PmixResponse<P::Bytes>,
    ) {
        if let Some(state) = self.state_mut(id) {
            state.resolve(place, response);
            self.push(READY, id);
        }
    }

    /// The limit that all unfinished messages together exceed, if this session has a share in that.
    pub(super) fn exceeded(&self, id: SessionId) -> Option<usize> {
        let UnfinishedLimits { rank_bytes, all_bytes } = self.unfinished;
        let own = self.pmix(id)?;
        // Looking at all takes time, and short messages are no share worth it.
        if own.inbox.as_slice().len() <= UNCOUNTED_BYTES.min(rank_bytes / 2) {
            return None;
        }
        let (mut of_rank, mut of_all) = (0_usize, 0_usize);
        for Session { inbox, state } in self.pmix_ids().filter_map(|id| self.pmix(id)) {
            let held = inbox.as_slice().len();
            of_all = of_all.saturating_add(held);
            if state.protocol.peer.is_some() && state.protocol.peer == own.state.protocol.peer {
                of_rank = of_rank.saturating_add(held);
            }
        }
        match (of_rank > rank_bytes, of_all > all_bytes) {
            (true, _) => Some(rank_bytes),
            (_, true) => Some(all_bytes),
            _ => None,
        }
    }
}

/// A session that holds less does not exceed a limit alone.
const UNCOUNTED_BYTES: usize = 64 << 10;
