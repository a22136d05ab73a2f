//! Direct modex: data of a rank on another node, fetched when a get waits for it.
//!
//! The server of the get reports it ([`Event::ModexRequested`]). The owner asks the server of the rank
//! ([`PmixServer::committed`]), repeats that when the rank has committed more
//! ([`Event::ModexCommitted`]), and adds what it receives ([`PmixServer::add_fetched`]), which answers all
//! gets that wait for it. Fetched data stays, as that of fences does.

use super::context::PmixView;
use super::rank_data::{PendingFetches, RankData, record_of};
use super::server::{PmixServer, PmixServerRef};
use super::session::PmixResponse;
use super::tables::PmixStorage;
use crate::ids::{JobId, ProcId, Rank, SessionId};
use crate::server::member::Member;
use crate::server::roster::ranked;
use crate::server::{Event, RemoteError, Storage};
use crate::storage::Slots;
use crate::store::BlockRecord;
use crate::wire::pmix::names::Status;
use crate::wire::pmix::{Request, ranks};

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

impl<'a, P: PmixStorage, S: Storage<Pmix = P>> PmixServerRef<'a, P, S> {
    /// The data that the get of a session waits for, until [`request_read`](PmixServer::request_read).
    pub fn modex_request(self, id: SessionId) -> Option<ModexRequest<'a>> {
        let Request::Get(get) = self.request(id)? else { return None };
        let proc = ProcId { job: self.view.named(get.nspace)?, rank: Rank(get.rank) };
        Some(ModexRequest { proc, key: get.key })
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Data that a process of this node has committed for other nodes. A request that has to wait is noted
    /// for [`Event::ModexCommitted`].
    pub fn committed(&mut self, request: ModexRequest<'_>) -> ModexAnswer<'_> {
        let ModexRequest { proc, key } = request;
        let is_gone = self.context.view().member(proc).is_none_or(Member::is_gone);
        let Some(data) = self.context.pmix.rank_data_mut(proc) else {
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
        if let Some(namespace) = self.context.pmix.namespace_mut(job) {
            namespace.mark_elsewhere();
        }
        let namespace = self.context.pmix.namespace(job);
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
        let data = self.context.pmix.rank_data_mut(proc);
        if let Some(data) = data.filter(|data| data.fetches == PendingFetches::Waiting) {
            data.fetches = PendingFetches::Due;
            self.context.pmix.has_modex_event = true;
        }
    }

    /// The next process with requests of other nodes that may have an answer.
    pub(in crate::server) fn take_modex_event(&mut self) -> Option<Event> {
        let shared = &mut *self.context.pmix;
        if !shared.has_modex_event {
            return None;
        }
        for at in 0..shared.namespaces.end() {
            let Some(namespace) = shared.namespaces.get_mut(at) else { continue };
            let is_due = |data: &RankData<P::Bytes>| data.fetches == PendingFetches::Due;
            let due = ranked(namespace.ranks.as_ref()).find(|(_, data)| is_due(data));
            if let Some(rank) = due.map(|(rank, _)| rank) {
                let job = namespace.job;
                if let Some(data) = shared.rank_data_mut(ProcId { job, rank }) {
                    data.fetches = PendingFetches::None;
                }
                return Some(Event::ModexCommitted { job, rank });
            }
        }
        shared.has_modex_event = false;
        None
    }
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixView<'_, P, S> {
    /// True if a response waits for data of a process on another node.
    pub(super) fn is_fetched(self, response: &PmixResponse<P::Bytes>) -> bool {
        match response {
            PmixResponse::Get { job, rank, .. } if *rank != ranks::UNDEF => {
                self.job(*job).is_some_and(|job| job.is_remote(Rank(*rank)))
            }
            _ => false,
        }
    }
}
