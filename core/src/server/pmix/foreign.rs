//! Jobs of other runs, which processes of this server are connected with.
//!
//! A collective that lists processes of a namespace which no job of the server has is one with other runs:
//! the participants of this run are its members, and the listed processes of others ([`ForeignProcs`]) are a
//! part of its identity. Its part on this node is always handed up, with all that the participants have
//! committed for other nodes. Before the owner ends it, it adds the jobs of the others
//! ([`PmixServer::add_foreign_job`]), as those that have sent their descriptions and data. A get about such a
//! job never waits: its processes are out of reach.

use super::context::PmixServer;
use super::get::Requester;
use super::namespace::{ForeignName, Namespace, is_description};
use super::session::PmixResponse;
use super::shared_bytes::{SharedBytes, copy_bytes};
use super::tables::{
    BytesOf, CollectiveKind, NamespaceOf, PmixSessionStateOf, PmixStorage, RanksOf,
};
use crate::error::{Malformed, Misuse};
use crate::ids::{JobId, ProcId, Rank};
use crate::server::shared::Shared;
use crate::server::{RemoteError, Storage};
use crate::storage::{Slots, copy};
use crate::store::BlockError;
use crate::wire::pmix::names::{Status, keys};
use crate::wire::pmix::request::Get;
use crate::wire::pmix::{List, Proc, WILDCARD};

/// Description of a job of another run.
#[derive(Clone, Debug)]
pub struct ForeignJob<'a, B> {
    /// Its namespace.
    pub nspace: &'a [u8],
    /// Number of ranks.
    pub size: u32,
    /// Job description, as for [`PmixServer::add_job`].
    pub info: B,
    /// What its processes have committed for other nodes: records of committed data.
    pub data: &'a [u8],
}

/// Processes of other runs in a collective: those of one namespace after the other, in ascending order.
///
/// Shape: length of the namespace and number of ranks (u32 each, big-endian), the namespace, and the ranks
/// (u32, big-endian); [`WILDCARD`] stands for all.
#[derive(Clone, Debug)]
pub struct ForeignProcs<'a> {
    rest: &'a [u8],
    len_bytes: usize,
}

/// Processes of one namespace of another run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignRanks<'a> {
    /// The namespace.
    pub nspace: &'a [u8],
    ranks: &'a [u8],
}

impl<'a> ForeignProcs<'a> {
    /// Reads a packed list.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, len_bytes: bytes.len() }
    }

    fn read(&mut self) -> Option<ForeignRanks<'a>> {
        let (head, rest) = self.rest.split_first_chunk::<HEAD_BYTES>()?;
        let [a, b, c, d, e, f, g, h] = *head;
        let len = usize::try_from(u32::from_be_bytes([a, b, c, d])).ok()?;
        let count = usize::try_from(u32::from_be_bytes([e, f, g, h])).ok()?;
        let (nspace, rest) = rest.split_at_checked(len)?;
        let (ranks, rest) = rest.split_at_checked(count.checked_mul(RANK_BYTES)?)?;
        self.rest = rest;
        Some(ForeignRanks { nspace, ranks })
    }
}

impl<'a> Iterator for ForeignProcs<'a> {
    type Item = Result<ForeignRanks<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let at = self.len_bytes.saturating_sub(self.rest.len());
        let read = self.read().ok_or(Malformed::new(at, "processes of another run"));
        if read.is_err() {
            self.rest = &[];
        }
        Some(read)
    }
}

