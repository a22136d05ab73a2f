//! Pending operations of PMIx clients, like [`Server::waits`](crate::server::Server::waits) for the
//! other generations.

use super::context::PmixServerRef;
use super::foreign::ForeignProcs;
use super::procs::{ListedProc, count_procs, unpack_procs};
use super::session::PmixResponse;
use super::tables::{CollectiveKind, OpenCollective, PmixStorage};
use crate::ids::{JobId, ProcId, Rank};
use crate::server::Storage;
use crate::storage::Slots;
use crate::wire::pmix::{Format, Request, Unpacker, ranks};

/// Condition that a client waits for and that other processes have to fulfil. The fence of the job
/// is not included, since clients of all generations share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PmixWait<'a> {
    /// Completion of a collective.
    Together {
        /// Kind of the collective.
        purpose: CollectiveKind,
        /// Place of the collective, for [`PmixServerRef::taking_part`].
        at: usize,
    },
    /// Committed data of a process.
    Post {
        /// Its job.
        job: JobId,
        /// The process; none is any of the job.
        rank: Option<Rank>,
        /// Under which key; none is any.
        key: Option<&'a [u8]>,
    },
    /// Published data, here or at the owner; the first key of the lookup.
    Lookup(&'a [u8]),
    /// Answer of the owner, mostly to a spawn request.
    Owner,
}

impl<'a, P: PmixStorage, S: Storage<Pmix = P>> PmixServerRef<'a, P, S> {
    /// Pending operations of each admitted client, with its process: one for each waiting request.
    ///
    /// Changes after: any call on any session of the server.
    pub fn waits(self) -> impl Iterator<Item = (ProcId, PmixWait<'a>)> + use<'a, P, S> {
        let admitted = self.sessions.states().filter(|state| state.protocol.is_admitted);
        let waits = admitted.filter_map(move |state| {
            let peer = state.protocol.peer?;
            let pendings = state.pending_requests().map(|(_, pending)| &pending.response);
            let waits =
                pendings.filter_map(move |response| self.wait(response, state.protocol.format));
            Some(waits.map(move |wait| (peer, wait)))
        });
        waits.flatten()
    }

    fn wait(self, response: &'a PmixResponse<P::Bytes>, format: Format) -> Option<PmixWait<'a>> {
        match response {
            PmixResponse::Collective { at, .. } => {
                let purpose = self.shared.pmix.collectives.get(*at)?.kind();
                Some(PmixWait::Together { purpose, at: *at })
            }
            PmixResponse::Get { job, rank, key, .. } => {
                let rank = (*rank < ranks::LOCAL_PEERS).then_some(Rank(*rank));
                Some(PmixWait::Post { job: *job, rank, key: key.as_ref().map(AsRef::as_ref) })
            }
            PmixResponse::Lookup { body, .. } | PmixResponse::Host { lookup: Some(body), .. } => {
                match Request::read(Unpacker::new(body.as_ref(), format)) {
                    Ok(Request::Lookup(target)) => target.keys().next().map(PmixWait::Lookup),
                    _ => None,
                }
            }
            PmixResponse::Host { .. } => Some(PmixWait::Owner),
            _ => None,
        }
    }

    /// The name of the group that processes make or end together.
    pub fn group_name(self, at: usize) -> Option<&'a [u8]> {
        self.shared.pmix.collectives.get(at)?.name.as_ref().map(AsRef::as_ref)
    }

    /// Namespaces of other runs that take part in a collective.
    pub fn foreign_names(self, at: usize) -> impl Iterator<Item = &'a [u8]> {
        let open = self.shared.pmix.collectives.get(at);
        let others = open.and_then(OpenCollective::others).unwrap_or_default();
        ForeignProcs::new(others).map_while(Result::ok).map(|of| of.nspace)
    }

    /// Participants of a collective, and whether each has joined.
    pub fn taking_part(self, at: usize) -> impl Iterator<Item = (ProcId, bool)> + use<'a, P, S> {
        let open = self.shared.pmix.collectives.get(at);
        let is_bootstrap = open.is_some_and(|open| open.kind() == CollectiveKind::Bootstrap);
        // The leaders that have joined name the participants of a bootstrap.
        let named = is_bootstrap.then(|| self.named_by_leaders(at)).flatten();
        let count = named.as_ref().map_or(0, |named| count_procs(named.as_ref()));
        let named =
            (0..count).filter_map(move |place| unpack_procs(named.as_ref()?.as_ref()).nth(place));
        let members = open.into_iter().flat_map(move |open| self.members(open));
        let members = members.chain(named.map(ListedProc::one));
        members.map(move |member| (member, self.is_in(at, member)))
    }
}
