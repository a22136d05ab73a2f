//! Who waits for whom, as [`Server::waits`] tells it of the other generations.

use super::collective::{CollectiveKind, PROC_BYTES, pairs};
use super::connection::{Connection, PmixResponse};
use super::{Pmix, PmixStorage};
use crate::ids::{JobId, ProcId, Rank};
use crate::server::{Server, Storage};
use crate::storage::Slots;
use crate::wire::pmix::{Format, Request, Unpacker, ranks};

/// What a client waits for. Others have to bring it about; the fence of its job is not here, since that is
/// the same one for clients of all generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PmixWait<'a> {
    /// What several processes do together.
    Together {
        /// What that is.
        purpose: CollectiveKind,
        /// Which of them, for [`Pmix::taking_part`].
        at: usize,
    },
    /// What a process posts.
    Post {
        /// Its job.
        job: JobId,
        /// The process; none is any of the job.
        rank: Option<Rank>,
        /// Under which key; none is any.
        key: Option<&'a [u8]>,
    },
    /// That somebody publishes something; the first key that it looks for.
    Lookup(&'a [u8]),
    /// What the owner was asked to do: to start processes, mostly.
    Owner,
}

impl<P: PmixStorage> Pmix<P> {
    /// What each client that was let in waits for, thread by thread, with who it is.
    ///
    /// Changes after: any call on any connection or on any session of the server.
    pub fn waits(&self) -> impl Iterator<Item = (ProcId, PmixWait<'_>)> {
        let all = (0..self.connections.end()).filter_map(|at| self.connections.get(at));
        let talks = all.map(|Connection { state, .. }| state).filter(|state| state.is_admitted);
        let waits = talks.filter_map(|state| {
            let peer = state.peer?;
            let pendings = state.pending_requests().map(|(_, pending)| &pending.response);
            let waits = pendings.filter_map(|response| self.wait(response, state.format));
            Some(waits.map(move |wait| (peer, wait)))
        });
        waits.flatten()
    }

    fn wait<'a>(
        &self,
        response: &'a PmixResponse<P::Bytes>,
        format: Format,
    ) -> Option<PmixWait<'a>> {
        match response {
            PmixResponse::Collective { at, .. } => {
                let purpose = self.collectives.get(*at)?.kind();
                Some(PmixWait::Together { purpose, at: *at })
            }
            PmixResponse::Get { job, rank, key, .. } => {
                let rank = (*rank < ranks::LOCAL_PEERS).then_some(Rank(*rank));
                Some(PmixWait::Post { job: *job, rank, key: key.as_ref().map(AsRef::as_ref) })
            }
            PmixResponse::Lookup { body, .. } => {
                match Request::read(Unpacker::new(body.as_ref(), format)) {
                    Ok(Request::Lookup(target)) => target.keys().next().map(PmixWait::Lookup),
                    _ => None,
                }
            }
            PmixResponse::Host(_) => Some(PmixWait::Owner),
            _ => None,
        }
    }

    /// Who takes part in what several processes do together, and whether each has come.
    pub fn taking_part<S: Storage>(
        &self,
        at: usize,
        server: &Server<S>,
    ) -> impl Iterator<Item = (ProcId, bool)> {
        let open = self.collectives.get(at);
        let is_bootstrap = open.is_some_and(|open| open.kind() == CollectiveKind::Bootstrap);
        // Who that is, those say that have come.
        let named = is_bootstrap.then(|| self.named_by_leaders(at, server)).flatten();
        let count = named.as_ref().map_or(0, |named| named.as_ref().len() / PROC_BYTES);
        let named = (0..count).filter_map(move |place| pairs(named.as_ref()?.as_ref()).nth(place));
        let named = named.map(|(job, rank)| ProcId { job, rank: Rank(rank) });
        let members = open.into_iter().flat_map(move |open| open.members(server)).chain(named);
        members.map(move |member| (member, self.is_in(at, member)))
    }

    /// The name of the group that processes make or end together.
    pub fn group_name(&self, at: usize) -> Option<&[u8]> {
        self.collectives.get(at)?.name.as_ref().map(AsRef::as_ref)
    }
}
