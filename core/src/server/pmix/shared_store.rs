//! Calls for an owner that keeps a store of a job in memory, which clients read in place of requests.
//!
//! The core neither writes the store nor knows its format. It tells the owner which clients read one, and
//! lends what a rank has committed for its own node; a value that the store lacks is sent on request, as to
//! all other clients.

use super::context::{PmixServer, PmixServerRef};
use super::tables::PmixStorage;
use crate::error::Misuse;
use crate::ids::{JobId, ProcId, SessionId};
use crate::server::Storage;
use crate::wire::pmix::{Format, Kvals};

/// Data that a rank has committed for the processes of its node.
#[derive(Clone, Debug)]
pub struct CommittedData<'a, B> {
    /// The bytes that hold the values; a clone keeps this version of them.
    pub bytes: &'a B,
    /// All values; the last one of a key holds.
    pub kvals: Kvals<'a>,
    /// Format of the values.
    pub format: Format,
}

impl<P: PmixStorage, S: Storage<Pmix = P>> PmixServer<'_, P, S> {
    /// Admits clients of a job that read its store. Their answers to REQ lack what the store has: the values
    /// of the job and of its ranks.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoSuch`] if PMIx clients do not know the job.
    pub fn set_shared_store(&mut self, job: JobId) -> Result<(), Misuse> {
        let namespace = self.shared.pmix.namespace_mut(job);
        namespace.ok_or(Misuse::NoSuch { what: "job" })?.has_store = true;
        Ok(())
    }
}

impl<'a, P: PmixStorage, S: Storage<Pmix = P>> PmixServerRef<'a, P, S> {
    /// Number of commits of a process for its node, from 0; `None` if it is no rank of this node.
    pub fn commit_version(self, proc: ProcId) -> Option<u32> {
        Some(self.shared.pmix.rank_data(proc)?.local_version)
    }

    /// Data that a process of this node has committed for its node, if any.
    pub fn committed_data(self, proc: ProcId) -> Option<CommittedData<'a, P::Bytes>> {
        let blob = self.shared.pmix.rank_data(proc)?.local.as_ref()?;
        Some(CommittedData { bytes: &blob.answer, kvals: blob.kvals(), format: blob.format })
    }

    /// True if the client of a session reads the store of its job.
    pub fn reads_store(self, id: SessionId) -> bool {
        self.sessions.state(id).is_some_and(|state| state.protocol.reads_store)
    }
}
