//! Modex over several nodes: what ranks here have committed for others, and what others have.

use super::context::PmixView;
use super::rank_data::{ModexBlob, record_of};
use super::server::{PmixServer, PmixServerRef};
use super::tables::PmixStorage;
use crate::error::Misuse;
use crate::ids::{JobId, ProcId};
use crate::server::roster::ranked;
use crate::server::{NO_JOB, RemoteError, Storage};
use crate::store::BlockRecord;

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServerRef<'_, P, S> {
    /// The contribution of PMIx clients to a fence that was handed up, beside
    /// [`Server::fence_puts`](crate::server::Server::fence_puts): all data for other nodes of each rank that
    /// has committed since the fence before, without that which
    /// [`keep_fence_modex`](PmixServer::keep_fence_modex) has left out.
    ///
    /// Changes after: [`end_fence`](crate::server::Server::end_fence), and a commit.
    pub fn fence_modex(&self, job: JobId) -> impl Iterator<Item = BlockRecord<'_>> {
        let view = self.view;
        let both = view.pmix.namespace(job).zip(view.job(job));
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
        let namespace = self.view.pmix.namespace(job);
        let block = namespace.and_then(|namespace| namespace.remote.block.as_ref());
        block.map_or(&b""[..], AsRef::as_ref)
    }

    /// True if a client of this node in the current fence of a job has requested the data of all others with
    /// it (`PMIX_COLLECT_DATA`).
    ///
    /// Changes after: input of a client, and [`end_fence`](crate::server::Server::end_fence).
    pub fn collects_fence_data(&self, job: JobId) -> bool {
        self.view.pmix.namespace(job).is_some_and(|namespace| namespace.collects_data)
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
        let of = self.context.common.job(job).ok_or(RemoteError::Misuse(NO_JOB))?;
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
        let of = self.context.common.job(job);
        let both = self.context.pmix.namespace_mut(job).zip(of);
        let Some((namespace, of)) = both else { return };
        for data in namespace.ranks.as_mut() {
            if of.is_due(data.fence) && !data.is_elsewhere {
                data.fence = 0;
            }
        }
    }

    /// Adds the committed data of other nodes of a block, at any time.
    pub(super) fn add_modex(&mut self, job: JobId, block: &[u8]) -> Result<(), RemoteError> {
        let of = self.context.common.job(job).ok_or(RemoteError::Misuse(NO_JOB))?;
        // A job without PMIx clients keeps nothing for them.
        let Some(namespace) = self.context.pmix.namespace_mut(job) else { return Ok(()) };
        namespace.remote.add(block, |rank| of.is_remote(rank)).map_err(RemoteError::Block)?;
        self.answer_remote_gets(job);
        Ok(())
    }
}

impl<'a, P: PmixStorage, S: Storage<Pmix = P>> PmixView<'a, P, S> {
    /// Data of a process of another node; `None` if it has committed nothing, or is here.
    pub(super) fn remote_blob(self, proc: ProcId) -> Option<ModexBlob<&'a [u8]>> {
        self.pmix.namespace(proc.job)?.remote.find(proc.rank)
    }
}
