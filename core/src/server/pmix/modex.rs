//! Modex: commits of ranks, and the exchange of what they have committed with other nodes.
//!
//! Fences carry it ([`PmixServer::add_remote`]). A node that lacks data which a get waits for fetches it
//! (direct modex): the server of the get reports it ([`Event::ModexRequested`]). The owner asks the server of
//! the rank ([`PmixServer::committed`]), repeats that when the rank has committed more
//! ([`Event::ModexCommitted`]), and adds what it receives ([`PmixServer::add_fetched`]), which answers all
//! gets that wait for it. Fetched data stays, as that of fences does.

use super::context::{PmixServer, PmixServerRef};
use super::rank_data::{ModexBlob, PendingFetches, RankData, merge, record_of};
use super::session::PmixResponse;
use super::shared_bytes::SharedBytes;
use super::tables::{BytesOf, PmixStorage};
use crate::error::Misuse;
use crate::ids::{JobId, ProcId, Rank, SessionId};
use crate::server::member::Member;
use crate::server::roster::ranked;
use crate::server::shared::Shared;
use crate::server::{Event, NO_JOB, RemoteError, Storage};
use crate::storage::Slots;
use crate::store::BlockRecord;
use crate::wire::pmix::names::{Status, scope};
use crate::wire::pmix::{Format, Proc, Request, Scopes, ranks};

/// Data of a process on another node that a get waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModexRequest<'a> {
    /// The process.
    pub proc: ProcId,
    /// The key; `None` for any data of the process.
    pub key: Option<&'a [u8]>,
}

/// Answer to a [`ModexRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModexAnswer<'a> {
    /// All data of the process for other nodes.
    Found(BlockRecord<'a>),
    /// The process has not committed it: repeat the request after [`Event::ModexCommitted`].
    Wait,
    /// The process will not commit it: it is gone or is not here, or the key is for its own node.
    NotFound,
}