impl ForeignRanks<'_> {
    /// The ranks, in ascending order without duplicates if a server has packed them.
    pub fn ranks(self) -> impl Iterator<Item = u32> {
        let (ranks, _) = self.ranks.as_chunks::<RANK_BYTES>();
        ranks.iter().map(|rank| u32::from_be_bytes(*rank))
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Lets collectives have participants of other runs from now on, which the owner reaches.
    pub fn allow_foreign(&mut self) {
        self.shared.pmix.allows_foreign = true;
    }

    /// Adds a job of another run, which processes of this node are about to be connected with, or the present
    /// description and data of one that is known.
    ///
    /// # Errors
    ///
    /// [`RemoteError::Misuse`] without room for it, [`RemoteError::Block`] for a malformed description or
    /// malformed data; nothing was added.
    pub fn add_foreign_job(
        &mut self,
        job: ForeignJob<'_, P::Bytes>,
        ranks: RanksOf<P>,
    ) -> Result<(), RemoteError> {
        let ForeignJob { nspace, size, info, data } = job;
        if !is_description(info.as_ref()) {
            let malformed = Malformed::new(0, "the description of a job");
            return Err(RemoteError::Block(BlockError::Malformed(malformed)));
        }
        let pmix = &mut self.shared.pmix;
        let at = match pmix.foreign_place(nspace) {
            Some(at) => at,
            None => {
                let full = RemoteError::Misuse(Misuse::NoRoom { what: "job of another run" });
                let name = copy_bytes(nspace).ok_or(full)?;
                let mut namespace = Namespace::new(FOREIGN, copy_bytes(b"").ok_or(full)?, ranks);
                namespace.foreign = Some(ForeignName { name, size, connects: 0 });
                pmix.namespaces.insert(namespace).ok_or(full)?
            }
        };
        // It was found or added above.
        let Some(namespace) = pmix.namespaces.get_mut(at) else { return Ok(()) };
        let added = namespace.remote.add(data, |rank| rank.0 < size);
        if let Err(error) = added {
            if namespace.foreign.as_ref().is_some_and(|foreign| foreign.connects == 0) {
                pmix.namespaces.remove(at);
            }
            return Err(RemoteError::Block(error));
        }
        namespace.info = info;
        if let Some(foreign) = &mut namespace.foreign {
            foreign.size = size;
        }
        Ok(())
    }

    /// Removes a job of another run, which has ended.
    pub fn remove_foreign_job(&mut self, nspace: &[u8]) {
        if let Some(at) = self.shared.pmix.foreign_place(nspace) {
            self.shared.pmix.namespaces.remove(at);
        }
    }

    /// Counts the connects of jobs of other runs, after a collective with them has ended. A job is removed
    /// with its last connect.
    pub(super) fn count_connects(&mut self, kind: CollectiveKind, others: &[u8]) {
        for ForeignRanks { nspace, .. } in ForeignProcs::new(others).map_while(Result::ok) {
            let Some(at) = self.shared.pmix.foreign_place(nspace) else { continue };
            let namespace = self.shared.pmix.namespaces.get_mut(at);
            let Some(foreign) = namespace.and_then(|of| of.foreign.as_mut()) else { continue };
            match kind {
                CollectiveKind::Connect => foreign.connects = foreign.connects.saturating_add(1),
                CollectiveKind::Disconnect => foreign.connects = foreign.connects.saturating_sub(1),
                _ => {}
            }
            if foreign.connects == 0 {
                self.shared.pmix.namespaces.remove(at);
            }
        }
    }
}

impl<S: Storage> Shared<S> {
    /// The job of another run with this name, and its number of ranks.
    pub(super) fn foreign(&self, nspace: &[u8]) -> Option<(&NamespaceOf<S::Pmix>, u32)> {
        let namespace = self.pmix.namespaces.get(self.pmix.foreign_place(nspace)?)?;
        Some((namespace, namespace.foreign.as_ref()?.size))
    }