impl<S: Storage> Shared<S> {
    /// Merges the values of a commit into the data of the rank.
    pub(super) fn commit(&mut self, peer: ProcId, format: Format, scopes: Scopes<'_>) -> Status {
        let Some((job, namespace)) = self.job_and_namespace(peer.job) else {
            return Status::NOT_FOUND;
        };
        let owner = Proc { nspace: job.name().as_bytes(), rank: peer.rank.0 };
        let fence = job.next_fence();
        // Nothing is stored of a commit that cannot be read to its end.
        if scopes.clone().any(|scope| scope.is_err()) {
            return Status::BAD_PARAM;
        }
        // Data of scope `GLOBAL` goes into both blobs, and is merged once.
        let mut constructed: Option<MergedScope<'_, BytesOf<S>>> = None;
        for (scope, fresh) in scopes.map_while(Result::ok) {
            let Some(rank_data) = namespace.rank_data_mut(peer.rank) else {
                return Status::NOT_FOUND;
            };
            if matches!(scope, scope::REMOTE | scope::GLOBAL) {
                // A fence that has ended or was handed up has the former version, unless that was kept here.
                rank_data.is_elsewhere |= rank_data.fence != 0 && rank_data.fence != fence;
                rank_data.fence = fence;
                rank_data.version = rank_data.version.wrapping_add(1);
            }
            if matches!(scope, scope::LOCAL | scope::GLOBAL) {
                rank_data.local_version = rank_data.local_version.wrapping_add(1);
            }
            let places: &mut [&mut Option<ModexBlob<BytesOf<S>>>] = match scope {
                scope::LOCAL => &mut [&mut rank_data.local],
                scope::REMOTE => &mut [&mut rank_data.remote],
                scope::GLOBAL => &mut [&mut rank_data.local, &mut rank_data.remote],
                _ => continue,
            };
            for place in places {
                let again = constructed
                    .as_ref()
                    .filter(|constructed| constructed.is_of(place.as_ref(), fresh));
                let blob = match again {
                    Some(constructed) => Some(constructed.blob.clone()),
                    None => merge(place.as_ref(), owner, fresh, format),
                };
                let Some(blob) = blob else { return Status::NOMEM };
                let old = place.replace(blob.clone());
                constructed = Some(MergedScope { old, fresh, blob });
            }
        }
        Status::SUCCESS
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Adds the committed data of other nodes of a block, beside
    /// [`Server::add_remote`](crate::server::Server::add_remote) and before the fence ends. Pairs are
    /// skipped, and so is the data of ranks here.
    ///
    /// # Errors
    ///
    /// [`RemoteError`]; nothing was added.
    pub fn add_remote(&mut self, job: JobId, block: &[u8]) -> Result<(), RemoteError> {
        let of = self.shared.job(job).ok_or(RemoteError::Misuse(NO_JOB))?;
        if !of.fence().is_handed_up() {
            let needed = "the fence was handed up";
            return Err(RemoteError::Misuse(Misuse::WrongState { needed }));
        }
        self.add_modex(job, block)
    }

    /// Keeps the data of a fence that was handed up on this node, where gets of other nodes fetch it
    /// ([`committed`](Self::committed)). Of [`fence_modex`](PmixServerRef::fence_modex) only that data is
    /// left of which other nodes may have an earlier version.
    pub fn keep_fence_modex(&mut self, job: JobId) {
        let Some((of, namespace)) = self.shared.job_and_namespace(job) else { return };
        for data in namespace.ranks.as_mut() {
            if of.is_due(data.fence) && !data.is_elsewhere {
                data.fence = 0;
            }
        }
    }

    /// Adds the committed data of other nodes of a block, at any time.
    pub(super) fn add_modex(&mut self, job: JobId, block: &[u8]) -> Result<(), RemoteError> {
        self.shared.job(job).ok_or(RemoteError::Misuse(NO_JOB))?;
        // A job without PMIx clients keeps nothing for them.
        let Some((of, namespace)) = self.shared.job_and_namespace(job) else { return Ok(()) };
        namespace.remote.add(block, |rank| of.is_remote(rank)).map_err(RemoteError::Block)?;
        self.answer_remote_gets(job);
        Ok(())
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Data that a process of this node has committed for other nodes. A request that has to wait is noted
    /// for [`Event::ModexCommitted`].
    pub fn committed(&mut self, request: ModexRequest<'_>) -> ModexAnswer<'_> {
        let ModexRequest { proc, key } = request;
        let is_gone = self.shared.member(proc).is_none_or(Member::is_gone);
        let Some(data) = self.shared.pmix.rank_data_mut(proc) else {
            return ModexAnswer::NotFound;
        };
        if let Some(blob) = data.remote.as_ref().filter(|blob| blob.has(key)) {
            data.is_elsewhere = true;
            return ModexAnswer::Found(record_of(proc.rank, data.version, blob));
        }
        let is_local = key.is_some() && data.local.as_ref().is_some_and(|blob| blob.has(key));
        if is_gone || is_local {
            return ModexAnswer::NotFound;
        }
        data.fetches = PendingFetches::Waiting;
        ModexAnswer::Wait
    }

    /// All data that processes of this node have committed for other nodes: a node that fetches the data of
    /// one of them is likely to want that of the others.
    pub fn committed_by_all(&mut self, job: JobId) -> impl Iterator<Item = BlockRecord<'_>> {
        if let Some(namespace) = self.shared.pmix.namespace_mut(job) {
            namespace.mark_elsewhere();
        }
        let namespace = self.shared.pmix.namespace(job);
        namespace.into_iter().flat_map(|namespace| {
            ranked(namespace.ranks.as_ref()).filter_map(|(writer, data)| {
                Some(record_of(writer, data.version, data.remote.as_ref()?))
            })
        })
    }

    /// Adds data that was fetched from another node, and answers the gets that wait for it.
    ///
    /// # Errors
    ///
    /// [`RemoteError`]; nothing was added.
    pub fn add_fetched(&mut self, job: JobId, block: &[u8]) -> Result<(), RemoteError> {
        self.add_modex(job, block)
    }

    /// Fails the gets that wait for data of a process on another node under keys that `is_key` holds for: it
    /// will not commit them.
    pub fn fail_fetches(&mut self, proc: ProcId, is_key: impl Fn(Option<&[u8]>) -> bool) {
        self.answer_each_get(
            proc.job,
            |rank| rank == proc.rank.0,
            |_, _, target| is_key(target.key).then_some(PmixResponse::Status(Status::NOT_FOUND)),
        );
    }

    /// Notes that a process has committed data, or is gone, for requests of other nodes.
    pub(super) fn note_committed(&mut self, proc: ProcId) {
        let data = self.shared.pmix.rank_data_mut(proc);
        if let Some(data) = data.filter(|data| data.fetches == PendingFetches::Waiting) {
            data.fetches = PendingFetches::Due;
            self.shared.pmix.has_modex_event = true;
        }
    }

    /// The next process with requests of other nodes that may have an answer.
    pub(in crate::server) fn take_modex_event(&mut self) -> Option<Event> {
        let pmix = &mut self.shared.pmix;
        if !pmix.has_modex_event {
            return None;
        }
        for at in 0..pmix.namespaces.end() {
            let Some(namespace) = pmix.namespaces.get_mut(at) else { continue };
            let is_due = |data: &RankData<P::Bytes>| data.fetches == PendingFetches::Due;
            let due = ranked(namespace.ranks.as_ref()).find(|(_, data)| is_due(data));
            if let Some(rank) = due.map(|(rank, _)| rank) {
                let job = namespace.job;
                if let Some(data) = pmix.rank_data_mut(ProcId { job, rank }) {
                    data.fetches = PendingFetches::None;
                }
                return Some(Event::ModexCommitted { job, rank });
            }
        }
        pmix.has_modex_event = false;
        None
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServerRef<'_, P, S> {
    /// The contribution of PMIx clients to a fence that was handed up, beside
    /// [`Server::fence_puts`](crate::server::Server::fence_puts): all data for other nodes of each rank that
    /// has committed since the fence before, without that which
    /// [`keep_fence_modex`](PmixServer::keep_fence_modex) has left out.
    ///
    /// Changes after: [`end_fence`](crate::server::Server::end_fence), and a commit.
    pub fn fence_modex(&self, job: JobId) -> impl Iterator<Item = BlockRecord<'_>> {
        let shared = self.shared;
        let both = shared.pmix.namespace(job).zip(shared.job(job));
        both.into_iter().flat_map(|(namespace, job)| {
            ranked(namespace.ranks.as_ref()).filter_map(|(writer, data)| {
                let blob = data.remote.as_ref().filter(|_| job.is_due(data.fence))?;
                Some(record_of(writer, data.version, blob))
            })
        })
    }

    /// Committed data of ranks on other nodes that is here: records one after the other.
    ///
    /// Changes after: [`PmixServer::add_remote`], [`PmixServer::add_fetched`].
    pub fn carried_modex(&self, job: JobId) -> &[u8] {
        let namespace = self.shared.pmix.namespace(job);
        let block = namespace.and_then(|namespace| namespace.remote.block.as_ref());
        block.map_or(&b""[..], AsRef::as_ref)
    }

    /// True if a client of this node in the current fence of a job has requested the data of all others with
    /// it (`PMIX_COLLECT_DATA`).
    ///
    /// Changes after: input of a client, and [`end_fence`](crate::server::Server::end_fence).
    pub fn collects_fence_data(&self, job: JobId) -> bool {
        self.shared.pmix.namespace(job).is_some_and(|namespace| namespace.collects_data)
    }
}

impl<'a, P: PmixStorage, S: Storage<Pmix = P>> PmixServerRef<'a, P, S> {
    /// The data that the get of a session waits for, until [`request_read`](PmixServer::request_read).
    pub fn modex_request(self, id: SessionId) -> Option<ModexRequest<'a>> {
        let Request::Get(get) = self.request(id)? else { return None };
        let proc = ProcId { job: self.shared.named(get.nspace)?, rank: Rank(get.rank) };
        Some(ModexRequest { proc, key: get.key })
    }
}

impl<S: Storage> Shared<S> {
    /// Data of a process of another node; `None` if it has committed nothing, or is here.
    pub(super) fn remote_blob(&self, proc: ProcId) -> Option<ModexBlob<&[u8]>> {
        self.pmix.namespace(proc.job)?.remote.find(proc.rank)
    }
}

impl<S: Storage> Shared<S> {
    /// True if a response waits for data of a process on another node.
    pub(super) fn is_fetched(&self, response: &PmixResponse<BytesOf<S>>) -> bool {
        match response {
            PmixResponse::Get { job, rank, .. } if *rank != ranks::UNDEF => {
                self.job(*job).is_some_and(|job| job.is_remote(Rank(*rank)))
            }
            _ => false,
        }
    }
}

/// Result of merging one scope, which is reused if the other scope has equal input.
struct MergedScope<'a, B> {
    old: Option<ModexBlob<B>>,
    fresh: &'a [u8],
    blob: ModexBlob<B>,
}

impl<B: SharedBytes> MergedScope<'_, B> {
    /// True if these inputs give the same blob.
    fn is_of(&self, old: Option<&ModexBlob<B>>, fresh: &[u8]) -> bool {
        let same_old = match (&self.old, old) {
            (None, None) => true,
            (Some(one), Some(other)) => {
                one.format == other.format && one.answer.as_ref() == other.answer.as_ref()
            }
            _ => false,
        };
        same_old && self.fresh == fresh
    }
}