    /// Packs the listed processes of other runs; `None` without any, or if none can be reached.
    pub(super) fn pack_foreign(&self, procs: &List<'_>) -> Option<Result<BytesOf<S>, Status>> {
        if !self.pmix.allows_foreign {
            return None;
        }
        let foreign = || {
            // Those of a namespace are mostly neighbours.
            let mut last = None;
            procs.procs().filter(move |proc| match last {
                Some((nspace, is_foreign)) if nspace == proc.nspace => is_foreign,
                _ => {
                    let is_foreign = self.named(proc.nspace).is_none();
                    last = Some((proc.nspace, is_foreign));
                    is_foreign
                }
            })
        };
        foreign().next()?;
        let next = |last: Option<&[u8]>| {
            let names = foreign().map(|proc| proc.nspace);
            names.filter(|name| last.is_none_or(|last| *name > last)).min()
        };
        let namespaces = || core::iter::successors(next(None), move |last| next(Some(last)));
        let (mut count, mut len_bytes) = (0, 0);
        for nspace in namespaces().take(NAMESPACES_MAX + 1) {
            count += 1;
            let ranks = foreign().filter(|proc| proc.nspace == nspace).count();
            len_bytes += HEAD_BYTES + nspace.len() + ranks * RANK_BYTES;
        }
        if count > NAMESPACES_MAX {
            return Some(Err(Status::OUT_OF_RESOURCE));
        }
        let mut is_valid = true;
        let packed = BytesOf::<S>::make(len_bytes, |bytes| {
            let mut rest = bytes;
            for nspace in namespaces() {
                let of_it = || foreign().filter(|proc| proc.nspace == nspace).map(|proc| proc.rank);
                let count = of_it().count();
                let (head, behind) = cut(rest, HEAD_BYTES);
                let number = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
                let both = u64::from(number(nspace.len())) << 32 | u64::from(number(count));
                copy(head, &both.to_be_bytes());
                let (name, behind) = cut(behind, nspace.len());
                copy(name, nspace);
                let (ranks, behind) = cut(behind, count * RANK_BYTES);
                let (ranks, _) = ranks.as_chunks_mut::<RANK_BYTES>();
                let places = ranks.iter_mut().zip(of_it());
                places.for_each(|(place, rank)| *place = rank.to_be_bytes());
                ranks.sort_unstable();
                // A process that is listed twice never joins twice, nor does one that is listed with all.
                let is_twice = ranks.windows(2).any(|pair| pair.first() == pair.last());
                let has_all = ranks.last().is_some_and(|rank| *rank == WILDCARD.to_be_bytes());
                is_valid &= !is_twice && (!has_all || ranks.len() == 1);
                rest = behind;
            }
        });
        Some(match packed {
            _ if !is_valid => Err(Status::BAD_PARAM),
            Some(packed) => Ok(packed),
            None => Err(Status::NOMEM),
        })
    }

    /// Answers a get about a job of another run.
    pub(super) fn get_foreign(
        &self,
        state: &PmixSessionStateOf<S::Pmix>,
        peer: ProcId,
        get: &Get<'_>,
    ) -> PmixResponse<BytesOf<S>> {
        let not_found = PmixResponse::Status(Status::NOT_FOUND);
        let Some((namespace, size)) = self.foreign(get.nspace) else { return not_found };
        if let Some(response) = self.get_realm(state, peer, Some(namespace), get) {
            return response;
        }
        let requester = Requester::new(peer, state.protocol.format);
        let reserved = get.key.filter(|key| keys::is_reserved(key));
        if get.rank == WILDCARD {
            return namespace.answer_job(state.protocol.format, get.nspace, reserved);
        }
        let owner = Proc { nspace: get.nspace, rank: get.rank };
        if get.rank >= size {
            return not_found;
        }
        if let Some(key) = reserved {
            return namespace.answer_rank(state.protocol.format, owner, key);
        }
        let blob = namespace.remote.find(Rank(get.rank)).filter(|blob| blob.has(get.key));
        blob.map_or(not_found, |blob| {
            let share = |bytes: &&[u8]| copy_bytes(bytes);
            requester.answer_modex(Some(namespace), owner, &blob, share)
        })
    }
}

fn cut(bytes: &mut [u8], len: usize) -> (&mut [u8], &mut [u8]) {
    let at = len.min(bytes.len());
    bytes.split_at_mut_checked(at).unwrap_or_default()
}

/// Jobs of other runs have no number on a server.
pub(super) const FOREIGN: JobId = JobId(u32::MAX);

/// Most namespaces of other runs in one collective.
const NAMESPACES_MAX: usize = 64;

const HEAD_BYTES: usize = 8;
const RANK_BYTES: usize = 4;
